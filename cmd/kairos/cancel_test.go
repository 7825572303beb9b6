package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// A person ends a command that KAIROS runs, from another terminal: the client that
// waits hears of it, and nothing of the command is left.
func TestACommandIsCancelledFromAnotherTerminal(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("bwrap"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("BUBBLEWRAP IS MISSING, and CI has to test what KAIROS runs itself")
		}
		t.Skip("BUBBLEWRAP IS MISSING: what KAIROS runs itself is NOT TESTED; install the package bubblewrap")
	}
	s := &served{t: t, dir: t.TempDir()}
	if err := os.Mkdir(s.path("work"), 0o755); err != nil { //nolint:gosec // a workspace
		t.Fatal(err)
	}
	s.write("kairos.yaml", fmt.Sprintf("database: data/kairos.db\nadmin: {socket: off}\ndrivers: {dir: %s, settings: {command: {config: {workspace: %s}}}}\n", buildDrivers(t), s.path("work")))
	lasting := fmt.Sprintf("7000.%d", os.Getpid())
	p := s.pipe(t, legacyEra, hasNothing)
	r := p.opens("# Wait\n\n## Wait\n\nWait.\n\n```json\n{\"challenge\":{\"type\":\"shell\",\"evidence\":\"server\",\"shell\":{\"cmd\":\"setsid sleep " + lasting + "; true\",\"timeout_seconds\":600}}}\n```\n")
	if out, err := s.program("accept", r.CurrentStep.URI, "--yes").CombinedOutput(); err != nil {
		t.Fatalf("accept: %v\n%s", err, out)
	}
	p.leave()
	p = s.pipe(t, legacyEra, hasForms)
	r = p.begun(r.CurrentStep.URI, "")
	p.approve(r)
	k := p.next(r, "")
	eventually(t, "the command runs", func() bool { return len(processesOf(t, p.cmd.Process.Pid, lasting)) > 0 })
	var out []byte
	eventually(t, "the run waits for the command", func() bool {
		var err error
		out, err = s.program("runs", "cancel", r.RunID).CombinedOutput()
		return err == nil
	})
	if !strings.Contains(string(out), "cancelled; driver command") {
		t.Errorf("runs cancel says %s", out)
	}
	ended := k.step()
	if ended.ErrorCode != "CANCELLED" || *ended.RetryCount != 0 {
		t.Errorf("the client hears %s: %s", ended.ErrorCode, ended.Message)
	}
	if left := processesOf(t, p.cmd.Process.Pid, lasting); len(left) > 0 {
		t.Errorf("processes of the command are left: %v", left)
	}
	p.leave()
}
