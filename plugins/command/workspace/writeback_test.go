package workspace_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/plugins/command/workspace"
)

// both runs a test with a plain folder and with a git work tree of these files.
func both(t *testing.T, files map[string]string, test func(t *testing.T, dir string)) {
	t.Helper()
	t.Run("plain", func(t *testing.T) { test(t, folder(t, files)) })
	t.Run("git", func(t *testing.T) { test(t, committed(t, files)) })
}

func TestChangesAreWrittenBack(t *testing.T) {
	files := map[string]string{
		"same": "1", "changed": "2", "gone": "3", "run": "#!/bin/sh", "l": "-> same", "d/a": "4", "d/e/b": "5", "file": "6", "dir/x": "7", "dir/y": "8",
	}
	both(t, files, func(t *testing.T, dir string) {
		must(t, os.Chmod(filepath.Join(dir, "changed"), 0o640))
		s := take(t, dir, workspace.Options{})
		from := put(t, s)
		for _, name := range []string{"gone", "l", "d", "file", "dir", "run"} {
			must(t, os.RemoveAll(filepath.Join(from, name)))
		}
		write(t, from, map[string]string{
			"changed": "#!changed", "l": "-> changed", "new/deep/n": "new", "file/now/a": "folder", "dir": "a file now", "run": "plain now", "x": "-> new/deep/n", ".git/hooks/post-checkout": "#!/bin/sh",
		})
		written, err := s.WriteBack(t.Context(), from)
		must(t, err)
		if want := []string{"changed", "d/a", "d/e/b", "dir", "dir/x", "dir/y", "file", "file/now/a", "gone", "l", "new/deep/n", "run", "x"}; !cmp.Equal(written, want) {
			t.Errorf("WriteBack = %v, want %v", written, want)
		}
		want := map[string]string{"same": "1", "changed": "#!changed", "l": "-> changed", "new/deep/n": "new", "file/now/a": "folder", "dir": "a file now", "run": "plain now", "x": "-> new/deep/n"}
		if diff := cmp.Diff(want, holds(t, dir)); diff != "" {
			t.Error(diff)
		}
		if _, err := os.Stat(filepath.Join(dir, ".git/hooks/post-checkout")); !os.IsNotExist(err) {
			t.Errorf("a hook was written: %v", err)
		}
		for name, want := range map[string]os.FileMode{"changed": 0o750, "run": 0o600} {
			if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != want {
				t.Errorf("the mode of %s is %v, %v, want %v", name, info.Mode(), err, want)
			}
		}
	})
}

func TestWhatGitIgnoresIsNotWrittenBack(t *testing.T) {
	lib := committed(t, map[string]string{"lib.go": "lib", ".gitignore": "*.o"})
	dir := committed(t, map[string]string{".gitignore": "*.log\n/cache/\n/made/\n", "a": "x", "kept.log.txt": "y"})
	git(t, dir, "submodule", "--quiet", "add", lib, "lib")
	write(t, dir, map[string]string{"tracked.log": "t", "cache/in": "1", "other.log": "not in the snapshot"})
	git(t, dir, "add", "-f", "tracked.log")
	git(t, dir, "commit", "-q", "-m", "second")
	s := take(t, dir, workspace.Options{Include: []string{"cache", "made/in"}})
	from := put(t, s)
	write(t, from, map[string]string{"tracked.log": "T", "cache/in": "2", "cache/more": "3", "made/in": "4", "made/out": "5", "x.log": "x", "other.log": "x", "lib/x.o": "x", "lib/new.go": "n", "lib/lib.go": "LIB"})
	written, err := s.WriteBack(t.Context(), from)
	must(t, err)
	if want := []string{"cache/in", "cache/more", "lib/lib.go", "lib/new.go", "made/in", "tracked.log"}; !cmp.Equal(written, want) {
		t.Errorf("WriteBack = %v, want %v", written, want)
	}
	got := holds(t, dir)
	if _, ok := got["x.log"]; ok || got["other.log"] != "not in the snapshot" || got["cache/more"] != "3" || got["lib/lib.go"] != "LIB" {
		t.Errorf("the workspace has %v", got)
	}
}

