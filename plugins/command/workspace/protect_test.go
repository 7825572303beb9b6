package workspace_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/plugins/command/workspace"
)

// judged is a work tree with tests that judge it; origin/main is its first commit.
func judged(t *testing.T) string {
	t.Helper()
	dir := committed(t, map[string]string{
		".gitignore": "*.log\n", "Makefile": "test:", "main.go": "x", "tests/a_test": "a", "tests/deep/b_test": "#!/bin/sh", "tests/l": "-> a_test",
	})
	git(t, dir, "update-ref", "refs/remotes/origin/main", "HEAD")
	return dir
}

func TestWhatIsProtectedMustBeAsInTheCommit(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(dir string) error
		says   string
	}{
		"nothing":           {func(string) error { return nil }, ""},
		"another file":      {func(dir string) error { return os.WriteFile(filepath.Join(dir, "main.go"), []byte("y"), 0o600) }, ""},
		"another new file":  {func(dir string) error { return os.WriteFile(filepath.Join(dir, "tests.go"), nil, 0o600) }, ""},
		"ignored, not used": {func(dir string) error { return os.WriteFile(filepath.Join(dir, "tests/x.log"), nil, 0o600) }, ""},
		"changed":           {func(dir string) error { return os.WriteFile(filepath.Join(dir, "tests/a_test"), []byte("b"), 0o600) }, `"tests/a_test" was changed;`},
		"added":             {func(dir string) error { return os.WriteFile(filepath.Join(dir, "tests/deep/c"), nil, 0o600) }, `"tests/deep/c" was added;`},
		"added, hard to see": {func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "tests/test_\x01\xff.py"), nil, 0o600)
		}, `"tests/test_\x01\xff.py" was added;`},
		"deleted": {func(dir string) error { return os.Remove(filepath.Join(dir, "Makefile")) }, `"Makefile" was deleted;`},
		"mode":    {func(dir string) error { return os.Chmod(filepath.Join(dir, "tests/a_test"), 0o700) }, `"tests/a_test" was changed in its mode;`},
		"link for a file": {func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, "Makefile")), os.Symlink("main.go", filepath.Join(dir, "Makefile")))
		}, `"Makefile" was replaced;`},
		"target": {func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, "tests/l")), os.Symlink("deep/b_test", filepath.Join(dir, "tests/l")))
		}, `"tests/l" was changed;`},
		"folder for a link": {func(dir string) error {
			return errors.Join(os.Rename(filepath.Join(dir, "tests"), filepath.Join(dir, "t")), os.Symlink("t", filepath.Join(dir, "tests")))
		}, `"tests/a_test" was deleted, "tests/deep/b_test" was deleted, "tests/l" was deleted;`},
		"case of the folder": {func(dir string) error {
			return os.Rename(filepath.Join(dir, "tests"), filepath.Join(dir, "Tests"))
		}, `"tests/a_test" was deleted`},
	} {
		t.Run(name, func(t *testing.T) {
			dir := judged(t)
			must(t, tc.change(dir))
			err := take(t, dir, workspace.Options{}).Protect(t.Context(), "origin/main", []string{"tests/**", "Makefile"})
			if (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says) {
				t.Errorf("Protect = %v, want %q", err, tc.says)
			}
		})
	}
}

func TestAChangeThatIsCommittedStillDiffers(t *testing.T) {
	dir := judged(t)
	write(t, dir, map[string]string{"tests/a_test": "weaker"})
	git(t, dir, "commit", "-q", "-a", "-m", "second")
	for _, args := range [][]string{nil, {"update-index", "--assume-unchanged", "tests/a_test"}, {"update-index", "--skip-worktree", "tests/a_test"}, {"replace", "HEAD~1", "HEAD"}} {
		if args != nil {
			git(t, dir, args...)
		}
		if err := take(t, dir, workspace.Options{}).Protect(t.Context(), "origin/main", []string{"tests/**"}); err == nil || !strings.Contains(err.Error(), `"tests/a_test" was changed`) {
			t.Errorf("after git %v: Protect = %v", args, err)
		}
	}
}

func TestWhatCannotBeProtectedIsAnError(t *testing.T) {
	dir := judged(t)
	git(t, dir, "submodule", "--quiet", "add", judged(t), "lib")
	git(t, dir, "commit", "-q", "-m", "library")
	git(t, dir, "branch", "twice")
	git(t, dir, "tag", "twice")
	s := take(t, dir, workspace.Options{})
	for name, tc := range map[string]struct {
		ref   string
		paths []string
		says  string
	}{
		"unknown ref":      {"origin/master", []string{"tests/**"}, "no such commit"},
		"unknown commit":   {strings.Repeat("0", 40), []string{"tests/**"}, "no such commit"},
		"an option":        {"--output=/tmp/x", []string{"tests/**"}, "does not name a commit"},
		"no ref":           {"", []string{"tests/**"}, "does not name a commit"},
		"ambiguous":        {"twice", []string{"tests/**"}, "ambiguous; write the one you mean: refs/heads/twice, refs/tags/twice"},
		"a file":           {"HEAD:Makefile", []string{"tests/**"}, "no such commit"},
		"no paths":         {"HEAD", nil, "no paths are protected"},
		"a folder":         {"HEAD", []string{"tests"}, `no file matches "tests"`},
		"above":            {"HEAD", []string{"../x"}, "is not a glob"},
		"nothing there":    {"HEAD", []string{"tests/**", "test/**"}, `no file matches "test/**/*"`},
		"a submodule":      {"HEAD", []string{"lib"}, `the submodule "lib"`},
		"in a submodule":   {"HEAD", []string{"lib/tests/**"}, `the submodule "lib"`},
		"all, a submodule": {"HEAD", []string{"**"}, `the submodule "lib"`},
	} {
		if err := s.Protect(t.Context(), tc.ref, tc.paths); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v, want %q", name, err, tc.says)
		}
	}
	if err := take(t, folder(t, map[string]string{"a": ""}), workspace.Options{}).Protect(t.Context(), "HEAD", []string{"a"}); err == nil || !strings.Contains(err.Error(), "not the top of a git work tree") {
		t.Errorf("without git: %v", err)
	}
	git(t, dir, "checkout", "-q", "--detach")
	if err := take(t, dir, workspace.Options{}).Protect(t.Context(), "HEAD", []string{"tests/**"}); err != nil {
		t.Errorf("detached: %v", err)
	}
}

func TestAShallowCloneIsComparedWithWhatItHas(t *testing.T) {
	from := judged(t)
	write(t, from, map[string]string{"tests/a_test": "b"})
	git(t, from, "commit", "-q", "-a", "-m", "second")
	dir := filepath.Join(t.TempDir(), "clone")
	git(t, from, "clone", "-q", "--depth=1", "file://"+from, dir)
	s := take(t, dir, workspace.Options{})
	if err := s.Protect(t.Context(), "origin/main", []string{"tests/**"}); err != nil {
		t.Error(err)
	}
	if err := s.Protect(t.Context(), "origin/main~1", []string{"tests/**"}); err == nil || !strings.Contains(err.Error(), "no such commit") {
		t.Errorf("a commit that was not fetched: %v", err)
	}
	into := put(t, s)
	if got := git(t, into, "log", "--format=%s"); got != "second" {
		t.Errorf("the log of the copy is %q, want second", got)
	}
}
