package workspace_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/plugins/command/workspace"
)

// replaced puts something else in the place of a file or folder.
func replaced(t *testing.T, path string, by func(path string) error) {
	t.Helper()
	must(t, os.RemoveAll(path))
	must(t, by(path))
}

func TestARepositoryCannotLeadElsewhere(t *testing.T) {
	private := committed(t, map[string]string{"secret": "s"})
	lead := func(to string) func(string) error {
		return func(path string) error { return os.Symlink(filepath.Join(private, to), path) }
	}
	text := func(content string) func(string) error {
		return func(path string) error {
			return errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(content), 0o600))
		}
	}
	for name, by := range map[string]func(string) error{
		".git":                         lead(".git"),
		".git (a file)":                text("gitdir: " + private + "/.git\n"),
		".git/objects":                 lead(".git/objects"),
		".git/objects/pack":            lead(".git/objects/pack"),
		".git/objects/ab":              lead(".git/objects"),
		".git/objects/info":            lead(".git/objects/info"),
		".git/objects/info/alternates": text(private + "/.git/objects\n"),
		".git/commondir":               text(private + "/.git\n"),
		".git/refs":                    lead(".git/refs"),
		".git/HEAD":                    lead(".git/HEAD"),
		".git/packed-refs":             lead(".git/HEAD"),
		".git/config":                  lead(".git/config"),
	} {
		dir := committed(t, map[string]string{"a": "x"})
		replaced(t, filepath.Join(dir, strings.TrimSuffix(name, " (a file)")), by)
		if s, err := workspace.Take(t.Context(), dir, workspace.Options{}); err == nil {
			t.Errorf("%s: Take = %+v, want that it is refused", name, s)
		}
	}
}

func TestAFileThatGitWouldWaitForIsRefused(t *testing.T) {
	for _, name := range []string{
		".git/config", ".git/HEAD", ".git/index", ".git/packed-refs", ".git/shallow", ".git/info/exclude", ".git/info/sparse-checkout",
		".git/refs/heads/x", ".git/objects/info/alternates", ".git/commondir", ".git/config.worktree", ".gitignore", "deep/er/.gitignore",
	} {
		dir := committed(t, map[string]string{"a": "x", "deep/er/b": "y"})
		replaced(t, filepath.Join(dir, name), func(path string) error { return syscall.Mkfifo(path, 0o600) })
		began := time.Now()
		_, err := workspace.Take(t.Context(), dir, workspace.Options{})
		if err == nil || !strings.Contains(err.Error(), "regular file") && !strings.Contains(err.Error(), "is not a file") || time.Since(began) > 5*time.Second {
			t.Errorf("%s: %v after %s", name, err, time.Since(began))
		}
	}
}

// overwrite gives the file of a loose object the content of another one.
func overwrite(t *testing.T, dir, object, with string) {
	t.Helper()
	file := func(id string) string { return filepath.Join(dir, ".git/objects", id[:2], id[2:]) }
	content, err := os.ReadFile(file(git(t, dir, "rev-parse", with)))
	must(t, err)
	at := file(git(t, dir, "rev-parse", object))
	must(t, os.Chmod(at, 0o600)) //nolint:gosec // a test file
	must(t, os.WriteFile(at, content, 0o600))
}

func TestTheIDOfACommitCannotBeForged(t *testing.T) {
	for name, swap := range map[string]func(t *testing.T, dir string){
		"file":   func(t *testing.T, dir string) { overwrite(t, dir, "first:tests/a_test", "HEAD:tests/a_test") },
		"folder": func(t *testing.T, dir string) { overwrite(t, dir, "first:tests", "HEAD:tests") },
		"top":    func(t *testing.T, dir string) { overwrite(t, dir, "first^{tree}", "HEAD^{tree}") },
		"commit": func(t *testing.T, dir string) { overwrite(t, dir, "first", "HEAD") },
		"a tag in place of the commit": func(t *testing.T, dir string) {
			git(t, dir, "tag", "-a", "forged", "-m", "x", "HEAD")
			overwrite(t, dir, "first", "forged")
		},
	} {
		for _, format := range []string{"sha1", "sha256"} {
			dir := folder(t, map[string]string{"tests/a_test": "exit 1"})
			git(t, dir, "init", "-q", "-b", "main", "--object-format="+format)
			git(t, dir, "add", "-A")
			git(t, dir, "commit", "-q", "-m", "first")
			git(t, dir, "branch", "first")
			id := git(t, dir, "rev-parse", "HEAD")
			write(t, dir, map[string]string{"tests/a_test": "exit 0"})
			git(t, dir, "commit", "-q", "-a", "-m", "second")
			protect := func() error {
				return take(t, dir, workspace.Options{}).Protect(t.Context(), id, []string{"tests/**"})
			}
			if err := protect(); err == nil || !strings.Contains(err.Error(), "was changed") {
				t.Fatalf("%s: Protect = %v before anything is forged", format, err)
			}
			swap(t, dir)
			if err := protect(); err == nil || !strings.Contains(err.Error(), "not what its id says") {
				t.Errorf("%s, %s: Protect = %v", name, format, err)
			}
		}
	}
}