func TestNothingIsWrittenBackWhereItCannotBe(t *testing.T) {
	outside := folder(t, map[string]string{"secret": "s"})
	for name, tc := range map[string]struct {
		inside  func(from string) error // what the command does
		outside func(dir string) error  // what others do meanwhile
		says    string
	}{
		"changed by others": {func(string) error { return nil }, func(dir string) error { return os.WriteFile(filepath.Join(dir, "a"), []byte("z"), 0o600) }, "was changed meanwhile"},
		"added by others":   {func(string) error { return nil }, func(dir string) error { return os.WriteFile(filepath.Join(dir, "z"), nil, 0o600) }, "was changed meanwhile"},
		"absolute link":     {func(from string) error { return os.Symlink(outside, filepath.Join(from, "z")) }, nil, "outside of the workspace"},
		"climbing link":     {func(from string) error { return os.Symlink("../../z", filepath.Join(from, "d", "z")) }, nil, "outside of the workspace"},
		"winding link":      {func(from string) error { return os.Symlink("d/../../z", filepath.Join(from, "z")) }, nil, "outside of the workspace"},
		"through a link": {func(from string) error {
			return errors.Join(os.Symlink("a", filepath.Join(from, "x")), os.Symlink("x/../y", filepath.Join(from, "z")))
		}, nil, "outside of the workspace"},
		"ignored file in the way": {func(from string) error {
			return errors.Join(os.WriteFile(filepath.Join(from, ".gitignore"), nil, 0o600), os.WriteFile(filepath.Join(from, "z.log"), []byte("x"), 0o600))
		}, func(dir string) error { return os.WriteFile(filepath.Join(dir, "z.log"), []byte("kept"), 0o600) }, "is in the way"},
		"ignored link in the way of a folder": {func(from string) error {
			return errors.Join(os.WriteFile(filepath.Join(from, ".gitignore"), nil, 0o600), os.MkdirAll(filepath.Join(from, "z.log"), 0o755), os.WriteFile(filepath.Join(from, "z.log/secret"), []byte("x"), 0o600))
		}, func(dir string) error { return os.Symlink(outside, filepath.Join(dir, "z.log")) }, "is in the way"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := committed(t, map[string]string{"a": "x", "b": "y", "d/e": "z", ".gitignore": "*.log\n"})
			s := take(t, dir, workspace.Options{})
			from := put(t, s)
			must(t, os.Remove(filepath.Join(from, "b")))
			must(t, os.RemoveAll(filepath.Join(from, "d/e")))
			must(t, os.WriteFile(filepath.Join(from, "a"), []byte("new"), 0o600))
			must(t, os.Mkdir(filepath.Join(from, "c"), 0o755))
			must(t, os.WriteFile(filepath.Join(from, "c/d"), []byte("new"), 0o600))
			must(t, tc.inside(from))
			if tc.outside != nil {
				must(t, tc.outside(dir))
			}
			before := holds(t, dir)
			written, err := s.WriteBack(t.Context(), from)
			if err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("WriteBack = %v, %v, want %q", written, err, tc.says)
			}
			if diff := cmp.Diff(before, holds(t, dir)); diff != "" {
				t.Errorf("the workspace was changed: %s", diff)
			}
			if diff := cmp.Diff(map[string]string{"secret": "s"}, holds(t, outside)); diff != "" {
				t.Errorf("what lies outside was changed: %s", diff)
			}
		})
	}
}

func TestACommandsRepositoryHasNoSayInWhatIsWrittenBack(t *testing.T) {
	marker := filepath.Join(t.TempDir(), "ran")
	dir := committed(t, map[string]string{"a": "x"})
	s := take(t, dir, workspace.Options{})
	from := put(t, s)
	git(t, from, "config", "core.fsmonitor", "touch "+marker)
	write(t, from, map[string]string{".git/info/exclude": "new\n", "new": "y", "nested/file": "z"})
	git(t, from, "init", "-q", "nested")
	git(t, from, "-C", "nested", "config", "core.fsmonitor", "touch "+marker)
	must(t, syscall.Mkfifo(filepath.Join(from, "fifo"), 0o600))
	written, err := s.WriteBack(t.Context(), from)
	must(t, err)
	if want := []string{"nested/file", "new"}; !cmp.Equal(written, want) {
		t.Errorf("WriteBack = %v, want %v", written, want)
	}
	if _, err := os.Stat(marker); !os.IsNotExist(err) {
		t.Errorf("a program of the command's repository ran: %v", err)
	}
}

func TestACancelledWriteBackWritesNothing(t *testing.T) {
	both(t, map[string]string{"a": "x"}, func(t *testing.T, dir string) {
		s := take(t, dir, workspace.Options{})
		from := put(t, s)
		write(t, from, map[string]string{"a": "y", "b": "z"})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := s.WriteBack(ctx, from); !errors.Is(err, context.Canceled) {
			t.Errorf("WriteBack = %v, want that it was cancelled", err)
		}
		if got := holds(t, dir); !maps.Equal(got, map[string]string{"a": "x"}) {
			t.Errorf("the workspace has %v", got)
		}
	})
}
