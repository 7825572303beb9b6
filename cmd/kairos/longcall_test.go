package main

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/kairos-mcp/kairos/core/api"
)

// longCall is a run whose step waits for the tool that it called. The call ends when
// there is the file work/acts.end.
func longCall(t *testing.T) (*served, *piped, *api.StepReply) {
	t.Helper()
	s, uri := withCounter(t, "mcp: {wait: 500ms}\n", "wait")
	p := s.pipe(t, legacyEra, hasForms)
	r := p.begun(uri, "")
	var waits *api.StepReply
	eventually(t, "the run waits for the tool", func() bool { // once the person has approved
		waits = p.approve(r)
		return waits.ErrorCode == "WAITING_FOR_DRIVER"
	})
	if n := len(s.keys("acts")); n != 1 {
		t.Fatalf("it was called %d times, want once", n)
	}
	return s, p, waits
}

// until asks again until the run waits no more, and expects the code.
func (p *piped) until(r *api.StepReply, code string) {
	p.t.Helper()
	var now *api.StepReply
	eventually(p.t, "the run waits no more", func() bool {
		now = p.next(r, "").step()
		return now.ErrorCode != "WAITING_FOR_DRIVER"
	})
	expect(p.t, now, code)
}

// A call that takes longer than a client waits is asked about until it has ended, and
// the run shows how far it has come.
func TestALongCallOfAToolIsWaitedFor(t *testing.T) {
	t.Parallel()
	s, p, r := longCall(t)
	eventually(t, "the progress of the call", func() bool {
		r = p.told(r, "WAITING_FOR_DRIVER")
		return r.Progress != nil
	})
	if *r.Progress <= 0 || *r.Progress > 0.3 || !strings.Contains(r.Message, "3 of 10") || !strings.Contains(r.NextAction, "cancel true") {
		t.Errorf("reply = %+v, want the progress, and how to cancel", r)
	}
	if told := fmt.Sprint(r.Message, r.ProgressMessage, r.NextAction); strings.Contains(told, "AGENT") {
		t.Errorf("the agent reads the words of the tool's server: %s", told)
	}
	if err := os.WriteFile(s.path("work/acts.end"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p.until(r, "")
	s.acted(1)
	if attested := p.attest(r); !attested.Verified {
		t.Errorf("attested = %+v, want verified", attested)
	}
	p.leave()
}

// The driver is killed while the tool works: nobody knows what came of the call, and it
// is not repeated.
func TestALongCallWhoseDriverIsKilledIsNotRepeated(t *testing.T) {
	t.Parallel()
	s, p, r := longCall(t)
	for _, pid := range processesOf(t, p.cmd.Process.Pid, "kairos-driver-tools") {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		p.until(r, "OUTCOME_UNKNOWN")
	}
	s.acted(1)
	p.leave()
}
