package run_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/kairos-mcp/kairos/core/run"
)

// TestTheEventsTellThePast: whatever happened, a run that is read as its head and
// its events is the run that lived through them, also if an earlier revision of it
// is known.
func TestTheEventsTellThePast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lived := newRun("r1", 4)
		lived.FirstNonce = lived.Step.Nonce
		begun := lived
		var events []run.Event
		happens := func(e run.Event) bool {
			e.Run, e.Step, e.At = lived.ID, lived.Step.Index, lived.UpdatedAt.Add(1)
			next, err := run.Apply(lived, e)
			if err == nil {
				lived, events = next, append(events, e)
			}
			return err == nil
		}
		known, since := begun, 0
		known.Revision = 1
		for i := range rapid.IntRange(0, 12).Draw(t, "events") {
			nonce := rapid.StringMatching(`[a-f]{6}`).Draw(t, "nonce")
			if rapid.Bool().Draw(t, "reissued") {
				happens(run.Event{Kind: run.Reissued, Nonce: nonce})
			} else if happens(needs(false)) && happens(supplies("agent")) {
				happens(accepts(t, lived, nonce))
			}
			if rapid.Bool().Draw(t, "known") {
				known, since = lived, len(events)
				known.Revision = int64(i + 2)
			}
		}
		head := lived
		head.Past = run.Past{}
		for name, got := range map[string]run.Run{"from the beginning": head.Recall(run.Run{}, events), "since": head.Recall(known, events[since:])} {
			got.Held = lived.Held // which is of the process
			if diff := cmp.Diff(lived, got); diff != "" {
				t.Fatalf("Recall %s (-want +got):\n%s", name, diff)
			}
		}
	})
}
