package director_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/director"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// reactsWith replaces what the tree does after outcomes.
func (w *world) reactsWith(on string) {
	w.t.Helper()
	rules, _, _ := strings.Cut(string(decision.Default().YAML), "\non:\n")
	w.hasTree(rules + "\non: " + on + "\n")
}

// hasTree replaces the tree.
func (w *world) hasTree(yaml string) {
	w.t.Helper()
	tree, err := decision.Compile(decision.Source{Name: "t.yaml", YAML: []byte(yaml)}, slices.Collect(maps.Values(descriptors)))
	if err != nil {
		w.t.Fatal(err)
	}
	setup, release := w.setups.Hold()
	release()
	setup.Tree = tree
	w.setups.replace(setup)
}

// fails is the round after the client said that it failed.
func (w *world) fails(a *director.Ask) director.Round {
	w.t.Helper()
	r, err := w.Continue(w.t.Context(), w.caller, failure(a))
	if err != nil {
		w.t.Fatalf("Continue: %v", err)
	}
	return r
}

func failure(a *director.Ask) director.Continuation {
	return director.Continuation{Run: a.Run, Seq: a.Seq, Error: &driver.ClientError{Code: -32603, Message: "out of order"}}
}

func modelFirst(c *choices) {
	c.Settings.UserInput.Enabled, c.Settings.UserInput.Driver = true, "sampling"
}

func TestARouteThatFailedIsNotTriedTwiceInACall(t *testing.T) {
	w := newWorld(t, modelFirst)
	uri := w.mint(strings.Replace(askStep, `"type":`, `"approval_mode":"auto","type":`, 1))[0]
	w.caller.Client = driver.Client{ElicitationForm: true, Sampling: true}
	r := w.begin(uri)
	ask := w.ask(w.nextRound(uri, placeholder(r)), "sampling/createMessage")
	ask = w.ask(w.fails(ask), "elicitation/create")
	r = w.reply(w.fails(ask))
	w.code(r, "SAMPLING_FAILED")
	for _, route := range []string{"sampling: error (out of order)", "elicitation: error (out of order)"} {
		if !strings.Contains(r.Message, route) {
			t.Errorf("message = %q, want %q in it", r.Message, route)
		}
	}
	w.ask(w.nextRound(uri, placeholder(r)), "sampling/createMessage") // another call tries anew
}

func TestARouteHasReactionsAndACallTimeoutOfItsOwn(t *testing.T) {
	shipped := string(decision.Default().YAML)
	for name, yaml := range map[string]string{
		"the route's":  strings.Replace(shipped, "client.sampling', retries: 1}", "client.sampling', call_timeout: 40s, on: {error: stop}}", 1),
		"its driver's": shipped + "\ndrivers: {sampling: {on: {error: stop}}}\n",
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.hasTree(yaml)
			uri := w.mint(sampledStep)[0]
			w.caller.Client = driver.Client{Sampling: true}
			r := w.reply(w.fails(w.ask(w.beginRound(uri, ""), "sampling/createMessage")))
			w.code(r, "DRIVER_UNAVAILABLE")
			if !strings.Contains(r.Message, "the route sampling to its evidence gave no answer (error: out of order)") {
				t.Errorf("message = %q, want the route at which the call stopped", r.Message)
			}
			var want time.Duration
			if strings.Contains(yaml, "call_timeout") {
				want = 40 * time.Second
			}
			if got, _ := w.drivers.within.Load("sampling"); got != want {
				t.Errorf("the driver was called within %v, want %v", got, want)
			}
			// The next call tries the same route again, and is not kept from it.
			w.ask(w.nextRound(uri, placeholder(r)), "sampling/createMessage")
		})
	}
}

