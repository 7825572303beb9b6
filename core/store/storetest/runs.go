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

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

var runCases = map[string]func(*testing.T, Runs){
	"the caller may change what a read has returned":  chainIsCopied,
	"a run is created with what happened in it":       createdWithEvents,
	"a run comes back as it was saved":                runRoundTrip,
	"an id is created once":                           createTwice,
	"what is not there is not found":                  runNotThere,
	"one of many writers wins a revision":             oneOfManyWritersWins,
	"any sequence of saves is the last one that won":  anySequenceOfSaves,
	"a failing save leaves nothing":                   failingSaveLeavesNothing,
	"a failing save does not harm others":             failingSaveHarmsNobody,
	"every nonce a run had leads to it":               noncesLeadToRun,
	"a nonce belongs to one run":                      nonceBelongsToOneRun,
	"events come back in order":                       eventsInOrder,
	"a reply is recorded for each run and key":        recordedReplies,
	"live runs are listed last changed first":         liveRuns,
	"a cancelled write changes nothing":               cancelledWrites,
	"a cancellation under way is all or nothing":      cancelledUnderWay,
	"a write is visible to the next read of anybody":  writesAreVisible,
	"a run cannot be saved before it was created":     saveBeforeCreate,
	"a save keeps what it does not mention in tables": savedTwice,
}

func runRoundTrip(t *testing.T, s Runs) {
	c := NewChain(mine, "Round trip", "One", "Two")
	want := NewRun("somebody ünïcödé", c)
	want.Step.Declines = map[string]string{"evidence": "elicitation"}
	want.Step.Question = &run.Question{
		Seq: 3, Input: driver.Input{ID: "evidence", Kind: driver.KindEvidence, Description: "Größe? 日本語 \x00"},
		Via: "elicitation", AskedAt: epoch, Ask: driver.ClientRequest{Method: "elicitation/create"},
	}
	want.State = run.Asking
	want.Evidence = []run.Evidence{{Output: json.RawMessage(`{"big":12345678901234567890,"html":"<a>&"}`)}}
	if err := s.CreateRun(t.Context(), runs.Save{Run: want}, c); err != nil {
		t.Fatalf("CreateRun = %v, want nil", err)
	}
	want.Revision = 1
	for range 3 {
		got := mustRun(t, s, want.ID)
		if diff := cmp.Diff(want, got, rawJSON); diff != "" {
			t.Fatalf("Run at revision %d (-want +got):\n%s", want.Revision, diff)
		}
		got.Seq++
		got.UpdatedAt = got.UpdatedAt.Add(time.Minute)
		if err := s.SaveRun(t.Context(), runs.Save{Run: got}); err != nil {
			t.Fatalf("SaveRun = %v, want nil", err)
		}
		want = got
		want.Revision++
	}
}

// rawJSON compares raw JSON by what it says, for encoders may escape differently.
var rawJSON = cmp.Transformer("JSON", func(raw json.RawMessage) string {
	var b []byte
	b, _ = json.Marshal(raw) // compacts and escapes; a failure compares as empty
	return string(b)
})

func createTwice(t *testing.T, s Runs) {
	c := NewChain(mine, "Twice", "One")
	r := mustCreate(t, s, "first", c)
	again := NewRun("second", c)
	again.ID = r.ID
	wantCode(t, "CreateRun(again)", s.CreateRun(t.Context(), runs.Save{Run: again}, c), fault.Conflict)
	if got := mustRun(t, s, r.ID); got.Principal != "first" {
		t.Errorf("Run = principal %q, want first", got.Principal)
	}
	_, err := s.RunOfNonce(t.Context(), again.Step.Nonce)
	wantCode(t, "RunOfNonce(of the refused run)", err, fault.NotFound)
}

func createdWithEvents(t *testing.T, s Runs) {
	c := NewChain(mine, "Begun", "One")
	r := NewRun("me", c)
	save := runs.Save{
		Run:      r,
		Events:   []run.Event{{Kind: run.Needed, Run: r.ID, Step: 1, At: epoch}, {Kind: run.Asked, Run: r.ID, Step: 1, At: epoch}},
		Recorded: []runs.Recorded{{Key: "seq:1", Payload: "p", Reply: []byte(`{}`)}},
	}
	if err := s.CreateRun(t.Context(), save, c); err != nil {
		t.Fatalf("CreateRun = %v, want nil", err)
	}
	events, err := s.Events(t.Context(), r.ID)
	if err != nil || len(events) != 2 || events[1].Kind != run.Asked {
		t.Errorf("Events = %+v, %v, want both, in order", events, err)
	}
	if _, ok, err := s.Recorded(t.Context(), r.ID, "seq:1"); !ok || err != nil {
		t.Errorf("Recorded = %t, %v, want true, nil", ok, err)
	}
}

