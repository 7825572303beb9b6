package run_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/kairos-mcp/kairos/core/run"
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
