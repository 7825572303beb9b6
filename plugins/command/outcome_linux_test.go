package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// asNobody runs the test again under an account without rights, if it runs as root,
// and reports whether this is that one.
func asNobody(t *testing.T) bool {
	t.Helper()
	if os.Geteuid() != 0 {
		return true
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), "TMPDIR=/tmp")
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("as nobody: %v\n%s", err, out)
	}
	if strings.Contains(string(out), "--- SKIP") {
		t.Skipf("as nobody: %s", out)
	}
	return false
}

// One approval allowed seven deployments: the folder could not be removed, so that the
// driver said that nothing was run.
func TestWhatACommandDoesToItsCopyDoesNotChangeItsOutcome(t *testing.T) {
	if !asNobody(t) {
		return
	}
	w := newWorld(t, "")
	for _, line := range []string{
		"mkdir d; touch d/f; chmod 0 d; echo ran",
		"mkdir -p d/e; touch d/e/f; chmod 0 d/e d; ln -s / l; chmod 500 .; echo ran",
	} {
		if r := w.run(line); r.ExitCode != 0 || r.Stdout != "ran\n" {
			t.Errorf("%q: report = %+v", line, r)
		}
		if left, _ := filepath.Glob(filepath.Join(os.TempDir(), "kairos-command-*")); left != nil {
			t.Errorf("%q leaves %q", line, left)
		}
	}
	if info, err := os.Stat("/"); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("the mode of / is %v, %v", info.Mode(), err)
	}
}

func TestACopyThatCannotBeRemovedIsNotTheOutcome(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, which can mount")
	}
	w := newWorld(t, "")
	req := w.begun("begun-3", "until [ -e on ]; do sleep 0.02; done; echo ran")
	found, _ := filepath.Glob(filepath.Join(os.TempDir(), "kairos-command-*", "workspace"))
	at := filepath.Join(found[0], "mounted")
	err := errors.Join(os.Mkdir(at, 0o755), syscall.Mount("tmpfs", at, "tmpfs", 0, "")) //nolint:gosec // a test
	if err != nil {
		t.Skipf("mount: %v", err)
	}
	t.Cleanup(func() { _ = errors.Join(syscall.Unmount(at, 0), os.RemoveAll(filepath.Dir(found[0]))) })
	w.resume("on")
	if r := w.report(w.end(req)); r.Stdout != "ran\n" {
		t.Errorf("report = %+v", r)
	}
}

// The kernel ends processes where memory is short, bubblewrap too.
func TestACommandWhoseSandboxWasKilledIsNotCalledNotRun(t *testing.T) {
	w := newWorld(t, `{"network":"host"}`)
	req := w.begun("begun-4", "sleep 600 # "+t.Name())
	out, _ := exec.CommandContext(t.Context(), "pgrep", "-o", "-f", "bwrap.*"+t.Name()).Output()
	if err := exec.CommandContext(t.Context(), "kill", "-9", strings.TrimSpace(string(out))).Run(); err != nil {
		t.Fatal(err)
	}
	if res := w.end(req); res.Unknown == nil || !has(res.Unknown.Reason, "ended from outside") {
		t.Errorf("Render = %s", said(res))
	}
}

func TestACommandThatIsCancelledBeforeItsChangesAreKeptChangedNothing(t *testing.T) {
	w := newWorld(t, `{"writes":true}`)
	req := w.begun("begun-5", "sleep 600")
	req.Cancel = true
	if res := w.render(req); res.NotDone == nil {
		t.Errorf("Render = %s", said(res))
	}
	if _, err := os.Stat(filepath.Join(w.dir, "begun-5")); err == nil {
		t.Error("the change was written back")
	}
}

func TestChangesThatCannotBeWrittenBackAreUnknown(t *testing.T) {
	w := newWorld(t, `{"writes":true}`)
	req := w.begun("begun-6", "until [ -e go ]; do sleep 0.02; done; echo two >main.txt")
	w.write("other.txt", "of somebody else")
	w.resume("go")
	if res := w.end(req); res.Unknown == nil || !has(res.Unknown.Reason, "meanwhile") {
		t.Errorf("Render = %s", said(res))
	}
}