func runNotThere(t *testing.T, s Runs) {
	_, err := s.Run(t.Context(), "nothing")
	wantCode(t, "Run", err, fault.NotFound)
	_, err = s.RunOfNonce(t.Context(), "nothing")
	wantCode(t, "RunOfNonce", err, fault.NotFound)
	_, err = s.RunOfNonce(t.Context(), "")
	wantCode(t, "RunOfNonce(empty)", err, fault.NotFound)
	_, err = s.Pinned(t.Context(), "nothing")
	wantCode(t, "Pinned", err, fault.NotFound)
	_, err = s.Events(t.Context(), "nothing")
	wantCode(t, "Events", err, fault.NotFound)
	_, ok, err := s.Recorded(t.Context(), "nothing", "key")
	if ok || err != nil {
		t.Errorf("Recorded = %t, %v, want false, nil", ok, err)
	}
	live, err := s.LiveRuns(t.Context(), "nobody")
	if err != nil || len(live) != 0 {
		t.Errorf("LiveRuns = %v, %v, want none, nil", live, err)
	}
}

func saveBeforeCreate(t *testing.T, s Runs) {
	r := NewRun("somebody", NewChain(mine, "Not created", "One"))
	wantCode(t, "SaveRun", s.SaveRun(t.Context(), runs.Save{Run: r}), fault.NotFound)
	_, err := s.Run(t.Context(), r.ID)
	wantCode(t, "Run", err, fault.NotFound)
}

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

// failingSave is a save that a store can only refuse half-way: its run is
// fine, its nonce belongs to somebody else.
func failingSave(r run.Run, foreignNonce string) runs.Save {
	r.Outcome = "must not be stored"
	r.Nonces = []string{r.Step.Nonce, "first-" + r.Step.Nonce, foreignNonce}
	return runs.Save{
		Run:      r,
		Events:   []run.Event{{Kind: run.Refused, Reason: "must not be stored"}},
		Recorded: []runs.Recorded{{Key: "must not", Payload: "be", Reply: json.RawMessage(`"stored"`)}},
	}
}

func failingSaveLeavesNothing(t *testing.T, s Runs) {
	c := NewChain(mine, "Atomic", "One")
	r, other := mustCreate(t, s, "somebody", c), mustCreate(t, s, "other", c)
	save := failingSave(r, other.Step.Nonce)
	if err := s.SaveRun(t.Context(), save); err == nil {
		t.Fatal("SaveRun(nonce of another run) = nil, want an error")
	}
	wantNothingOf(t, s, save, r)
}

func wantNothingOf(t *testing.T, s Runs, save runs.Save, before run.Run) {
	t.Helper()
	if diff := cmp.Diff(before, mustRun(t, s, before.ID), rawJSON); diff != "" {
		t.Errorf("Run after the failed save (-want +got):\n%s", diff)
	}
	events, err := s.Events(t.Context(), before.ID)
	if err != nil || slices.Contains(reasons(events), save.Events[0].Reason) {
		t.Errorf("Events after the failed save = %v, %v, want none of it", events, err)
	}
	if _, ok, err := s.Recorded(t.Context(), before.ID, save.Recorded[0].Key); ok || err != nil {
		t.Errorf("Recorded after the failed save = %t, %v, want false, nil", ok, err)
	}
	_, err = s.RunOfNonce(t.Context(), "first-"+before.Step.Nonce)
	wantCode(t, "RunOfNonce after the failed save", err, fault.NotFound)
}

func failingSaveHarmsNobody(t *testing.T, s Runs) {
	const pairs = 16
	c := NewChain(mine, "Neighbours", "One")
	victim := mustCreate(t, s, "victim", c)
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
			if err := s.SaveRun(t.Context(), failingSave(bad[i], victim.Step.Nonce)); err == nil {
				t.Error("SaveRun(bad) = nil, want an error")
			}
		})
	}
	all.Wait()
	for i := range pairs {
		if got := mustRun(t, s, good[i].ID); got.Revision != 2 {
			t.Errorf("Run(good) = revision %d, want 2", got.Revision)
		}
		wantNothingOf(t, s, failingSave(bad[i], victim.Step.Nonce), bad[i])
	}
}

