package director_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/director"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// listener keeps the last standing of each run.
type listener struct {
	mu   sync.Mutex // guards last
	last map[run.ID]runs.Standing
}

func (l *listener) Moved(s runs.Standing) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last == nil {
		l.last = map[run.ID]runs.Standing{}
	}
	l.last[s.Run.ID] = s
}

func (l *listener) of(id run.ID) runs.Standing {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last[id]
}

// state is what the store holds of the run.
func (w *world) state(id run.ID) run.Run {
	w.t.Helper()
	r, err := w.stored(id)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// stored reads a run with its past.
func (w *world) stored(id run.ID) (run.Run, error) {
	r, err := w.store.Run(context.Background(), id)
	if err != nil {
		return r, err
	}
	events, err := w.store.Events(context.Background(), id)
	return r.Recall(run.Run{}, events), err
}

func TestWhereARunStandsIsHandedOver(t *testing.T) {
	heard := &listener{}
	w := newWorld(t, func(c *choices) { c.Handover = heard })
	uris := w.mint(threeSteps)
	r := w.begin(uris[0])
	id := runOf(r)
	first := heard.of(id)
	if first.URI != uris[0] || first.Step == "" || len(first.Solved) != 0 || first.Run.State != run.Open || first.Run.StepIndex != 1 {
		t.Errorf("after begin: %+v, want the open first step", first)
	}
	w.machine.Pass(time.Minute)
	r = w.next(uris[0], solve(r, `{"ok":true,"secret":"s3cr3t"}`))
	second := heard.of(id)
	want := []runs.SolvedName{{Name: first.Step, Provenance: driver.AgentReported}}
	if diff := cmp.Diff(want, second.Solved); diff != "" || second.Run.StepIndex != 2 || second.Run.UpdatedAt.Sub(first.Run.UpdatedAt) < time.Minute {
		t.Errorf("after a step: %+v (-want +got):\n%s", second, diff)
	}
	said, err := json.Marshal(second)
	if err != nil {
		t.Fatal(err)
	}
	for what, secret := range map[string]string{"the evidence": "s3cr3t", "the nonce": r.Challenge.Nonce, "the proof": r.ProofHash} {
		if strings.Contains(string(said), secret) {
			t.Errorf("%s is handed over: %s", what, said)
		}
	}
	stored, err := w.Standing(t.Context(), id)
	if diff := cmp.Diff(second, stored); diff != "" || err != nil {
		t.Errorf("Standing, %v (-heard +stored):\n%s", err, diff)
	}
	if _, err := w.Attest(t.Context(), w.caller, api.AttestRequest{URI: uris[0], RunID: r.RunID, Outcome: "failure", Message: "enough"}); err != nil {
		t.Fatal(err)
	}
	if got := heard.of(id).Run.State; got != run.Closed {
		t.Errorf("after attest: %s, want closed", got)
	}
	if _, err := w.Standing(t.Context(), "nothing"); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("Standing(of no run) = %v, want NOT_FOUND", err)
	}
}

func TestAPauseForAPersonIsHandedOver(t *testing.T) {
	heard := &listener{}
	w := newWorld(t, func(c *choices) { c.Handover = heard })
	w.caller.Client.ElicitationForm = true
	uris := w.mint(gatedStep)
	begun := w.begin(uris[0])
	w.ask(w.nextRound(uris[0], placeholder(begun)), "elicitation/create")
	if got := heard.of(runOf(begun)).Run.State; got != run.Asking {
		t.Errorf("while a person is asked: %s, want asking", got)
	}
}

