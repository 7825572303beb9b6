package director_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/director"
	"github.com/kairos-mcp/kairos/core/director/observe"
	"github.com/kairos-mcp/kairos/core/drivers"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// acting is a challenge driver that changes the world once it has its evidence.
type acting struct {
	act func(nth int32)

	acts atomic.Int32
}

func (*acting) Validate(context.Context, driver.ValidateRequest) (driver.ValidateResult, error) {
	return driver.ValidateResult{}, nil
}

func (a *acting) Advance(_ context.Context, req driver.AdvanceRequest) (driver.AdvanceResult, error) {
	if _, ok := req.Answer("evidence"); !ok {
		return driver.Need(driver.Input{
			ID: "evidence", Kind: driver.KindEvidence, Type: "user_input", Person: true, Description: "say it",
			Schema: json.RawMessage(`{"type":"object"}`),
		}), nil
	}
	a.act(a.acts.Add(1))
	return driver.Accept(json.RawMessage(`{"done":true}`), nil), nil
}

// withActing puts a driver with effects in place and opens a run of it.
func (w *world) withActing(a *acting) (uri string, r *api.StepReply) {
	w.t.Helper()
	desc := descriptors["user_input"]
	desc.Effect = driver.EffectChanges
	w.setups.replace(w.setupOf(map[string]driver.Challenge{"user_input": a}, desc))
	uri = w.mint(stagedStep)[0]
	return uri, w.begin(uri)
}

