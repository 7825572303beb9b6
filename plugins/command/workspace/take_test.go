package workspace_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/plugins/command/workspace"
)

func TestASnapshotHasWhatGitDoesNotIgnore(t *testing.T) {
	dir := committed(t, map[string]string{
		".gitignore": "*.log\n/cache/\n", "main.go": "package main", "run.sh": "#!/bin/sh\n", "deep/er/file": "x", "gone": "x", "to": "-> main.go", "out": "-> /etc/passwd",
		"was a file": "x",
	})
	must(t, os.Remove(filepath.Join(dir, "gone")))
	must(t, os.Remove(filepath.Join(dir, "was a file")))
	write(t, dir, map[string]string{
		"main.go": "package changed", "new": "untracked", "x.log": "ignored", "cache/a": "ignored", "was a file/now": "a folder", "ünï\ncode": "x", "-dash": "x",
	})
	write(t, dir, map[string]string{"staged.log": "x"})
	git(t, dir, "add", "-f", "staged.log")
	want := map[string]string{
		".gitignore": "*.log\n/cache/\n", "main.go": "package changed", "run.sh": "#!/bin/sh\n", "deep/er/file": "x", "to": "-> main.go", "out": "-> /etc/passwd",
		"new": "untracked", "was a file/now": "a folder", "ünï\ncode": "x", "-dash": "x", "staged.log": "x",
	}
	if diff := cmp.Diff(want, holds(t, put(t, take(t, dir, workspace.Options{})))); diff != "" {
		t.Error(diff)
	}
	want["cache/a"] = "ignored"
	if diff := cmp.Diff(want, holds(t, put(t, take(t, dir, workspace.Options{Include: []string{"cache/", "not there"}})))); diff != "" {
		t.Errorf("with an ignored folder: %s", diff)
	}
}

func TestASnapshotOfAFolderWithoutGitHasEverything(t *testing.T) {
	files := map[string]string{".gitignore": "*.log", "x.log": "x", ".hidden/y": "y", "empty/": "", "l": "-> nowhere", "run": "#!/bin/sh", "in/.GIT": "x"}
	dir := folder(t, files)
	write(t, dir, map[string]string{"in/.git/config": "x"})
	delete(files, "in/.GIT")
	files["in/"] = ""
	into := put(t, take(t, dir, workspace.Options{}))
	if diff := cmp.Diff(files, holds(t, into)); diff != "" {
		t.Error(diff)
	}
	if info, err := os.Stat(filepath.Join(into, "run")); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("the mode of an executable is %v, %v, want 0755", info.Mode(), err)
	}
}

