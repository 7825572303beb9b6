package archtest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestReleaseCheckNamesOneStepAfterTheOther follows the check through a release
// in a repository that has nothing but the two modules.
func TestReleaseCheckNamesOneStepAfterTheOther(t *testing.T) {
	for _, tool := range []string{"git", "bash"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s IS MISSING, the release check was not tried", tool)
		}
	}
	check, err := filepath.Abs("../../.ci/release-check")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	run := func(name string, args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GOFLAGS=-mod=mod", "GOWORK=off",
			"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	must := func(name string, args ...string) {
		t.Helper()
		if out, err := run(name, args...); err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
	}
	write := func(name, content string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const sdk = module + "sdk"
	says := func(want string, done bool) {
		t.Helper()
		out, err := run(check, "1.2.3")
		if !strings.Contains(out, want) || (err == nil) != done {
			t.Fatalf("the check says (%v)\n%s\nwant %q, all done: %t", err, out, want, done)
		}
	}

	must("git", "init", "-q", "-b", "main")
	write("go.mod", "module "+strings.TrimSuffix(module, "/")+"\n\ngo 1.26.0\n\nrequire (\n\texample.com/other v1.0.0\n\t"+sdk+" v0.0.0\n)\n\nreplace "+sdk+" => ./sdk\n")
	write("sdk/go.mod", "module "+sdk+"\n\ngo 1.26.0\n")
	says("step 0", false)
	must("git", "add", "-A")
	must("git", "commit", "-qm", "all")
	says("git tag sdk/v1.2.3", false)
	must("git", "tag", "sdk/v1.2.3")
	says("-dropreplace "+sdk, false)

	write("sdk/more.go", "package sdk\n")
	must("git", "add", "-A")
	must("git", "commit", "-qm", "more")
	says("sdk has changed since sdk/v1.2.3", false)
	must("git", "checkout", "-q", "--detach", "sdk/v1.2.3")

	must("go", "mod", "edit", "-require", sdk+"@v1.2.3")
	must("git", "commit", "-qam", "the version alone")
	says("-dropreplace "+sdk, false) // go install refuses a module with a replace
	must("go", "mod", "edit", "-dropreplace", sdk)
	must("git", "commit", "-qam", "release")
	says("git tag v1.2.3", false)
	must("git", "tag", "v1.2.3")
	says("are tagged", true)
	must("git", "checkout", "-q", "main")
	says("step 1", false)
}