func TestAnAbandonedRunIsOver(t *testing.T) {
	heard := &listener{}
	w := newWorld(t, func(c *choices) { c.Handover = heard })
	w.caller.Client.ElicitationForm = true
	uris := w.mint(gatedStep)
	begun := w.begin(uris[0])
	other := w.begin(uris[0])
	ask := w.ask(w.nextRound(uris[0], placeholder(begun)), "elicitation/create")
	id := runOf(begun)

	stranger := w.caller
	stranger.Principal = "you"
	if _, err := w.Abandon(t.Context(), stranger, id, ""); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("Abandon(a foreign run) = %v, want NOT_FOUND", err)
	}
	s, err := w.Abandon(t.Context(), w.caller, id, "the plan changed")
	if err != nil || s.State != run.Ended || s.ID != id {
		t.Fatalf("Abandon = %+v, %v, want the run, ended", s, err)
	}
	if got := heard.of(id).Run.State; got != run.Ended {
		t.Errorf("handed over as %s, want ended", got)
	}
	if q := w.state(id).Step.Question; q != nil {
		t.Errorf("the question is still open: %+v", q)
	}
	// Every later call learns that it is over, and why.
	calls := map[string]func() error{
		"the person's answer": func() error {
			_, err := w.Continue(t.Context(), w.caller, director.Continuation{Run: ask.Run, Seq: ask.Seq, Result: json.RawMessage(`{"action":"accept","content":{"confirmation":"approved"}}`)})
			return err
		},
		"next": func() error {
			_, err := w.Next(t.Context(), w.caller, api.NextRequest{URI: uris[0], RunID: begun.RunID})
			return err
		},
		"begin with the session id": func() error {
			_, err := w.Begin(t.Context(), w.caller, api.BeginRequest{URI: uris[0], SessionID: begun.RunID})
			return err
		},
		"abandoning it again": func() error {
			_, err := w.Abandon(t.Context(), w.caller, id, "twice")
			return err
		},
	}
	for name, call := range calls {
		if err := call(); fault.CodeOf(err) != fault.NoOpenRun || !strings.Contains(err.Error(), "the plan changed") {
			t.Errorf("%s: %v, want NO_OPEN_RUN and the reason", name, err)
		}
	}
	line, err := w.Timeline(t.Context(), w.caller, id)
	if last := line.Moments[len(line.Moments)-1]; err != nil || last.What != "abandoned" || last.Verdict != "the plan changed" {
		t.Errorf("the timeline ends with %+v, %v", last, err)
	}
	w.ask(w.nextRound(uris[0], placeholder(other)), "elicitation/create") // the other run continues
}

func TestAResumedRunBelongsToTheConnectionThatResumedIt(t *testing.T) {
	w := newWorld(t, nil)
	uris := w.mint(threeSteps)
	first, second := w.begin(uris[0]), w.begin(uris[0])
	w.caller.Connection = "c2"
	if _, err := w.Begin(t.Context(), w.caller, api.BeginRequest{URI: uris[0], SessionID: first.SessionID}); err != nil {
		t.Fatal(err)
	}
	reply := w.next(uris[0], "") // without a nonce or a run_id
	if reply.RunID != first.RunID {
		t.Errorf("next on the connection that resumed went to run %s, want %s", reply.RunID, first.RunID)
	}
	w.caller.Connection = "c1"
	if reply = w.next(uris[0], ""); reply.RunID != second.RunID {
		t.Errorf("next on the old connection went to run %s, want the one left there, %s", reply.RunID, second.RunID)
	}
}

// A person is asked, then another client takes over that cannot ask them; the
// question waits for one that can.
func TestARunThatWaitsForAPersonContinuesThroughAnyClientThatCanAskThem(t *testing.T) {
	w := newWorld(t, nil)
	uris := w.mint(gatedStep)
	asker := w.caller
	asker.Client = driver.Client{Name: "old", Era: "2025-11-25", Transport: "stdio", ElicitationForm: true}
	bare := access.Caller{Principal: "me", Space: asker.Space, Client: driver.Client{Name: "bare", Era: "2026-07-28", Transport: "http"}}
	w.caller = asker
	begun := w.begin(uris[0])
	w.ask(w.nextRound(uris[0], placeholder(begun)), "elicitation/create")

	w.caller = bare
	resumed, err := w.Begin(t.Context(), w.caller, api.BeginRequest{URI: uris[0], SessionID: begun.SessionID})
	if err != nil {
		t.Fatal(err)
	}
	w.code(w.reply(resumed), string(fault.ApprovalUnavailable))
	if s := w.state(runOf(begun)); s.Step.Approval != nil || !s.State.Live() {
		t.Errorf("after the takeover: %s, approval %+v, want it live and not approved", s.State, s.Step.Approval)
	}

	modern := bare
	modern.Client.ElicitationForm, modern.CanWait = true, time.Minute
	w.caller = modern
	resumed, err = w.Begin(t.Context(), w.caller, api.BeginRequest{URI: uris[0], SessionID: begun.SessionID})
	if err != nil {
		t.Fatal(err)
	}
	reply := w.reply(resumed)
	w.code(reply, "")
	ask := w.ask(w.nextRound(uris[0], placeholder(reply)), "elicitation/create")
	reply = w.reply(w.answer(ask, `{"action":"accept","content":{"confirmation":"approved"}}`))
	w.code(reply, "")
	if w.state(runOf(begun)).Step.Approval == nil {
		t.Error("the person's yes through the third client was not taken")
	}
}
