package run_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

func TestAnEventThatGoesBackInTimeIsRefused(t *testing.T) {
	r := newRun("r", 1)
	refuses(t, r, run.Event{Kind: run.Reissued, Nonce: "n1", At: epoch.Add(-time.Second)}, run.ErrImpossible)
}

// TestEventsAreInTheOrderOfTheirTimes: whatever the clock shows, and the run
// knows what it showed.
func TestEventsAreInTheOrderOfTheirTimes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := newRun("r", 1)
		for i := range rapid.IntRange(1, 30).Draw(rt, "events") {
			clock := epoch.Add(time.Duration(rapid.Int64Range(-int64(time.Hour), int64(time.Hour)).Draw(rt, "clock")))
			ev := run.Event{Kind: run.Reissued, Run: "r", Step: 1, Nonce: "next" + string(rune('a'+i))}
			ev.At, ev.Clock = r.Stamp(clock)
			next, err := run.Apply(r, ev)
			switch {
			case err != nil:
				rt.Fatal(err)
			case next.UpdatedAt.Before(r.UpdatedAt) || next.UpdatedAt.Before(clock):
				rt.Fatalf("at %s after %s, while the clock shows %s", next.UpdatedAt, r.UpdatedAt, clock)
			case !next.ChangedAt().Equal(clock):
				rt.Fatalf("ChangedAt = %s, while the clock showed %s", next.ChangedAt(), clock)
			}
			r = next
		}
	})
}

func TestAnApprovalLapsesWhenTheClockWasSetBack(t *testing.T) {
	granted := must(t, must(t, newRun("r", 1), needs(true)), approves("page", "d1", epoch.Add(time.Hour)))
	refuses(t, granted, run.Event{Kind: run.Lapsed, Reason: "no reason"}, run.ErrImpossible)
	back := run.Event{Kind: run.Lapsed, Reason: "set back"}
	back.At, back.Clock = granted.Stamp(epoch.Add(-time.Minute))
	if got := must(t, granted, back); got.Step.Approval != nil {
		t.Errorf("approval = %+v, want none", got.Step.Approval)
	}
}

// TestASetBackDuringACallKeepsWhatItsApprovalCovers: the call that was approved is
// finished, and another one needs another approval.
func TestASetBackDuringACallKeepsWhatItsApprovalCovers(t *testing.T) {
	epoch := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	in := driver.Input{ID: "evidence", Kind: driver.KindEvidence}
	call := run.Call{Input: in.ID, Driver: "pay", Attempt: 1, Acts: true, At: epoch.Add(time.Minute)}
	r := run.Run{ID: "r", StepCount: 1, State: run.Open, Step: run.Step{Index: 1, Nonce: "n"}, CreatedAt: epoch, UpdatedAt: epoch}
	apply := func(r run.Run, clock time.Time, ev run.Event) (run.Run, error) {
		ev.Run, ev.Step = r.ID, 1
		ev.At, ev.Clock = r.Stamp(clock)
		return run.Apply(r, ev)
	}
	for _, ev := range []run.Event{
		{Kind: run.Needed, Inputs: []driver.Input{in}, Gated: true, Digest: "d"},
		{Kind: run.Supplied, Input: driver.KindApproval, Via: "page", Approval: &run.Approval{Digest: "d", Via: "page", GrantedAt: epoch, ExpiresAt: epoch.Add(time.Hour)}},
		{Kind: run.Called, Input: in.ID, Via: "pay", Call: &call},
	} {
		var err error
		if r, err = apply(r, epoch.Add(time.Minute), ev); err != nil {
			t.Fatal(err)
		}
	}
	earlier := epoch.Add(30 * time.Second)
	lapsed, err := apply(r, earlier, run.Event{Kind: run.Lapsed, Input: driver.KindApproval, Via: "page", Reason: "set back"})
	if err != nil {
		t.Fatal(err)
	}
	answer := run.Event{Kind: run.Supplied, Input: in.ID, Via: "pay", Answer: &driver.Answer{InputID: in.ID, Via: "pay", Value: []byte(`{}`)}}
	if _, err := apply(lapsed, earlier, answer); err != nil {
		t.Errorf("the outcome of the approved call: %v, want it taken", err)
	}
	settled, err := apply(lapsed, earlier, run.Event{Kind: run.Settled, Input: in.ID, Via: "pay", Reason: "not done"})
	if err != nil {
		t.Fatal(err)
	}
	if settled.Step.Approved("page", run.Event{At: earlier}) {
		t.Error("the approval is good for another call")
	}
}
