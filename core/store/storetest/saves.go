package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
)

func oneOfManyWritersWins(t *testing.T, s Runs) {
	const writers, rounds = 8, 10
	r := mustCreate(t, s, "somebody", NewChain(mine, "Contended", "One"))
	for range rounds {
		r = mustRun(t, s, r.ID)
		results := make([]error, writers)
		var all sync.WaitGroup
		for i := range writers {
			all.Go(func() {
				mine := r
				mine.Title = fmt.Sprintf("writer %d", i)
				results[i] = s.SaveRun(t.Context(), runs.Save{
					Run:    mine,
					Events: []run.Event{{Kind: run.Refused, Reason: mine.Title}},
				})
			})
		}
		all.Wait()
		winner := slices.Index(results, nil)
		for i, err := range results {
			if i == winner {
				continue
			}
			wantCode(t, "SaveRun(loser)", err, fault.Conflict)
		}
		got := mustRun(t, s, r.ID)
		if winner < 0 || got.Title != fmt.Sprintf("writer %d", winner) || got.Revision != r.Revision+1 {
			t.Fatalf("Run = %q, revision %d, want of writer %d, revision %d", got.Title, got.Revision, winner, r.Revision+1)
		}
	}
	events, err := s.Events(t.Context(), r.ID)
	if err != nil || len(events) != rounds {
		t.Errorf("Events = %d events, %v, want %d: one of each winner", len(events), err, rounds)
	}
}

func anySequenceOfSaves(t *testing.T, s Runs) {
	c := NewChain(mine, "Any", "One")
	rapid.Check(t, func(t *rapid.T) {
		r := NewRun("somebody", c)
		if err := s.CreateRun(context.Background(), runs.Save{Run: r}, c); err != nil {
			t.Fatalf("CreateRun = %v, want nil", err)
		}
		r.Revision = 1
		var events []string
		for _, behind := range rapid.SliceOfN(rapid.Int64Range(-1, 2), 0, 6).Draw(t, "behind") {
			change := r
			change.Revision -= behind
			change.Outcome = rapid.String().Draw(t, "outcome")
			err := s.SaveRun(context.Background(), runs.Save{
				Run: change, Events: []run.Event{{Kind: run.Refused, Reason: change.Outcome}},
			})
			if behind != 0 {
				if fault.CodeOf(err) != fault.Conflict {
					t.Fatalf("SaveRun(%d behind) = %v, want a conflict", behind, err)
				}
				continue
			}
			if err != nil {
				t.Fatalf("SaveRun = %v, want nil", err)
			}
			r.Revision, r.Outcome = r.Revision+1, change.Outcome
			events = append(events, change.Outcome)
		}
		got, err := s.Run(context.Background(), r.ID)
		if err != nil {
			t.Fatalf("Run = %v, want nil", err)
		}
		if diff := cmp.Diff(r, got, rawJSON); diff != "" {
			t.Fatalf("Run (-want +got):\n%s", diff)
		}
		kept, err := s.Events(context.Background(), r.ID)
		if err != nil || !slices.Equal(reasons(kept), events) {
			t.Fatalf("Events = %q, %v, want %q", reasons(kept), err, events)
		}
	})
}

func reasons(events []run.Event) []string {
	var texts []string
	for _, e := range events {
		texts = append(texts, e.Reason)
	}
	return texts
}

// failingSave is a save of a valid run whose reply cannot be stored.
func failingSave(r run.Run) runs.Save {
	r.Outcome = "must not be stored"
	return runs.Save{
		Run:      r,
		Events:   []run.Event{{Kind: run.Refused, Reason: "must not be stored"}},
		Recorded: []runs.Recorded{{Key: "must not", Payload: "be", Reply: json.RawMessage(`"stored`)}},
	}
}

func failingSaveLeavesNothing(t *testing.T, s Runs) {
	c := NewChain(mine, "Atomic", "One")
	r := mustCreate(t, s, "somebody", c)
	save := failingSave(r)
	if err := s.SaveRun(t.Context(), save); err == nil {
		t.Fatal("SaveRun(a reply that is not JSON) = nil, want an error")
	}
	wantNothingOf(t, s, save, r)
}

func wantNothingOf(t *testing.T, s Runs, save runs.Save, before run.Run) {
	t.Helper()
	wantSame(t, "Run after the failed save", before, mustRun(t, s, before.ID), rawJSON)
	events, err := s.Events(t.Context(), before.ID)
	if err != nil || slices.Contains(reasons(events), save.Events[0].Reason) {
		t.Errorf("Events after the failed save = %v, %v, want none of it", events, err)
	}
	wantRecorded(t, s, before.ID, save.Recorded[0].Key, false)
}

