package director_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/director"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

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

func TestAnAbandonedRunIsOver(t *testing.T) {
	w := newWorld(t, nil)
	w.caller.Client.ElicitationForm = true
	uris := w.mint(gatedStep)
	begun := w.begin(uris[0])
	other := w.begin(uris[0])
	ask := w.ask(w.nextRound(uris[0], placeholder(begun)), "elicitation/create")
	id := runOf(begun)

	stranger := w.caller
	stranger.Principal = "you"
	_, err := w.Abandon(t.Context(), stranger, id, "")
	refused(t, err, fault.NotFound)
	s, err := w.Abandon(t.Context(), w.caller, id, "the plan changed")
	if err != nil || s.State != run.Ended || s.ID != id {
		t.Fatalf("Abandon = %+v, %v, want the run, ended", s, err)
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
	if last := w.moment(begun, "abandoned"); last.Verdict != "the plan changed" {
		t.Errorf("the timeline ends with %+v", last)
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
