package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

func TestACommandCanAskGit(t *testing.T) {
	w := newWorld(t, "")
	w.commit()
	git(t, w.dir, "tag", "v1")
	w.write("main.txt", "two\n")
	r := w.run("git describe --tags --dirty && git log --format=%s && git show HEAD:main.txt && git status --porcelain")
	if want := "v1-dirty\nfirst\none\n M main.txt\n"; r.ExitCode != 0 || r.Stdout != want {
		t.Errorf("git says %q, %q with %d, want %q", r.Stdout, r.Stderr, r.ExitCode, want)
	}
	for _, line := range []string{"echo x >.git/x", "git tag v2", "echo x >.git/objects/x", "git config core.pager true"} {
		if r := w.run(line); r.ExitCode == 0 {
			t.Errorf("%q succeeds: the .git of the copy can be written", line)
		}
	}
}

// A person approves a command; then the folder of the objects leads elsewhere.
func TestTheFolderOfTheObjectsLeadsNowhere(t *testing.T) {
	w := newWorld(t, "")
	w.commit()
	private := filepath.Join(filepath.Dir(w.dir), "private")
	objects := filepath.Join(w.dir, ".git/objects")
	line := "cat .git/objects/key .git/objects/info/key"
	req := w.request(line, w.plan(line))
	if err := errors.Join(os.Rename(objects, private), os.WriteFile(filepath.Join(private, "key"), []byte("secret"), 0o644), os.Symlink(private, objects)); err != nil { //nolint:gosec // only the sandbox protects it
		t.Fatal(err)
	}
	if res := w.render(req); res.Unavailable == nil || !has(res.Unavailable.Reason, "objects is neither a regular file") || has(said(res), "secret") {
		t.Errorf("Render = %s", said(res))
	}
	res, err := w.c.Preview(t.Context(), driver.PreviewRequest{Input: shell(line)})
	if err != nil || res.Unavailable == nil || !has(res.Unavailable.Reason, "objects is neither a regular file") {
		t.Errorf("Preview = %+v, %v", res, err)
	}
	w.configure(`{"repositories":["` + private + `"]}`)
	if err := os.Remove(objects); err != nil {
		t.Fatal(err)
	}
	w.write(".git/objects/info/alternates", private+"\n")
	if r := w.run(line); has(r.Stdout, "secret") || r.ExitCode == 0 {
		t.Errorf("the command reads what lies beside the objects: %+v", r)
	}
}