func failingSaveHarmsNobody(t *testing.T, s Runs) {
	const pairs = 16
	c := NewChain(mine, "Neighbours", "One")
	var good, bad [pairs]run.Run
	for i := range pairs {
		good[i], bad[i] = mustCreate(t, s, "good", c), mustCreate(t, s, "bad", c)
	}
	var all sync.WaitGroup
	for i := range pairs {
		all.Go(func() {
			if err := s.SaveRun(t.Context(), runs.Save{Run: good[i]}); err != nil {
				t.Errorf("SaveRun(good) = %v, want nil", err)
			}
		})
		all.Go(func() {
			if err := s.SaveRun(t.Context(), failingSave(bad[i])); err == nil {
				t.Error("SaveRun(bad) = nil, want an error")
			}
		})
	}
	all.Wait()
	for i := range pairs {
		if got := mustRun(t, s, good[i].ID); got.Revision != 2 {
			t.Errorf("Run(good) = revision %d, want 2", got.Revision)
		}
		wantNothingOf(t, s, failingSave(bad[i]), bad[i])
	}
}

func cancelledWrites(t *testing.T, s Runs) {
	c := NewChain(mine, "Cancelled", "One")
	r := mustCreate(t, s, "somebody", c)
	never := NewRun("somebody", c)
	wantCancelled(t, "CreateRun(cancelled)", s.CreateRun(cancelled(t), runs.Save{Run: never}, c))
	_, err := s.Run(t.Context(), never.ID)
	wantCode(t, "Run(never created)", err, fault.NotFound)
	changed := r
	changed.Outcome = "never"
	wantCancelled(t, "SaveRun(cancelled)", s.SaveRun(cancelled(t), runs.Save{Run: changed}))
	if got := mustRun(t, s, r.ID); got.Revision != r.Revision || got.Outcome != "" {
		t.Errorf("Run = revision %d, outcome %q, want it unchanged", got.Revision, got.Outcome)
	}
}

// cancelledUnderWay cancels saves at random moments: a context error means that
// nothing was stored, nil that everything was.
func cancelledUnderWay(t *testing.T, s Runs) {
	c := NewChain(mine, "Under way", "One")
	var all sync.WaitGroup
	for range 24 {
		r := mustCreate(t, s, "somebody", c)
		ctx, cancel := context.WithCancel(t.Context())
		all.Go(cancel)
		all.Go(func() {
			err := s.SaveRun(ctx, runs.Save{Run: r, Events: []run.Event{{Kind: run.Refused}}})
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("SaveRun = %v, want nil or context.Canceled", err)
			}
			want := r.Revision
			if err == nil {
				want++
			}
			got, readErr := s.Run(t.Context(), r.ID)
			if readErr != nil || got.Revision != want {
				t.Errorf("SaveRun = %v, then Run = revision %d, %v, want %d", err, got.Revision, readErr, want)
			}
		})
	}
	all.Wait()
}

func writesAreVisible(t *testing.T, s Runs) {
	c := NewChain(mine, "Visible", "One")
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			r := NewRun("somebody", c)
			if err := s.CreateRun(t.Context(), runs.Save{Run: r}, c); err != nil {
				t.Errorf("CreateRun = %v, want nil", err)
				return
			}
			for revision := int64(1); revision <= 5; revision++ {
				got, err := s.Run(t.Context(), r.ID)
				if err != nil || got.Revision != revision {
					t.Errorf("Run = revision %d, %v, want %d", got.Revision, err, revision)
					return
				}
				if err := s.SaveRun(t.Context(), runs.Save{Run: got}); err != nil {
					t.Errorf("SaveRun = %v, want nil", err)
					return
				}
			}
		})
	}
	all.Wait()
}

func savedTwice(t *testing.T, s Runs) {
	r := mustCreate(t, s, "somebody", NewChain(mine, "Twice", "One"))
	save := runs.Save{Run: r, Events: []run.Event{{Kind: run.Refused, Reason: "once"}}}
	mustSaveRun(t, s, save)
	wantCode(t, "SaveRun(the same again)", s.SaveRun(t.Context(), save), fault.Conflict)
	wantReasons(t, s, r.ID, "once")
}
