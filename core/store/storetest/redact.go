package storetest

import (
	"encoding/json"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
)

var redactCases = map[string]func(*testing.T, Runs){
	"erasing changes the run, its events and its replies at once": erased,
	"erasing leaves other runs alone":                             erasedAlone,
	"erasing loses against an earlier writer and changes nothing": erasedTooLate,
	"a cancelled erasure erases nothing":                          erasedCancelled,
	"erasing twice does no harm":                                  erasedTwice,
	"a run continues after it was erased":                         erasedContinues,
	"runs are saved while others are erased and scrubbed":         erasedWhileSaving,
}

// hush erases everything of an event but its kind.
func hush(e run.Event) run.Event { return run.Event{Kind: e.Kind, Run: e.Run} }

// talkative stores a run with a value in every place.
func talkative(t *testing.T, s Runs, principal string) run.Run {
	t.Helper()
	r := mustCreate(t, s, principal, NewChain(mine, "Talkative", "One", "Two"))
	for _, reason := range []string{"first", "second"} {
		r.Outcome = reason
		mustSaveRun(t, s, runs.Save{
			Run: r, Events: []run.Event{{Kind: run.Refused, Run: r.ID, Reason: reason}, {Kind: run.Asked, Run: r.ID, Reason: reason}},
			Recorded: []runs.Recorded{{Key: "nonce:" + reason, Payload: reason, Reply: json.RawMessage(`"` + reason + `"`)}},
		})
		r = mustRun(t, s, r.ID)
	}
	return r
}

func mustErase(t *testing.T, s Runs, r run.Run) run.Run {
	t.Helper()
	r.Outcome = ""
	err := s.EraseRun(t.Context(), runs.Save{Run: r, Events: []run.Event{{Kind: run.Redacted, Run: r.ID, Reason: "why"}}}, hush)
	if err != nil {
		t.Fatalf("EraseRun = %v, want nil", err)
	}
	if left, err := s.Unscrubbed(t.Context()); err != nil || !slices.Contains(left, r.ID) {
		t.Errorf("Unscrubbed before Scrub = %v, %v, want the erased run among them", left, err)
	}
	if err := s.Scrub(t.Context()); err != nil {
		t.Fatalf("Scrub = %v, want nil", err)
	}
	if left, err := s.Unscrubbed(t.Context()); err != nil || len(left) > 0 {
		t.Errorf("Unscrubbed after Scrub = %v, %v, want none", left, err)
	}
	return mustRun(t, s, r.ID)
}

func wantEvents(t *testing.T, s Runs, id run.ID, want ...run.Event) {
	t.Helper()
	wantRead(t, "Events", want)(s.Events(t.Context(), id))
}

func erased(t *testing.T, s Runs) {
	r := talkative(t, s, "somebody")
	got := mustErase(t, s, r)
	if got.Outcome != "" || got.Revision != r.Revision+1 {
		t.Errorf("Run = outcome %q, revision %d, want none, %d", got.Outcome, got.Revision, r.Revision+1)
	}
	wantEvents(t, s, r.ID, run.Event{Kind: run.Refused, Run: r.ID}, run.Event{Kind: run.Asked, Run: r.ID},
		run.Event{Kind: run.Refused, Run: r.ID}, run.Event{Kind: run.Asked, Run: r.ID},
		run.Event{Kind: run.Redacted, Run: r.ID, Reason: "why"})
	for _, key := range []string{"nonce:first", "nonce:second"} {
		wantRecorded(t, s, r.ID, key, false)
	}
	if _, err := s.Pinned(t.Context(), r.Pin); err != nil {
		t.Errorf("Pinned = %v, want the protocol still", err)
	}
}

func erasedAlone(t *testing.T, s Runs) {
	r, other := talkative(t, s, "somebody"), talkative(t, s, "somebody")
	mustErase(t, s, r)
	unchanged(t, s, other)
}

func erasedTooLate(t *testing.T, s Runs) {
	r := talkative(t, s, "somebody")
	stale := r
	stale.Revision--
	err := s.EraseRun(t.Context(), runs.Save{Run: stale}, hush)
	wantCode(t, "EraseRun(stale)", err, fault.Conflict)
	unchanged(t, s, r)
	r.ID = NewRun("somebody", NewChain(mine, "Talkative", "One")).ID
	wantCode(t, "EraseRun(unknown)", s.EraseRun(t.Context(), runs.Save{Run: r}, hush), fault.NotFound)
}

func unchanged(t *testing.T, s Runs, r run.Run) {
	t.Helper()
	wantSame(t, "Run", r, mustRun(t, s, r.ID))
	wantReasons(t, s, r.ID, "first", "first", "second", "second")
	wantRecorded(t, s, r.ID, "nonce:second", true)
}

func erasedCancelled(t *testing.T, s Runs) {
	r := talkative(t, s, "somebody")
	wantCancelled(t, "EraseRun(cancelled)", s.EraseRun(cancelled(t), runs.Save{Run: r}, hush))
	wantCancelled(t, "Scrub(cancelled)", s.Scrub(cancelled(t)))
	unchanged(t, s, r)
}

func erasedTwice(t *testing.T, s Runs) {
	r := mustErase(t, s, mustErase(t, s, talkative(t, s, "somebody")))
	wantReasons(t, s, r.ID, "", "", "", "", "", "why")
}

func erasedContinues(t *testing.T, s Runs) {
	r := mustErase(t, s, talkative(t, s, "somebody"))
	mustSaveRun(t, s, runs.Save{Run: r, Events: []run.Event{{Kind: run.Asked, Run: r.ID, Reason: "third"}}})
	wantReasons(t, s, r.ID, "", "", "", "", "why", "third")
}

func erasedWhileSaving(t *testing.T, s Runs) {
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			r := talkative(t, s, "somebody")
			if err := s.EraseRun(t.Context(), runs.Save{Run: r}, hush); err != nil {
				t.Errorf("EraseRun = %v, want nil", err)
			}
			// A concurrent reader may prevent the log from being emptied.
			_ = s.Scrub(t.Context())
		})
		all.Go(func() {
			r := talkative(t, s, "other")
			until := time.Now().Add(50 * time.Millisecond)
			for time.Now().Before(until) {
				if err := s.SaveRun(t.Context(), runs.Save{Run: r}); err != nil {
					t.Errorf("SaveRun = %v, want nil", err)
				}
				r.Revision++
			}
		})
	}
	all.Wait()
}
