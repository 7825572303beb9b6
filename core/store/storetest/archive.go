package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/archive"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
)

var archiveCases = map[string]func(*testing.T, Runs){
	"all runs are listed, the newest first":                 allRuns,
	"a cursor stays valid while runs are added and changed": allRunsCursor,
	"live runs are listed in pages, the last changed first": liveRunPages,
	"live runs are overdue by their age or untouched":       overdueRuns,
	"ended runs are removed with their events and replies":  removeEnded,
	"the longest ended runs are removed first":              removeLongestEnded,
	"an adopted run is listed for whoever has it now":       adoptedRun,
	"runs of everybody are listed":                          everybodysRuns,
	"a cancelled removal removes nothing":                   removeCancelled,
	"runs are removed while others are saved":               removeWhileSaving,
}

// inState stores a new run in the state, last changed at the time.
func inState(t *testing.T, s Runs, principal string, state run.State, updated time.Time) run.Run {
	t.Helper()
	r := mustCreate(t, s, principal, NewChain(mine, "Archived", "One", "Two"))
	r.State, r.UpdatedAt = state, updated
	if state == run.Ended {
		r.EndedBy = run.Expired
	}
	mustSaveRun(t, s, runs.Save{Run: r})
	return mustRun(t, s, r.ID)
}

func mustAllRuns(t *testing.T, s Runs, q archive.Query) (all []run.Summary) {
	t.Helper()
	for {
		page, next, err := s.AllRuns(t.Context(), q)
		if err != nil || len(page) > q.Limit {
			t.Fatalf("AllRuns(%+v) = %d runs, %v, want at most %d, nil", q, len(page), err, q.Limit)
		}
		all = append(all, page...)
		if next == "" {
			return all
		}
		if q.Cursor == next || len(page) == 0 {
			t.Fatalf("AllRuns(%+v) does not advance: %q", q, next)
		}
		q.Cursor = next
	}
}

func allRuns(t *testing.T, s Runs) {
	var want []run.Summary
	states := []run.State{run.Open, run.Asking, run.Complete, run.Closed, run.Ended}
	for i, state := range states {
		r := inState(t, s, "somebody", state, epoch.Add(-time.Duration(i)*time.Minute))
		want = slices.Insert(want, 0, r.Summary())
	}
	inState(t, s, "other", run.Closed, epoch)
	mustCreate(t, s, "somebody", NewChain("group:left", "Archived", "One", "Two"))
	for limit := 1; limit <= len(want)+1; limit++ {
		got := mustAllRuns(t, s, archive.Query{Principal: "somebody", Spaces: []string{mine}, Limit: limit})
		wantSame(t, fmt.Sprintf("AllRuns in pages of %d", limit), want, got)
	}
	for i, state := range states {
		got := mustAllRuns(t, s, archive.Query{Principal: "somebody", Spaces: []string{mine}, State: state, Limit: 1})
		if len(got) != 1 || got[0].ID != want[len(want)-1-i].ID {
			t.Errorf("AllRuns(in state %s) = %v, want the one in it", state, got)
		}
	}
	if got := mustAllRuns(t, s, archive.Query{Principal: "nobody", Spaces: []string{mine}, Limit: 1}); len(got) != 0 {
		t.Errorf("AllRuns(of nobody) = %v, want none", got)
	}
}

func everybodysRuns(t *testing.T, s Runs) {
	var all, live []run.Summary
	for i, principal := range []string{"ada", "bob", "ada", "cy"} {
		r := inState(t, s, principal, run.Open, epoch.Add(time.Duration(i)*time.Minute)).Summary()
		ended := inState(t, s, principal, run.Ended, epoch).Summary()
		all, live = slices.Insert(all, 0, ended, r), slices.Insert(live, 0, r)
	}
	elsewhere := mustCreate(t, s, "cy", NewChain(theirs, "Archived", "One", "Two")).Summary()
	all = slices.Insert(all, 0, elsewhere)
	for limit := 1; limit <= len(all)+1; limit++ {
		wantSame(t, fmt.Sprintf("AllRuns(of everybody) in pages of %d", limit), all, mustAllRuns(t, s, archive.Query{Everybody: true, Limit: limit}))
		wantSame(t, fmt.Sprintf("AllRuns(of everybody, live) in pages of %d", limit), live, mustAllRuns(t, s, archive.Query{Everybody: true, Spaces: []string{mine}, Live: true, Limit: limit}))
	}
	if got := mustAllRuns(t, s, archive.Query{Everybody: true, State: run.Ended, Limit: 2}); len(got) != 4 {
		t.Errorf("AllRuns(of everybody, ended) = %v, want the four that have ended", got)
	}
	if got := mustAllRuns(t, s, archive.Query{Limit: 2}); len(got) != 0 {
		t.Errorf("AllRuns(of no principal) = %v, want none", got)
	}
}