func TestRepositoriesInARepositoryAreTaken(t *testing.T) {
	library := committed(t, map[string]string{"lib.go": "lib", ".gitignore": "*.o"})
	dir := committed(t, map[string]string{"main.go": "x"})
	git(t, dir, "submodule", "--quiet", "add", library, "vendored/lib")
	git(t, dir, "submodule", "--quiet", "add", library, "absent")
	git(t, dir, "submodule", "--quiet", "deinit", "--force", "absent")
	write(t, dir, map[string]string{"vendored/lib/x.o": "ignored there", "vendored/lib/new": "untracked there"})
	git(t, dir, "init", "-q", "other")
	write(t, dir, map[string]string{"other/file": "y"})
	want := map[string]string{
		"main.go": "x", "vendored/lib/lib.go": "lib", "vendored/lib/.gitignore": "*.o", "vendored/lib/new": "untracked there", "absent/": "", "other/file": "y",
	}
	got := holds(t, put(t, take(t, dir, workspace.Options{})))
	delete(got, ".gitmodules")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestALinkedWorkTreeIsTaken(t *testing.T) {
	dir := committed(t, map[string]string{"a": "x", ".gitignore": "*.log"})
	linked := filepath.Join(t.TempDir(), "linked")
	git(t, dir, "worktree", "add", "-q", "--detach", linked)
	write(t, linked, map[string]string{"b": "y", "c.log": "ignored"})
	if _, err := workspace.Take(t.Context(), linked, workspace.Options{}); err == nil || !strings.Contains(err.Error(), "list its folder in repositories") {
		t.Errorf("Take = %v: the operator did not name the repository", err)
	}
	into := put(t, take(t, linked, workspace.Options{Repositories: []string{filepath.Join(dir, ".git")}}))
	if diff := cmp.Diff(map[string]string{"a": "x", "b": "y", ".gitignore": "*.log"}, holds(t, into)); diff != "" {
		t.Error(diff)
	}
}

func TestEveryChangeChangesTheDigest(t *testing.T) {
	files := map[string]string{"a": "one", "b": "two", "run": "#!/bin/sh", "l": "-> a", "d/e": "x", "none/": ""}
	dir := folder(t, files)
	in := func(name string) string { return filepath.Join(dir, name) }
	seen := map[string]string{take(t, dir, workspace.Options{}).Digest: "nothing"}
	for _, c := range []struct {
		name   string
		change func() error
	}{
		{"content", func() error { return os.WriteFile(in("a"), []byte("onE"), 0o600) }},
		{"mode", func() error { return os.Chmod(in("a"), 0o700) }},
		{"name", func() error { return os.Rename(in("b"), in("c")) }},
		{"target", func() error { return errors.Join(os.Remove(in("l")), os.Symlink("c", in("l"))) }},
		{"link to file", func() error { return errors.Join(os.Remove(in("l")), os.WriteFile(in("l"), []byte("c"), 0o600)) }},
		{"new file", func() error { return os.WriteFile(in("d/f"), nil, 0o600) }},
		{"deletion", func() error { return os.Remove(in("d/e")) }},
		{"empty folder", func() error { return os.Remove(in("none")) }},
	} {
		must(t, c.change())
		digest := take(t, dir, workspace.Options{}).Digest
		if before, ok := seen[digest]; ok {
			t.Errorf("after %s the digest is that after %s", c.name, before)
		}
		seen[digest] = c.name
	}
	digest := take(t, dir, workspace.Options{}).Digest
	must(t, os.Chmod(in("c"), 0o640))
	if got := take(t, dir, workspace.Options{}).Digest; got != digest {
		t.Error("permissions besides executable change the digest")
	}
}

func TestSpecialFilesAreSkippedAndNamed(t *testing.T) {
	for name, dir := range map[string]string{"plain": folder(t, map[string]string{"a": "x"}), "git": committed(t, map[string]string{"a": "x", "fifo": "x"})} {
		_ = os.Remove(filepath.Join(dir, "fifo"))
		must(t, syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
		s := take(t, dir, workspace.Options{})
		if s.Files != 1 || !cmp.Equal(s.Skipped, []string{"fifo"}) {
			t.Errorf("%s: %d files, skipped %v, want 1 and the fifo", name, s.Files, s.Skipped)
		}
	}
}

func TestWhatIsTooMuchIsRefused(t *testing.T) {
	many := committed(t, map[string]string{"a": "12345", "b": "12345", "c": "12345"})
	deep := folder(t, map[string]string{strings.Repeat("d/", 65) + "x": ""})
	for name, tc := range map[string]struct {
		dir  string
		o    workspace.Options
		says string
	}{
		"files":         {many, workspace.Options{MaxFiles: 2}, "more than 2 files"},
		"bytes":         {many, workspace.Options{MaxBytes: 14}, "more than 14 bytes"},
		"depth":         {deep, workspace.Options{}, "deeper than 64 folders"},
		"no folder":     {filepath.Join(many, "none"), workspace.Options{}, "there is no such folder"},
		"a file":        {filepath.Join(many, "a"), workspace.Options{}, "it is not a folder"},
		"relative":      {"x", workspace.Options{}, "not an absolute path"},
		"include above": {many, workspace.Options{Include: []string{"../x"}}, "does not name a file or folder of the workspace"},
		"include git":   {many, workspace.Options{Include: []string{".git/config"}}, "does not name a file or folder of the workspace"},
		"include all":   {many, workspace.Options{Include: []string{"."}}, "does not name a file or folder of the workspace"},
	} {
		if _, err := workspace.Take(t.Context(), tc.dir, tc.o); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v, want %q", name, err, tc.says)
		}
	}
	if s := take(t, many, workspace.Options{MaxFiles: 3, MaxBytes: 15}); s.Files != 3 || s.Bytes != 15 {
		t.Errorf("at the limits: %d files of %d bytes, want 3 of 15", s.Files, s.Bytes)
	}
}

func TestPutFailsWhereTheWorkspaceChanged(t *testing.T) {
	for name, change := range map[string]func(dir string) error{
		"content":      func(dir string) error { return os.WriteFile(filepath.Join(dir, "a"), []byte("onE"), 0o600) },
		"mode":         func(dir string) error { return os.Chmod(filepath.Join(dir, "a"), 0o700) },
		"deleted":      func(dir string) error { return os.Remove(filepath.Join(dir, "a")) },
		"folder moved": func(dir string) error { return os.Rename(filepath.Join(dir, "d"), filepath.Join(dir, "e")) },
		"folder became a link": func(dir string) error {
			return errors.Join(os.Rename(filepath.Join(dir, "d"), filepath.Join(dir, "e")), os.Symlink("e", filepath.Join(dir, "d")))
		},
		"file became a link": func(dir string) error {
			return errors.Join(os.Rename(filepath.Join(dir, "a"), filepath.Join(dir, "e")), os.Symlink("e", filepath.Join(dir, "a")))
		},
	} {
		dir := folder(t, map[string]string{"a": "one", "d/b": "two"})
		s := take(t, dir, workspace.Options{})
		must(t, change(dir))
		if err := s.Put(t.Context(), t.TempDir()); err == nil || !strings.Contains(err.Error(), "was changed meanwhile") {
			t.Errorf("%s: Put = %v, want that it was changed", name, err)
		}
	}
	dir := folder(t, map[string]string{"a": "one"})
	if err := take(t, dir, workspace.Options{}).Put(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "is not empty") {
		t.Errorf("Put into a folder with files = %v", err)
	}
}
