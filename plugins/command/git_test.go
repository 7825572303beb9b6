package main

import (
	"os/exec"
	"testing"
)

func TestACommandCanAskGit(t *testing.T) {
	w := newWorld(t, "")
	for _, args := range [][]string{
		{"init", "-q", "-b", "main"}, {"add", "-A"}, {"-c", "user.name=n", "-c", "user.email=n@example.com", "commit", "-q", "-m", "first"}, {"tag", "v1"},
	} {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = w.dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
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