func noncesLeadToRun(t *testing.T, s Runs) {
	r := mustCreate(t, s, "somebody", NewChain(mine, "Nonces", "One", "Two"))
	all := []string{r.Step.Nonce}
	for range 3 {
		// Two nonces in one save: accepted, then issued again at once.
		skipped := NewNonce()
		r.Nonces = append(r.Nonces, r.Step.Nonce, skipped)
		r.Step.Nonce = NewNonce()
		all = append(all, skipped, r.Step.Nonce)
		if err := s.SaveRun(t.Context(), runs.Save{Run: r}); err != nil {
			t.Fatalf("SaveRun = %v, want nil", err)
		}
		r = mustRun(t, s, r.ID)
	}
	// A complete run has no nonce; its old ones still lead to it.
	r.Nonces = append(r.Nonces, r.Step.Nonce)
	r.Step.Nonce, r.State = "", run.Complete
	if err := s.SaveRun(t.Context(), runs.Save{Run: r}); err != nil {
		t.Fatalf("SaveRun = %v, want nil", err)
	}
	for _, nonce := range all {
		if got, err := s.RunOfNonce(t.Context(), nonce); err != nil || got != r.ID {
			t.Errorf("RunOfNonce = %q, %v, want %q", got, err, r.ID)
		}
	}
}

func nonceBelongsToOneRun(t *testing.T, s Runs) {
	c := NewChain(mine, "One owner", "One")
	owner := mustCreate(t, s, "owner", c)
	thief := NewRun("thief", c)
	thief.Step.Nonce = owner.Step.Nonce
	if err := s.CreateRun(t.Context(), runs.Save{Run: thief}, c); err == nil {
		t.Error("CreateRun(nonce of another run) = nil, want an error")
	}
	if got, err := s.RunOfNonce(t.Context(), owner.Step.Nonce); err != nil || got != owner.ID {
		t.Errorf("RunOfNonce = %q, %v, want the owner %q", got, err, owner.ID)
	}
	_, err := s.Run(t.Context(), thief.ID)
	wantCode(t, "Run(thief)", err, fault.NotFound)
}

