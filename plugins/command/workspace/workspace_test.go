package workspace_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/kairos-mcp/kairos/plugins/command/workspace"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// write makes files below a folder: name to content. A name that ends in a slash
// is a folder, a content that begins with "-> " a link, with "#!" executable.
func write(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if strings.HasSuffix(name, "/") {
			must(t, os.MkdirAll(path, 0o755))
			continue
		}
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		if target, ok := strings.CutPrefix(content, "-> "); ok {
			must(t, os.Symlink(target, path))
			continue
		}
		mode := os.FileMode(0o600)
		if strings.HasPrefix(content, "#!") {
			mode = 0o700
		}
		must(t, os.WriteFile(path, []byte(content), mode))
		must(t, os.Chmod(path, mode))
	}
}

// folder makes a folder without git that has these files.
func folder(t testing.TB, files map[string]string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	write(t, dir, files)
	return dir
}

// git runs git in a folder as a person does, with an identity.
func git(t testing.TB, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=n", "-c", "user.email=n@example.com", "-c", "protocol.file.allow=always"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// committed makes a git work tree in which these files are committed.
func committed(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := folder(t, files)
	git(t, dir, "init", "-q", "-b", "main")
	git(t, dir, "add", "-A")
	git(t, dir, "commit", "-q", "--allow-empty", "-m", "first")
	return dir
}

func take(t testing.TB, dir string, o workspace.Options) workspace.Snapshot {
	t.Helper()
	s, err := workspace.Take(t.Context(), dir, o)
	must(t, err)
	return s
}

func put(t testing.TB, s workspace.Snapshot) string {
	t.Helper()
	into := t.TempDir()
	must(t, s.Put(t.Context(), into))
	return into
}

// holds lists the files below a folder, but those of git: name to content, as
// write takes it.
func holds(t testing.TB, dir string) map[string]string {
	t.Helper()
	found := make(map[string]string)
	must(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		must(t, err)
		rel, err := filepath.Rel(dir, path)
		must(t, err)
		switch {
		case d.Name() == ".git":
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		case d.IsDir():
			in, err := os.ReadDir(path)
			must(t, err)
			if len(in) == 0 && rel != "." {
				found[rel+"/"] = ""
			}
		case d.Type() == os.ModeSymlink:
			target, err := os.Readlink(path)
			must(t, err)
			found[rel] = "-> " + target
		default:
			content, err := os.ReadFile(path)
			must(t, err)
			found[rel] = string(content)
		}
		return nil
	}))
	return found
}
