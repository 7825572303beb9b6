package runs_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/clock"
	"github.com/kairos-mcp/kairos/core/clock/clocktest"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/core/store/sqlite/sqlitetest"
	"github.com/kairos-mcp/kairos/core/store/storetest"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

var me = access.Caller{Principal: "me", Space: "user:test:me"}

// listener keeps the last standing of each run.
type listener struct {
	mu   sync.Mutex // guards last
	last map[run.ID]runs.Standing
}

func (l *listener) Moved(s runs.Standing) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last[s.Run.ID] = s
}

// world is a keeper on a real store.
type world struct {
	*runs.Keeper
	t       *testing.T
	machine *clocktest.Source
	heard   listener
	another func() *runs.Keeper // of another server
}

func newWorld(t *testing.T) *world {
	t.Helper()
	store := sqlitetest.New(t)
	w := &world{t: t, machine: clocktest.New(time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)), heard: listener{last: map[run.ID]runs.Standing{}}}
	w.another = func() *runs.Keeper {
		return runs.New(runs.Store{Runs: store, Index: store, History: store}, runs.Options{Handover: &w.heard, Clock: clock.New(w.machine)})
	}
	w.Keeper = w.another()
	return w
}

// begin stores a new run of two steps.
func (w *world) begin() run.ID {
	w.t.Helper()
	chain := storetest.NewChain(me.Space, "Two Steps", "First", "Second")
	r := storetest.NewRun(me.Principal, chain)
	r.CreatedAt, r.UpdatedAt = w.machine.Wall(), w.machine.Wall()
	if _, err := w.Create(r, chain).Save(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	return r.ID
}

var evidence = driver.Input{ID: "evidence", Kind: driver.KindEvidence, Type: "any"}

// happen stores what happened in the run.
func (w *world) happen(k *runs.Keeper, id run.ID, events ...run.Event) error {
	w.t.Helper()
	change, err := k.Open(w.t.Context(), me, id)
	if err != nil {
		return err
	}
	for _, ev := range events {
		if err := change.Append(ev); err != nil {
			w.t.Fatalf("%s: %v", ev.Kind, err)
		}
	}
	_, err = change.Save(w.t.Context())
	return err
}

// solve stores that the agent solved the open step with this evidence.
func (w *world) solve(id run.ID, value string) {
	w.t.Helper()
	change, err := w.Open(w.t.Context(), me, id)
	if err != nil {
		w.t.Fatal(err)
	}
	answer := driver.Answer{InputID: evidence.ID, Value: json.RawMessage(value), Provenance: driver.AgentReported, Via: "agent"}
	given := run.Evidence{Answers: []driver.Answer{answer}, Salt: "salt"}
	digest, err := given.Digest()
	if err != nil {
		w.t.Fatal(err)
	}
	at := change.Run.Step
	proof, err := run.Proof{
		Previous: change.Run.ProofHash(), Run: id, Step: at.Index, StepUUID: change.Chain.Steps[at.Index-1].UUID, EvidenceDigest: digest,
		Provenance: driver.AgentReported, At: change.Now(),
	}.Seal()
	if err != nil {
		w.t.Fatal(err)
	}
	err = w.happen(w.Keeper, id,
		run.Event{Kind: run.Needed, Inputs: []driver.Input{evidence}}, run.Event{Kind: run.Supplied, Input: evidence.ID, Via: "agent", Answer: &answer},
		run.Event{Kind: run.Accepted, Proof: &proof, Evidence: &given, Nonce: at.Nonce + "+", Solves: at.Nonce})
	if err != nil {
		w.t.Fatal(err)
	}
}

func TestWhereARunStandsIsHandedOver(t *testing.T) {
	w := newWorld(t)
	id := w.begin()
	first := w.heard.last[id]
	if first.URI == "" || first.Step != "step_1" || len(first.Solved) != 0 || first.Run.State != run.Open || first.Run.StepIndex != 1 {
		t.Errorf("after begin: %+v, want the open first step", first)
	}
	w.machine.Pass(time.Minute)
	w.solve(id, `{"secret":"s3cr3t"}`)
	second := w.heard.last[id]
	want := []runs.SolvedName{{Name: "step_1", Provenance: driver.AgentReported}}
	if diff := cmp.Diff(want, second.Solved); diff != "" || second.Run.StepIndex != 2 || second.Run.UpdatedAt.Sub(first.Run.UpdatedAt) < time.Minute {
		t.Errorf("after a step: %+v (-want +got):\n%s", second, diff)
	}
	r, err := w.Read(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	said, err := json.Marshal(second)
	if err != nil {
		t.Fatal(err)
	}
	for what, secret := range map[string]string{"the evidence": "s3cr3t", "the nonce": r.Step.Nonce, "the proof": r.ProofHash()} {
		if strings.Contains(string(said), secret) {
			t.Errorf("%s is handed over: %s", what, said)
		}
	}
	stored, err := w.Standing(t.Context(), id)
	if diff := cmp.Diff(second, stored); diff != "" || err != nil {
		t.Errorf("Standing, %v (-heard +stored):\n%s", err, diff)
	}
	for _, tc := range []struct {
		event run.Event
		want  run.State
	}{
		{run.Event{Kind: run.Needed, Inputs: []driver.Input{evidence}}, run.Open},
		{run.Event{Kind: run.Asked, Input: evidence.ID, Via: "form", Question: &run.Question{Seq: 1, Input: evidence, Via: "form", AskedAt: w.machine.Wall()}}, run.Asking},
		{run.Event{Kind: run.Abandoned, Reason: "the plan changed"}, run.Ended},
	} {
		if err := w.happen(w.Keeper, id, tc.event); err != nil {
			t.Fatal(err)
		}
		if got := w.heard.last[id].Run.State; got != tc.want {
			t.Errorf("after %s it is handed over as %s, want %s", tc.event.Kind, got, tc.want)
		}
	}
	change, err := w.Open(t.Context(), me, id)
	if err != nil {
		t.Fatal(err)
	}
	if over := change.Over(t.Context()); over.Code != fault.NoOpenRun || !strings.Contains(over.Message, "the plan changed") {
		t.Errorf("Over = %v, want how it ended", over)
	}
	if _, err := w.Standing(t.Context(), "nothing"); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("Standing(of no run) = %v, want NOT_FOUND", err)
	}
}

func TestAKeeperThatKnowsAnEarlierRevisionReadsTheLatest(t *testing.T) {
	w := newWorld(t)
	id, elsewhere := w.begin(), w.another()
	w.solve(id, `{}`) // so that this keeper knows the run
	stale, err := w.Open(t.Context(), me, id)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.happen(elsewhere, id, run.Event{Kind: run.Needed, Inputs: []driver.Input{evidence}}); err != nil {
		t.Fatal(err)
	}
	here, err := w.Read(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	there, err := w.another().Read(t.Context(), id)
	there.Held = here.Held // which is of the process
	if diff := cmp.Diff(there, here, cmp.AllowUnexported(run.Run{})); err != nil || diff != "" || len(here.Step.Inputs) != 1 || len(here.Proofs) != 1 {
		t.Errorf("the run is known as another keeper reads it, %v (-read +known):\n%s", err, diff)
	}
	if err := stale.Append(run.Event{Kind: run.Needed, Inputs: []driver.Input{evidence}}); err != nil {
		t.Fatal(err)
	}
	if _, err := stale.Save(t.Context()); fault.CodeOf(err) != fault.Conflict {
		t.Errorf("Save of what another keeper changed meanwhile = %v, want CONFLICT", err)
	}
}

func TestARunIsOfItsPrincipalAndEndsInItsTime(t *testing.T) {
	w := newWorld(t)
	id := w.begin()
	for name, c := range map[string]access.Caller{
		"another principal": {Principal: "you", Space: me.Space}, "who left the space": {Principal: me.Principal, Space: "user:test:elsewhere"},
	} {
		if _, err := w.Open(t.Context(), c, id); fault.CodeOf(err) != fault.NotFound {
			t.Errorf("Open by %s = %v, want NOT_FOUND", name, err)
		}
	}
	w.machine.Pass(25 * time.Hour) // nobody touched its first step for a day
	change, err := w.Open(t.Context(), me, id)
	if err != nil || change.Run.State != run.Ended || w.heard.last[id].Run.State != run.Ended {
		t.Fatalf("Open = %+v, %v, want it ended, and that handed over", change, err)
	}
	if over := change.Over(t.Context()); !strings.Contains(over.Message, "never advanced beyond its first step") {
		t.Errorf("Over = %v, want why it ended", over)
	}
}

func TestOneUseCaseAtATimeDrivesARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := runs.New(runs.Store{}, runs.Options{})
		first, second, third := k.Claim(), k.Claim(), k.Claim()
		if err := errors.Join(first.Take(t.Context(), "r"), first.Take(t.Context(), "r")); err != nil { // a claim may be taken again
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		waits := func(c *runs.Claim, ctx context.Context) <-chan error {
			done := make(chan error, 1)
			go func() { done <- c.Take(ctx, "r") }()
			synctest.Wait()
			return done
		}
		impatient, patient := waits(second, ctx), waits(third, t.Context())
		cancel()
		if err := <-impatient; !errors.Is(err, context.Canceled) {
			t.Errorf("the call that gave up ended with %v, want its context's error", err)
		}
		select {
		case err := <-patient:
			t.Fatalf("two use cases drive the run (%v)", err)
		default:
		}
		if err := second.Take(t.Context(), "another run"); err != nil {
			t.Errorf("another run is claimed, too: %v", err)
		}
		first.Release()
		if err := <-patient; err != nil {
			t.Error(err)
		}
		third.Release()
		second.Release()
		second.Release() // of nothing
		if n := k.Claims(); n != 0 {
			t.Errorf("%d runs are still claimed", n)
		}
	})
}