func eventsInOrder(t *testing.T, s Runs) {
	r := mustCreate(t, s, "somebody", NewChain(mine, "Events", "One"))
	if events, err := s.Events(t.Context(), r.ID); err != nil || len(events) != 0 {
		t.Errorf("Events(new run) = %v, %v, want none, nil", events, err)
	}
	var want []run.Event
	for revision := range 12 {
		var events []run.Event
		for i := range revision % 4 * 4 {
			events = append(events, run.Event{
				Kind: run.Asked, Run: r.ID, Step: i, At: epoch.Add(time.Duration(revision) * time.Second),
				Reason: fmt.Sprintf("%d/%d — ü", revision, i), Walk: json.RawMessage(`{"rule":1}`),
				Answer: &driver.Answer{InputID: "evidence", Value: json.RawMessage(`{"a":[1,2]}`)},
			})
		}
		if err := s.SaveRun(t.Context(), runs.Save{Run: r, Events: events}); err != nil {
			t.Fatalf("SaveRun = %v, want nil", err)
		}
		want = append(want, events...)
		r = mustRun(t, s, r.ID)
	}
	got, err := s.Events(t.Context(), r.ID)
	if err != nil {
		t.Fatalf("Events = %v, want nil", err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Events (-want +got):\n%s", diff)
	}
}

func recordedReplies(t *testing.T, s Runs) {
	c := NewChain(mine, "Recorded", "One")
	r, other := mustCreate(t, s, "somebody", c), mustCreate(t, s, "other", c)
	save := func(replies ...runs.Recorded) {
		t.Helper()
		if err := s.SaveRun(t.Context(), runs.Save{Run: r, Recorded: replies}); err != nil {
			t.Fatalf("SaveRun = %v, want nil", err)
		}
		r = mustRun(t, s, r.ID)
	}
	want := func(id run.ID, key, payload, reply string) {
		t.Helper()
		got, ok, err := s.Recorded(t.Context(), id, key)
		wanted := runs.Recorded{Key: key, Payload: payload, Reply: json.RawMessage(reply)}
		if err != nil || !ok || !cmp.Equal(wanted, got) {
			t.Errorf("Recorded(%q) = %v, %t, %v, want %v", key, got, ok, err, wanted)
		}
	}
	save(runs.Recorded{Key: "nonce:1", Payload: "p1", Reply: json.RawMessage(`{"n":1}`)},
		runs.Recorded{Key: "seq:1", Payload: "p2", Reply: json.RawMessage(`"ü"`)})
	save(runs.Recorded{Key: "nonce:2", Payload: "p3", Reply: json.RawMessage(`[]`)})
	save()
	want(r.ID, "nonce:1", "p1", `{"n":1}`)
	want(r.ID, "seq:1", "p2", `"ü"`)
	want(r.ID, "nonce:2", "p3", `[]`)
	// A nonce lives on after a failed submission; its next reply counts.
	save(runs.Recorded{Key: "nonce:1", Payload: "p4", Reply: json.RawMessage(`{"n":4}`)})
	want(r.ID, "nonce:1", "p4", `{"n":4}`)
	if _, ok, err := s.Recorded(t.Context(), other.ID, "nonce:1"); ok || err != nil {
		t.Errorf("Recorded(other run) = %t, %v, want false, nil", ok, err)
	}
}

func liveRuns(t *testing.T, s Runs) {
	c := NewChain(mine, "Live", "One", "Two")
	var want []run.Summary
	for i, state := range []run.State{run.Open, run.Asking, run.Complete, run.Closed, run.Ended} {
		r := mustCreate(t, s, "somebody", c)
		r.State = state
		r.Step.Index = 1 + i%3
		r.Connection = fmt.Sprint("connection ", i)
		r.UpdatedAt = epoch.Add(time.Duration(i) * time.Minute)
		if err := s.SaveRun(t.Context(), runs.Save{Run: r}); err != nil {
			t.Fatalf("SaveRun = %v, want nil", err)
		}
		if state.Live() {
			want = slices.Insert(want, 0, r.Summary())
		}
	}
	mustCreate(t, s, "other", c)
	got, err := s.LiveRuns(t.Context(), "somebody")
	if err != nil {
		t.Fatalf("LiveRuns = %v, want nil", err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("LiveRuns (-want +got):\n%s", diff)
	}
}

func cancelledWrites(t *testing.T, s Runs) {
	c := NewChain(mine, "Cancelled", "One")
	r := mustCreate(t, s, "somebody", c)
	never := NewRun("somebody", c)
	if err := s.CreateRun(cancelled(t), runs.Save{Run: never}, c); !errors.Is(err, context.Canceled) {
		t.Errorf("CreateRun(cancelled) = %v, want context.Canceled", err)
	}
	_, err := s.Run(t.Context(), never.ID)
	wantCode(t, "Run(never created)", err, fault.NotFound)
	changed := r
	changed.Outcome = "never"
	if err := s.SaveRun(cancelled(t), runs.Save{Run: changed}); !errors.Is(err, context.Canceled) {
		t.Errorf("SaveRun(cancelled) = %v, want context.Canceled", err)
	}
	if got := mustRun(t, s, r.ID); got.Revision != r.Revision || got.Outcome != "" {
		t.Errorf("Run = revision %d, outcome %q, want it unchanged", got.Revision, got.Outcome)
	}
}

// cancelledUnderWay cancels saves at any moment: a context error means that
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
	if err := s.SaveRun(t.Context(), save); err != nil {
		t.Fatalf("SaveRun = %v, want nil", err)
	}
	wantCode(t, "SaveRun(the same again)", s.SaveRun(t.Context(), save), fault.Conflict)
	events, err := s.Events(t.Context(), r.ID)
	if err != nil || len(events) != 1 {
		t.Errorf("Events = %d events, %v, want 1", len(events), err)
	}
}

func chainIsCopied(t *testing.T, s Runs) {
	c := NewChain(mine, "Copied", "One")
	r := mustCreate(t, s, "somebody", c)
	for range 3 { // the later reads may come from a cache
		got, err := s.Pinned(t.Context(), r.Pin)
		if err != nil {
			t.Fatalf("Pinned = %v, want nil", err)
		}
		if diff := cmp.Diff(c, got); diff != "" {
			t.Fatalf("Pinned (-want +got):\n%s", diff)
		}
		got.Steps[0].Label, got.Inputs[0] = "changed", 'x'
	}
}