func TestCommitsSwappedAfterTheSnapshotAreNotCopied(t *testing.T) {
	dir := committed(t, map[string]string{"deploy.sh": "echo approved"})
	git(t, dir, "tag", "v1")
	write(t, dir, map[string]string{"other": "echo other"})
	id := git(t, dir, "hash-object", "-w", "other")
	must(t, os.Remove(filepath.Join(dir, "other")))
	s := take(t, dir, workspace.Options{})
	overwrite(t, dir, "v1:deploy.sh", id)
	if got := git(t, dir, "show", "v1:deploy.sh"); got != "echo other" {
		t.Fatalf("the object is not forged: %s", got)
	}
	if err := s.Put(t.Context(), t.TempDir()); err == nil || !strings.Contains(err.Error(), "not what their ids say") {
		t.Errorf("Put = %v", err)
	}
}

func TestTheCopyReadsNothingOfTheRepository(t *testing.T) {
	dir := committed(t, map[string]string{"a": "x"})
	git(t, dir, "tag", "-a", "v1", "-m", "release")
	into := put(t, take(t, dir, workspace.Options{}))
	must(t, os.RemoveAll(filepath.Join(dir, ".git")))
	if got := git(t, into, "describe", "--dirty") + git(t, into, "fsck"); got != "v1" {
		t.Errorf("git says %q", got)
	}
	if _, err := os.Stat(filepath.Join(into, ".git/objects/info/alternates")); err == nil {
		t.Error("the copy reads objects elsewhere")
	}
}

func TestGraftsAndReplacementsDoNotCount(t *testing.T) {
	dir := committed(t, map[string]string{"a": "x"})
	write(t, dir, map[string]string{"a": "y"})
	git(t, dir, "commit", "-q", "-a", "-m", "second")
	git(t, dir, "tag", "v2")
	write(t, dir, map[string]string{"a": "z"})
	git(t, dir, "commit", "-q", "-a", "-m", "third")
	want := git(t, dir, "log", "--format=%H %s")
	git(t, dir, "replace", "v2", "HEAD~2")
	write(t, dir, map[string]string{".git/info/grafts": git(t, dir, "rev-parse", "HEAD") + "\n"})
	if got := git(t, put(t, take(t, dir, workspace.Options{})), "log", "--format=%H %s"); got != want {
		t.Errorf("the copy has the commits %q, want %q", got, want)
	}
}

func TestOfAPartialCloneTheNewestCommitIsCopied(t *testing.T) {
	from := committed(t, map[string]string{"a": "x"})
	git(t, from, "config", "uploadpack.allowFilter", "true")
	git(t, from, "tag", "v1")
	write(t, from, map[string]string{"a": "y"})
	git(t, from, "commit", "-q", "-a", "-m", "second")
	git(t, from, "tag", "v2")
	dir := filepath.Join(t.TempDir(), "clone")
	git(t, from, "clone", "-q", "--filter=blob:none", "file://"+from, dir)
	s := take(t, dir, workspace.Options{})
	if !strings.Contains(s.History, "without earlier") {
		t.Errorf("history = %q", s.History)
	}
	into := put(t, s)
	if got := git(t, into, "log", "--format=%s") + git(t, into, "tag") + git(t, into, "status", "--porcelain"); got != "secondv2" {
		t.Errorf("the copy says %q", got)
	}
	if got := git(t, dir, "rev-list", "--objects", "--missing=print", "--all"); !strings.Contains(got, "?") {
		t.Error("missing objects were fetched")
	}
}