func TestWhatChangedTheWorldIsNotRepeatedWhenItsSaveIsLost(t *testing.T) {
	w := newWorld(t, nil)
	elsewhere := w.another()
	var id string
	a := &acting{act: func(int32) {
		// Another server of the same database takes the run meanwhile.
		if _, err := elsewhere.Begin(context.Background(), w.caller, api.BeginRequest{SessionID: id}); err != nil {
			t.Error(err)
		}
	}}
	uri, r := w.withActing(a)
	id = r.RunID
	first, err := w.Next(t.Context(), w.caller, api.NextRequest{URI: uri, RunID: id, Solution: json.RawMessage(solve(r, `{"ok":true}`))})
	if err != nil || first.Reply == nil {
		t.Fatalf("Next = %+v, %v, want a reply", first, err)
	}
	got, err := w.Next(t.Context(), w.caller, api.NextRequest{URI: uri, RunID: id, Solution: json.RawMessage(placeholder(first.Reply))})
	if err != nil || got.Reply == nil || got.Reply.ErrorCode != "OUTCOME_UNKNOWN" {
		t.Errorf("reply = %+v, %v, want that nobody can tell what came of it", got.Reply, err)
	}
	if got := a.acts.Load(); got != 1 {
		t.Errorf("the driver acted %d times, want once", got)
	}
}

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
	desc.Effect = driver.EffectChanges
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
	if len(vouchers(r)) != 1 || r.StepIndex != 2 {
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
	if len(vouchers(r)) != 1 || r.StepIndex != 2 {
		t.Errorf("reply = %+v, want step 1 solved", r)
	}
	end := w.next(in.URI, solve(r, `{"ok":true}`))
	w.code(end, "")
	if acts := n.acts.Load(); len(vouchers(end)) != 1 || acts != 1 {
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
	s, uri, r := w.withScript(driver.EffectChanges, recovers, severed(kill), accepts)
	ask := w.ask(w.nextRound(uri, placeholder(r)), "elicitation/create")
	in := director.Continuation{Run: ask.Run, Seq: ask.Seq, Result: json.RawMessage(sampled)}
	if got, err := w.Continue(ctx, w.caller, in); err == nil {
		t.Fatalf("the killed server replies %+v", got)
	}
	w.Engine = w.another()
	first := w.reply(w.answer(ask, sampled))
	w.code(first, "")
	if asked := s.requests(); len(vouchers(first)) != 1 || len(asked) != 2 || !asked[1].Recover {
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
			s, uri, r := w.withScript(driver.EffectChanges, nil, severed(kill), accepts)
			in := api.NextRequest{URI: uri, RunID: r.RunID, Solution: json.RawMessage(solve(r, `{"ok":true}`))}
			if got, err := w.Next(ctx, w.caller, in); err == nil {
				t.Fatalf("the killed server replies %+v", got)
			}
			w.Engine = w.another()
			tc.then(w, r)
			for range 2 {
				got := w.next(in.URI, string(in.Solution))
				w.code(got, tc.code)
				if solved := len(vouchers(got)) == 1; solved != (tc.code == "") {
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

// interrupted is drivers of which a person's answer is read, the first time, while
// something happens.
type interrupted struct {
	drivers.Finder
	read      atomic.Bool
	meanwhile func()
}

func (i *interrupted) Capability(name string, within time.Duration) (driver.Capability, bool) {
	drv, ok := i.Finder.Capability(name, within)
	return interruptedCapability{drv, i}, ok
}

type interruptedCapability struct {
	driver.Capability
	of *interrupted
}

func (c interruptedCapability) Interpret(ctx context.Context, req driver.InterpretRequest) (driver.InterpretResult, error) {
	if !c.of.read.Swap(true) {
		c.of.meanwhile()
	}
	return c.Capability.Interpret(ctx, req)
}

// answeredTwice answers a question here, while another server takes another answer to it.
func (w *world) answeredTwice(a *director.Ask, here, elsewhere string) error {
	w.t.Helper()
	other := w.another()
	continued := func(e Engine, answer string) error {
		_, err := e.Continue(w.t.Context(), w.caller, director.Continuation{Run: a.Run, Seq: a.Seq, Result: json.RawMessage(answer)})
		return err
	}
	setup, release := w.setups.Hold()
	release()
	setup.Drivers = &interrupted{Finder: setup.Drivers, meanwhile: func() {
		if err := continued(other, elsewhere); err != nil {
			w.t.Errorf("the answer elsewhere: %v", err)
		}
	}}
	w.setups.replace(setup)
	return continued(w.Engine, here)
}

func TestOnlyTheAnswerThatCountsAllowsDriversToAct(t *testing.T) {
	for name, tc := range map[string]struct {
		here, elsewhere string
		code            fault.Code
		want            int
	}{
		"the same answer on two servers": {allows("once"), allows("once"), "", 1},
		"after a no":                     {allows("once"), allows("no"), fault.Replayed, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := offeringDoer(t, driver.EffectReads, offered)
			a := w.ask(w.beginRound(w.mint(plainStep)[0], ""), "elicitation/create")
			if err := w.answeredTwice(a, tc.here, tc.elsewhere); fault.CodeOf(err) != tc.code {
				t.Errorf("the answer that came second gets %v, want %q", err, tc.code)
			}
			if all, err := w.Accepted(t.Context(), w.caller); err != nil || len(all) != tc.want {
				t.Errorf("acceptances = %+v, %v, want %d", all, err, tc.want)
			}
		})
	}
}

func TestAnApprovalThatCameSecondDoesNotUndoADecline(t *testing.T) {
	w := newWorld(t, func(o *choices) { o.How, o.DeclineTTL = allWays, time.Hour })
	uri := w.mint(gatedCall("Gated", "go"))[0]
	w.caller.Client = formClient
	a := w.ask(w.nextRound(uri, placeholder(w.begin(uri))), "elicitation/create")
	if err := w.answeredTwice(a, yes, `{"action":"decline"}`); fault.CodeOf(err) != fault.Replayed {
		t.Errorf("the approval gets %v, want that the decline stands", err)
	}
	w.caller.Client, w.Engine = driver.Client{}, w.another()
	contains(t, textOf(w.agentApproves(uri)), barred)
}

// A submission is refused, and in the same call the driver acts on evidence that came
// earlier. The refusal is stored with the intent, and then another server is first.
func TestARefusalThatIsStoredBeforeADriverActsIsNotCountedAgain(t *testing.T) {
	for name, end := range map[string]struct {
		act    advance
		solved int
		counts int
	}{
		"the step stays open": {breaks("its process died"), 0, 1},
		"the step is solved":  {accepts, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			heard := &audience{}
			w := newWorld(t, func(o *choices) { o.Observer = heard })
			elsewhere := w.another()
			decide := func(e Engine, id string) error {
				_, err := e.Decide(t.Context(), w.caller, director.DecideInput{Run: run.ID(id), By: "alice", Reason: "the bank has nothing of it"})
				return err
			}
			var id string
			meanwhile := func(driver.AdvanceRequest) (driver.AdvanceResult, error) {
				return driver.Accept(json.RawMessage(`{"done":true}`), nil), decide(elsewhere, id)
			}
			_, uri, r := w.withScript(driver.EffectChanges, nil, breaks("its process died"), meanwhile, end.act)
			id = r.RunID
			w.code(w.next(uri, solve(r, `{"ok":true}`)), "OUTCOME_UNKNOWN")
			if err := decide(w.Engine, id); err != nil {
				t.Fatal(err)
			}

			got := w.next(uri, fmt.Sprintf(`{"type":"user_input","nonce":%q,"user_input":{"ok":true}}`, r.Challenge.Nonce))
			w.code(got, "MISSING_FIELD")
			if len(vouchers(got)) != end.solved || *got.RetryCount != end.counts {
				t.Errorf("solved %+v with retry_count %d, want %d steps and %d", got.Solved, *got.RetryCount, end.solved, end.counts)
			}
			if n := refusals(heard.routes); n != 1 {
				t.Errorf("the observer heard of %d refusals, want one", n)
			}
		})
	}
}

func refusals(routes []observe.Route) (n int) {
	for _, r := range routes {
		if r.Outcome == observe.Refused {
			n++
		}
	}
	return n
}