func allRunsCursor(t *testing.T, s Runs) {
	var first []run.ID
	for range 4 {
		first = append(first, inState(t, s, "somebody", run.Open, epoch).ID)
	}
	page, next, err := s.AllRuns(t.Context(), archive.Query{Principal: "somebody", Spaces: []string{mine}, Limit: 2})
	if err != nil || len(page) != 2 || next == "" {
		t.Fatalf("AllRuns = %v, %q, %v, want two and a cursor", page, next, err)
	}
	inState(t, s, "somebody", run.Open, epoch)
	ended := mustRun(t, s, first[0])
	ended.State, ended.UpdatedAt = run.Ended, epoch.Add(time.Hour)
	mustSaveRun(t, s, runs.Save{Run: ended})
	rest := mustAllRuns(t, s, archive.Query{Principal: "somebody", Spaces: []string{mine}, Limit: 2, Cursor: next})
	if len(rest) != 2 || rest[0].ID != first[1] || rest[1].ID != first[0] {
		t.Errorf("AllRuns(from the cursor) = %v, want the two that were begun first", rest)
	}
}

func liveRunPages(t *testing.T, s Runs) {
	var want []run.Summary
	for i := range 5 {
		// Two were changed at the same time: then the one begun last is first.
		r := inState(t, s, "somebody", run.Open, epoch.Add(time.Duration(i/2)*time.Minute))
		inState(t, s, "somebody", run.Ended, epoch.Add(time.Duration(i)*time.Minute))
		want = slices.Insert(want, 0, r.Summary())
	}
	inState(t, s, "other", run.Open, epoch)
	mustCreate(t, s, "somebody", NewChain("group:left", "Archived", "One", "Two"))
	for limit := 1; limit <= len(want)+1; limit++ {
		got := mustAllRuns(t, s, archive.Query{Principal: "somebody", Spaces: []string{mine}, Live: true, Limit: limit})
		wantSame(t, fmt.Sprintf("AllRuns(live) in pages of %d", limit), want, got)
	}
}

func overdueRuns(t *testing.T, s Runs) {
	old := inState(t, s, "somebody", run.Asking, epoch.Add(time.Hour))
	untouched := inState(t, s, "other", run.Open, epoch.Add(-time.Hour))
	advanced := mustRun(t, s, inState(t, s, "other", run.Open, epoch.Add(-time.Hour)).ID)
	advanced.Step.Index = 2
	mustSaveRun(t, s, runs.Save{Run: advanced})
	inState(t, s, "somebody", run.Ended, epoch.Add(-time.Hour))
	for name, tc := range map[string]struct {
		began, untouched time.Time
		want             []run.ID
	}{
		"nothing is":        {epoch, epoch.Add(-time.Hour), nil},
		"untouched":         {epoch, epoch.Add(-time.Hour + 1), []run.ID{untouched.ID}},
		"all began too old": {epoch.Add(1), epoch.Add(-2 * time.Hour), []run.ID{old.ID, untouched.ID, advanced.ID}},
	} {
		got, err := s.Overdue(t.Context(), tc.began, tc.untouched, 10)
		slices.Sort(got)
		slices.Sort(tc.want)
		if err != nil || !slices.Equal(got, tc.want) {
			t.Errorf("Overdue(%s) = %v, %v, want %v", name, got, err, tc.want)
		}
	}
	if got, err := s.Overdue(t.Context(), epoch.Add(1), epoch, 2); err != nil || len(got) != 2 {
		t.Errorf("Overdue(at most 2) = %v, %v, want 2", got, err)
	}
}

func removeEnded(t *testing.T, s Runs) {
	kept := []run.Run{
		inState(t, s, "somebody", run.Open, epoch),
		inState(t, s, "somebody", run.Complete, epoch),
		inState(t, s, "somebody", run.Closed, epoch.Add(time.Minute)),
	}
	var gone []run.Run
	for _, state := range []run.State{run.Closed, run.Ended} {
		r := inState(t, s, "somebody", state, epoch)
		// Two more saves, so that several have events and replies.
		for i := range 2 {
			mustSaveRun(t, s, runs.Save{
				Run:      r,
				Events:   []run.Event{{Kind: run.Refused, Run: r.ID, Reason: fmt.Sprint(i)}},
				Recorded: []runs.Recorded{{Key: "key", Payload: "p", Reply: json.RawMessage(`{}`)}},
			})
			r = mustRun(t, s, r.ID)
		}
		gone = append(gone, r)
	}
	wantRead(t, "CountEnded", len(gone))(s.CountEnded(t.Context(), epoch.Add(time.Minute)))
	wantRead(t, "RemoveEnded", len(gone))(s.RemoveEnded(t.Context(), epoch.Add(time.Minute), 10))
	for _, r := range gone {
		wantNoTrace(t, s, r)
	}
	for _, r := range kept {
		wantSame(t, "Run that is kept", r, mustRun(t, s, r.ID), rawJSON)
	}
	wantRead(t, "RemoveEnded(again)", 0)(s.RemoveEnded(t.Context(), epoch.Add(time.Minute), 10))
}