func TestTheTreeMayStopTheCallAtARouteThatGivesNoAnswer(t *testing.T) {
	for name, tc := range map[string]struct {
		on, want string
		play     func(w *world, uri string) *api.StepReply
	}{
		"a client that fails": {"{error: stop}", "error: out of order", func(w *world, uri string) *api.StepReply {
			return w.reply(w.fails(w.ask(w.beginRound(uri, ""), "sampling/createMessage")))
		}},
		"a driver that fails": {"{error: stop}", "error: driver sampling is broken", func(w *world, uri string) *api.StepReply {
			w.drivers.set("sampling", true)
			defer w.drivers.set("sampling", false)
			return w.begin(uri)
		}},
		"a client that has no such method": {"{unavailable: stop}", "unavailable: no such method", func(w *world, uri string) *api.StepReply {
			a := w.ask(w.beginRound(uri, ""), "sampling/createMessage")
			r, err := w.Continue(w.t.Context(), w.caller, director.Continuation{
				Run: a.Run, Seq: a.Seq, Error: &driver.ClientError{Code: -32601, Message: "no such method"},
			})
			if err != nil {
				w.t.Fatal(err)
			}
			return w.reply(r)
		}},
		"an answer that is none": {"{invalid: {retry: 0, then: stop}}", "invalid: no action", func(w *world, uri string) *api.StepReply {
			a := w.ask(w.beginRound(uri, ""), "sampling/createMessage")
			return w.reply(w.answer(w.ask(w.answer(a, `{}`), "sampling/createMessage"), `{}`)) // the route has a retry of its own
		}},
		"no answer in time": {"{timeout: stop}", "timeout: no reply in time", func(w *world, uri string) *api.StepReply {
			a := w.ask(w.beginRound(uri, ""), "sampling/createMessage")
			r, err := w.Waiting(w.t.Context(), w.caller, a.Run, a.Seq)
			if err != nil {
				w.t.Fatal(err)
			}
			return &r
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.reactsWith(tc.on)
			uri := w.mint(sampledStep)[0]
			w.caller.Client = driver.Client{Sampling: true}
			r := tc.play(w, uri)
			w.code(r, "DRIVER_UNAVAILABLE")
			if !r.MustObey || *r.RetryCount != 0 || !strings.Contains(r.Message, "the route sampling to its evidence gave no answer ("+tc.want) {
				t.Errorf("reply = %+v, want the route, why it ended and no failure counted", r)
			}
			// Nothing is lost: the next call tries the same route again.
			end := w.reply(w.answer(w.ask(w.nextRound(uri, placeholder(r)), "sampling/createMessage"), sampled))
			w.code(end, "")
			if len(end.Solved) != 1 {
				t.Errorf("solved = %+v, want the step", end.Solved)
			}
		})
	}
}

func TestAStoppedCallIsRepeatedAsItWas(t *testing.T) {
	w := newWorld(t, nil)
	w.reactsWith("{error: stop}")
	uri := w.mint(sampledStep)[0]
	w.caller.Client = driver.Client{Sampling: true}
	ask := w.ask(w.beginRound(uri, ""), "sampling/createMessage")
	first := w.reply(w.fails(ask))
	if again := w.reply(w.fails(ask)); again.Message != first.Message || again.ErrorCode != first.ErrorCode {
		t.Errorf("the same answer again = %+v, want %+v", again, first)
	}
}

func TestAStopAtAnApprovalLetsNobodyAct(t *testing.T) {
	w := newWorld(t, func(c *choices) { c.Settings.Approval.TrustAgent = true })
	w.reactsWith("{error: stop}")
	uri := w.mint(approvedStep)[0]
	w.caller.Client = driver.Client{ElicitationForm: true}
	r := w.reply(w.fails(w.ask(w.beginRound(uri, ""), "elicitation/create")))
	w.code(r, "APPROVAL_UNAVAILABLE")
	if !strings.Contains(r.Message, "do not do the step's work") {
		t.Errorf("message = %q, want the agent told not to act", r.Message)
	}
	w.ask(w.nextRound(uri, placeholder(r)), "elicitation/create")
}

// A route that the input is not meant for was not tried, so nothing stops there.
func TestARouteThatDoesNotFitIsPassedOverWhateverTheTreeStopsAt(t *testing.T) {
	for _, on := range []string{"{unavailable: stop}", "{unavailable: {retry: 10, then: stop}}"} {
		t.Run(on, func(t *testing.T) {
			w := newWorld(t, func(c *choices) { c.Settings.Approval.TrustAgent = true })
			w.reactsWith(on)
			uri := w.mint(strings.Replace(approvedStep, `,"sampling":`, `,"unused":`, 1))[0]
			w.caller.Client = driver.Client{Sampling: true} // its review sees no evidence that the agent gives
			r := w.begin(uri)
			w.code(r, "")
			if r.Challenge.Type != "user_input" {
				t.Errorf("challenge = %+v, want the agent asked for the approval", r.Challenge)
			}
			if tried := w.state(runOf(r)).Step.Tried; len(tried) != 1 {
				t.Errorf("tried = %+v, want the route passed over once", tried)
			}
		})
	}
}

func TestARouteIsTriedAgainAsOftenAsTheTreeSays(t *testing.T) {
	w := newWorld(t, nil)
	w.reactsWith("{error: {retry: 2, then: stop}}")
	uri := w.mint(sampledStep)[0]
	w.caller.Client = driver.Client{Sampling: true}
	round := w.beginRound(uri, "")
	for range 2 {
		round = w.fails(w.ask(round, "sampling/createMessage"))
	}
	w.code(w.reply(w.fails(w.ask(round, "sampling/createMessage"))), "DRIVER_UNAVAILABLE")
}
