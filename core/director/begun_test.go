package director_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/director"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

const thenActing = "# Then\n\n## Build\n\nbuild it\n\n```json\n{\"challenge\":{\"type\":\"shell\",\"shell\":{\"cmd\":\"make\"}}}\n```\n" +
	"\n## Say\n\nsay it\n\n```json\n{\"challenge\":{\"type\":\"user_input\",\"user_input\":{\"prompt\":\"say\"}}}\n```\n"

// needing is an acting driver for which something happens while it is asked what the step
// needs, the first time.
type needing struct {
	acting
	asked     atomic.Bool
	meanwhile func() error
}

func (n *needing) Advance(ctx context.Context, req driver.AdvanceRequest) (driver.AdvanceResult, error) {
	if len(req.Answers) == 0 && !n.asked.Swap(true) {
		if err := n.meanwhile(); err != nil {
			return driver.AdvanceResult{}, err
		}
	}
	return n.acting.Advance(ctx, req)
}

// beforeActing opens a run whose second step is acting.
func (w *world) beforeActing(n *needing) (in api.NextRequest) {
	w.t.Helper()
	desc := descriptors["user_input"]
	desc.Effect = driver.EffectEffects
	w.setups.replace(w.setupOf(map[string]driver.Challenge{"user_input": n}, desc))
	uri := w.mint(thenActing)[0]
	return api.NextRequest{URI: uri, Solution: json.RawMessage(solve(w.begin(uri), `{"ok":true}`))}
}

func TestTheSameCallWhileAnActingDriverIsAskedWhatItNeedsGetsTheSameReply(t *testing.T) {
	w := newWorld(t, nil)
	elsewhere, n := w.another(), &needing{}
	in := w.beforeActing(n)
	var other director.Round
	n.meanwhile = func() (err error) {
		other, err = elsewhere.Next(context.Background(), w.caller, in)
		return err
	}
	round, err := w.Next(t.Context(), w.caller, in)
	if err != nil {
		t.Fatal(err)
	}
	r := w.reply(round)
	w.code(r, "")
	if len(r.Solved) != 1 || r.StepIndex != 2 {
		t.Errorf("reply = %+v, want step 1 solved and step 2 open", r)
	}
	if diff := cmp.Diff(w.reply(other), r); diff != "" {
		t.Errorf("the two calls got different replies (-one +other):\n%s", diff)
	}
}

func TestADriverThatFailsWhenItIsAskedWhatItNeedsHasDoneNothing(t *testing.T) {
	w := newWorld(t, nil)
	n := &needing{meanwhile: func() error { return errors.New("its process died") }, acting: acting{act: func(int32) {}}}
	in := w.beforeActing(n)
	r := w.next(in.URI, string(in.Solution))
	w.code(r, "DRIVER_UNAVAILABLE")
	if len(r.Solved) != 1 || r.StepIndex != 2 {
		t.Errorf("reply = %+v, want step 1 solved", r)
	}
	end := w.next(in.URI, solve(r, `{"ok":true}`))
	w.code(end, "")
	if acts := n.acts.Load(); len(end.Solved) != 1 || acts != 1 {
		t.Errorf("solved %+v after %d acts, want step 2 after one", end.Solved, acts)
	}
}

// severed is the server that was killed while the driver acts: nothing is stored any more.
func severed(cancel context.CancelFunc) advance {
	return func(driver.AdvanceRequest) (driver.AdvanceResult, error) {
		cancel()
		return driver.AdvanceResult{}, context.Canceled
	}
}

func TestTheSameAnswerAfterTheServerWasKilledWhileADriverActedGetsWhatCameOfIt(t *testing.T) {
	w := newWorld(t, nil)
	w.caller.Client.ElicitationForm = true
	ctx, kill := context.WithCancel(t.Context())
	s, uri, r := w.withScript(driver.EffectEffects, recovers, severed(kill), accepts)
	ask := w.ask(w.nextRound(uri, placeholder(r)), "elicitation/create")
	in := director.Continuation{Run: ask.Run, Seq: ask.Seq, Result: json.RawMessage(sampled)}
	if got, err := w.Continue(ctx, w.caller, in); err == nil {
		t.Fatalf("the killed server replies %+v", got)
	}
	w.Engine = w.another()
	first := w.reply(w.answer(ask, sampled))
	w.code(first, "")
	if asked := s.requests(); len(first.Solved) != 1 || len(asked) != 2 || !asked[1].Recover {
		t.Errorf("solved %+v after %+v, want the step, after the driver was asked what came of its call", first.Solved, asked)
	}
	if diff := cmp.Diff(first, w.reply(w.answer(ask, sampled))); diff != "" {
		t.Errorf("the next time the reply differs (-first +next):\n%s", diff)
	}
}

func TestTheSameEvidenceAfterTheServerWasKilledWhileADriverActedIsNeverAMistake(t *testing.T) {
	for name, tc := range map[string]struct {
		then func(*world, *api.StepReply)
		code string
	}{
		"another client took the run over": {func(w *world, r *api.StepReply) {
			round, err := w.Begin(w.t.Context(), w.caller, api.BeginRequest{SessionID: r.RunID})
			if err != nil {
				w.t.Fatal(err)
			}
			w.code(w.reply(round), "OUTCOME_UNKNOWN")
		}, "OUTCOME_UNKNOWN"},
		"a person decided": {func(w *world, r *api.StepReply) {
			in := director.DecideInput{Run: runOf(r), Happened: true, By: "alice", Reason: "the bank says so"}
			if _, err := w.Decide(w.t.Context(), w.caller, in); err != nil {
				w.t.Fatal(err)
			}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			ctx, kill := context.WithCancel(t.Context())
			s, uri, r := w.withScript(driver.EffectEffects, nil, severed(kill), accepts)
			in := api.NextRequest{URI: uri, RunID: r.RunID, Solution: json.RawMessage(solve(r, `{"ok":true}`))}
			if got, err := w.Next(ctx, w.caller, in); err == nil {
				t.Fatalf("the killed server replies %+v", got)
			}
			w.Engine = w.another()
			tc.then(w, r)
			for range 2 {
				got := w.next(in.URI, string(in.Solution))
				w.code(got, tc.code)
				if solved := len(got.Solved) == 1; solved != (tc.code == "") {
					t.Errorf("solved = %+v with the code %q", got.Solved, got.ErrorCode)
				}
			}
			if other := w.next(in.URI, solve(r, `{"ok":false}`)); tc.code != "" {
				w.code(other, "NONCE_MISMATCH")
			}
			if n := len(s.requests()); n != 1 {
				t.Errorf("the driver acted %d times, want once", n)
			}
		})
	}
}