func wantNoTrace(t *testing.T, s Runs, r run.Run) {
	t.Helper()
	_, err := s.Run(t.Context(), r.ID)
	wantCode(t, "Run(removed)", err, fault.NotFound)
	_, err = s.Events(t.Context(), r.ID)
	wantCode(t, "Events(removed)", err, fault.NotFound)
	if events, err := s.EventsBetween(t.Context(), r.ID, 0, 100); err != nil || len(events) != 0 {
		t.Errorf("EventsBetween(removed) = %v, %v, want none, nil", events, err)
	}
	wantRecorded(t, s, r.ID, "key", false)
	wantCode(t, "SaveRun(removed)", s.SaveRun(t.Context(), runs.Save{Run: r}), fault.NotFound)
}

func removeLongestEnded(t *testing.T, s Runs) {
	var runs []run.Run
	for i := range 4 {
		runs = append(runs, inState(t, s, "somebody", run.Ended, epoch.Add(-time.Duration(i)*time.Minute)))
	}
	wantRead(t, "RemoveEnded(at most 2)", 2)(s.RemoveEnded(t.Context(), epoch.Add(time.Hour), 2))
	left := mustAllRuns(t, s, archive.Query{Principal: "somebody", Spaces: []string{mine}, Limit: 10})
	if len(left) != 2 || left[0].ID != runs[1].ID || left[1].ID != runs[0].ID {
		t.Errorf("AllRuns after it = %v, want the two that ended last", left)
	}
}

func removeCancelled(t *testing.T, s Runs) {
	r := inState(t, s, "somebody", run.Ended, epoch)
	if n, err := s.RemoveEnded(cancelled(t), epoch.Add(time.Hour), 10); !errors.Is(err, context.Canceled) || n != 0 {
		t.Errorf("RemoveEnded(cancelled) = %d, %v, want 0, context.Canceled", n, err)
	}
	mustRun(t, s, r.ID)
}

func removeWhileSaving(t *testing.T, s Runs) {
	const each = 24
	var all sync.WaitGroup
	var removed int
	for range each {
		inState(t, s, "ended", run.Ended, epoch)
	}
	all.Go(func() {
		for removed < each {
			n, err := s.RemoveEnded(t.Context(), epoch.Add(time.Hour), 3)
			if err != nil || n == 0 {
				t.Errorf("RemoveEnded = %d, %v, want some, nil", n, err)
				return
			}
			removed += n
		}
	})
	c := NewChain(mine, "Busy", "One")
	for range 4 {
		all.Go(func() {
			for range each / 4 {
				r := NewRun("busy", c)
				if err := s.CreateRun(t.Context(), runs.Save{Run: r, Events: []run.Event{{Kind: run.Refused, Run: r.ID}}}, c); err != nil {
					t.Errorf("CreateRun = %v, want nil", err)
				}
			}
		})
	}
	all.Wait()
	if got := mustAllRuns(t, s, archive.Query{Principal: "busy", Spaces: []string{mine}, Limit: 5}); len(got) != each {
		t.Errorf("AllRuns(busy) = %d, want %d", len(got), each)
	}
	if got := mustAllRuns(t, s, archive.Query{Principal: "ended", Spaces: []string{mine}, Limit: 5}); len(got) != 0 {
		t.Errorf("AllRuns(ended) = %v, want none", got)
	}
}

func adoptedRun(t *testing.T, s Runs) {
	r := mustCreate(t, s, "ada", NewChain(mine, "Adopted", "One"))
	chain, err := s.Pinned(t.Context(), r.Pin)
	if err != nil {
		t.Fatal(err)
	}
	chain.Space = theirs
	r.Principal, r.Space, r.Pin = "bob", theirs, Pin(chain)
	mustSaveRun(t, s, runs.Save{Run: r, Moved: &chain})
	r.Revision++
	wantSame(t, "Run", r, mustRun(t, s, r.ID))
	wantRead(t, "Pinned", chain)(s.Pinned(t.Context(), r.Pin))
	for _, q := range []archive.Query{
		{Principal: "bob", Limit: 2}, {Principal: "bob", Spaces: []string{theirs}, Live: true, Limit: 2},
	} {
		if all := mustAllRuns(t, s, q); len(all) != 1 || all[0].ID != r.ID {
			t.Errorf("AllRuns(%+v) = %v, want run %s", q, all, r.ID)
		}
	}
	for _, q := range []archive.Query{
		{Principal: "ada", Limit: 2}, {Principal: "bob", Spaces: []string{mine}, Limit: 2}, {Principal: "bob", Spaces: []string{}, Limit: 2},
	} {
		if all := mustAllRuns(t, s, q); len(all) != 0 {
			t.Errorf("AllRuns(%+v) = %v, want none", q, all)
		}
	}
}
