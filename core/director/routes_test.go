package director_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/archive"
	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/director"
	"github.com/kairos-mcp/kairos/core/director/budget"
	"github.com/kairos-mcp/kairos/core/director/observe"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// reacting is a world whose tree reacts to outcomes in another way.
func reacting(on string, change ...func(*choices)) func(*testing.T) *world {
	rules, _, _ := strings.Cut(string(decision.Default().YAML), "\non:\n")
	return treed(rules+"\non: "+on+"\n", change...)
}

// treed is a world with another tree.
func treed(yaml string, change ...func(*choices)) func(*testing.T) *world {
	return func(t *testing.T) *world {
		t.Helper()
		w := newWorld(t, append(change, nil)[0])
		setup, release := w.setups.Hold()
		release()
		setup.Tree = compile(t, yaml, descriptors)
		w.setups.replace(setup)
		return w
	}
}

// fails is the round after the client said that it failed.
func (w *world) fails(a *director.Ask) director.Round {
	w.t.Helper()
	r, err := w.Continue(w.t.Context(), w.caller, director.Continuation{Run: a.Run, Seq: a.Seq, Error: &driver.ClientError{Code: -32603, Message: "out of order"}})
	if err != nil {
		w.t.Fatalf("Continue: %v", err)
	}
	return r
}

func (w *world) unanswered(a *director.Ask) director.Round {
	w.t.Helper()
	r, err := w.Unanswered(w.t.Context(), w.caller, a.Run, a.Seq)
	if err != nil {
		w.t.Fatalf("Unanswered: %v", err)
	}
	return r
}

func modelFirst(c *choices) {
	c.Settings.UserInput.Enabled, c.Settings.UserInput.Driver = true, "sampling"
}

// tried checks the routes of the open step that gave no answer.
func tried(want ...string) move {
	return func(p *play) {
		p.t.Helper()
		var got []string
		for _, a := range p.state(p.question.Run).Step.Tried {
			got = append(got, a.Via+" "+a.Outcome)
		}
		if !slices.Equal(got, want) {
			p.t.Errorf("routes tried: %v, want %v", got, want)
		}
	}
}

func TestRoutesThatGiveNoAnswer(t *testing.T) {
	model, both := driver.Client{Sampling: true}, driver.Client{ElicitationForm: true, Sampling: true}
	auto := with(askStep, `"approval_mode":"auto"`)
	stopped := func(why string) string { return "the route sampling to its evidence gave no answer (" + why }
	shippedTree := string(decision.Default().YAML)
	within := func(want time.Duration) move {
		return func(p *play) {
			if got, _ := p.drivers.within.Load("sampling"); got != want {
				p.t.Errorf("the driver was called within %v, want %v", got, want)
			}
		}
	}
	passedOver := func(p *play) {
		if tried := p.state(runOf(p.shown)).Step.Tried; len(tried) != 1 || p.shown.Challenge.Type != "user_input" {
			p.t.Errorf("tried = %+v, challenge %+v, want the route passed over once and the agent asked for the approval", tried, p.shown.Challenge)
		}
	}
	unmeant := strings.Replace(approvedStep, `,"sampling":`, `,"unused":`, 1) // the client's review sees no evidence that the agent gives
	inVain := func(p *play) {                                                 // the late answer to the first question is not taken
		person := p.question
		p.question = &director.Ask{Run: person.Run, Seq: 1}
		answers(yes, "")(p)
		solved()(p)
		p.question = person
	}
	scenes(t, map[string]scene{
		"a route that failed is not tried twice in a call": {doc: auto, client: both, change: modelFirst, moves: []move{
			calls(toModel), breaksDown(toPerson), breaksDown("SAMPLING_FAILED", "sampling: error (out of order)", "elicitation: error (out of order)"),
			calls(toModel), // another call tries anew
		}},
		"a route's own reaction and timeout": {
			doc: sampledStep, client: model, world: treed(strings.Replace(shippedTree, "client.sampling', retries: 1}", "client.sampling', call_timeout: 40s, on: {error: stop}}", 1)),
			moves: []move{begun(toModel), breaksDown("DRIVER_UNAVAILABLE", stopped("error: out of order")), within(40 * time.Second), calls(toModel)},
		},
		"the reaction of its driver": {
			doc: sampledStep, client: model, world: treed(shippedTree + "\ndrivers: {sampling: {on: {error: stop}}}\n"),
			moves: []move{begun(toModel), breaksDown("DRIVER_UNAVAILABLE", stopped("error: out of order")), within(0), calls(toModel)},
		},
		"a stopped call is repeated as it was": {doc: sampledStep, client: model, world: reacting("{error: stop}"), moves: []move{
			begun(toModel), breaksDown("DRIVER_UNAVAILABLE", stopped("error: out of order")), counted(0), obeyed(false),
			breaksDown("DRIVER_UNAVAILABLE", stopped("error: out of order")), calls(toModel), answers(sampled, ""), solved(driver.ModelGenerated),
		}},
		"a stop at a driver that fails": {doc: sampledStep, client: model, world: reacting("{error: stop}"), knobs: []string{"sampling"}, moves: []move{
			begun("DRIVER_UNAVAILABLE", stopped("error: driver sampling is broken")), sets("sampling", false), calls(toModel),
		}},
		"a stop at a client without the method": {doc: sampledStep, client: model, world: reacting("{unavailable: stop}"), moves: []move{
			begun(toModel), func(p *play) {
				r, err := p.Continue(p.t.Context(), p.caller, director.Continuation{Run: p.question.Run, Seq: p.question.Seq, Error: &driver.ClientError{Code: -32601, Message: "no such method"}})
				if err != nil {
					p.t.Fatal(err)
				}
				p.took(r)
			}, begun("DRIVER_UNAVAILABLE", stopped("unavailable: no such method")), calls(toModel),
		}},
		"a stop at an answer that is none": {doc: sampledStep, client: model, world: reacting("{invalid: {retry: 0, then: stop}}"), moves: []move{
			begun(toModel), answers(`{}`, toModel), answers(`{}`, "DRIVER_UNAVAILABLE", stopped("invalid: no action")), calls(toModel), // the route has a retry of its own
		}},
		"a stop at no answer in time": {doc: sampledStep, client: model, world: reacting("{timeout: stop}"), moves: []move{
			begun(toModel), waiting, begun("DRIVER_UNAVAILABLE", stopped("timeout: no reply in time")), calls(toModel),
		}},
		"a stop at an approval lets nobody act": {doc: approvedStep, client: formClient, world: reacting("{error: stop}", trustsAgent), moves: []move{
			begun(toPerson), breaksDown("APPROVAL_UNAVAILABLE", "do not do the step's work"), calls(toPerson),
		}},
		// A route that the input is not meant for was not tried, so nothing stops there.
		"no stop where a route does not fit":         {doc: unmeant, client: model, world: reacting("{unavailable: stop}", trustsAgent), moves: []move{begun(""), passedOver}},
		"no stop after retries of what does not fit": {doc: unmeant, client: model, world: reacting("{unavailable: {retry: 10, then: stop}}", trustsAgent), moves: []move{begun(""), passedOver}},
		"a route is tried again as often as the tree says": {doc: sampledStep, client: model, world: reacting("{error: {retry: 2, then: stop}}"), moves: []move{
			begun(toModel), breaksDown(toModel), breaksDown(toModel), breaksDown("DRIVER_UNAVAILABLE"),
		}},
		"a question to a model without an answer gives way to the next route": {doc: auto, client: both, change: modelFirst, moves: []move{
			calls(toModel), func(p *play) {
				first := p.question
				givesUp(toModel)(p)
				if p.question.Seq != first.Seq || string(p.question.Params) != string(first.Params) {
					p.t.Errorf("asked again: %+v, want the same question as %+v", p.question, first)
				}
			}, givesUp(toPerson), tried("sampling abandoned"), inVain, answers(yes, ""), solved(driver.ClientAttested),
		}},
		// Neither an agent with an approval of its own nor a model answers for the person.
		"a person who does not answer is waited for": {doc: askStep, client: both, moves: []move{
			calls(toPerson), givesUp(toPerson), givesUp("WAITING_FOR_USER"), counted(0), obeyed(true), givesUp("WAITING_FOR_USER"), // from then on nothing changes
			tried(), calls(toPerson), givesUp(toPerson), givesUp("WAITING_FOR_USER"), answers(yes, ""), solved(driver.ClientAttested), // the placeholder asks them anew
		}},
		"a person who does not approve is waited for": {doc: gatedStep, client: both, moves: []move{
			calls(toPerson), givesUp(toPerson), givesUp("WAITING_FOR_USER"), counted(0), obeyed(true), tried(),
			calls(toPerson), givesUp(toPerson), givesUp("WAITING_FOR_USER"), answers(yes, "", "approved"),
		}},
	})
}

// sampledSteps is a protocol whose steps are all given to the client's model.
func sampledSteps(n int) string {
	var b strings.Builder
	b.WriteString("# Sampled\n")
	for i := range n {
		fmt.Fprintf(&b, "\n## Step %d\n\nbody\n\n```json\n{\"challenge\":{\"type\":\"mcp\",\"mcp\":{},\"sampling\":{\"max_tokens\":100}}}\n```\n", i+1)
	}
	return b.String()
}

func budgeted(b budget.Limits) func(*choices) {
	return func(c *choices) { c.Budgets = b }
}

func TestABudgetOfARunClosesTheRouteAndSaysSo(t *testing.T) {
	for name, b := range map[string]budget.Limits{
		"requests of the run":       {PerRun: budget.Limit{Requests: 2}},
		"tokens of the run":         {PerRun: budget.Limit{Tokens: 299}},
		"requests of the principal": {PerPrincipalHour: budget.Limit{Requests: 2}},
		"tokens of the principal":   {PerPrincipalHour: budget.Limit{Tokens: 299}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, budgeted(b))
			uris := w.mint(sampledSteps(3))
			w.caller.Client = driver.Client{Sampling: true}
			r := w.reply(w.answer(w.ask(w.beginRound(uris[0], ""), toModel), sampled))
			r = w.reply(w.answer(w.ask(w.nextRound(uris[1], placeholder(r)), toModel), sampled))
			w.at(r, uris[2])
			if r.ErrorCode != "" || r.NextCall == nil {
				t.Errorf("the step behind an accepted one = %q with next_call %v, want no error", r.ErrorCode, r.NextCall)
			}
			r = w.next(uris[2], placeholder(r))
			w.code(r, "SAMPLING_BUDGET_EXCEEDED")
			if contains(t, r.Message, "budget for language models"); !r.MustObey {
				t.Errorf("reply = %+v, want the agent to be told of the budget", r)
			}
			w.code(w.next(uris[2], solve(r, works)), "")
			if spent := w.state(runOf(r)).Spent; spent != (run.Spent{Requests: 2, Tokens: 200}) {
				t.Errorf("spent = %+v, want 2 requests of 100 tokens", spent)
			}
		})
	}
}

func TestWhatCountsAgainstABudget(t *testing.T) {
	model := driver.Client{Sampling: true}
	one := budgeted(budget.Limits{PerPrincipalHour: budget.Limit{Requests: 1}})
	spent := func(want run.Spent) move {
		return func(p *play) {
			if got := p.state(runOf(p.shown)).Spent; got != want {
				p.t.Errorf("spent = %+v, want %+v", got, want)
			}
		}
	}
	exhausted := func(p *play) {
		if !slices.ContainsFunc(p.timeline(p.shown).Moments, func(m archive.Moment) bool { return strings.HasPrefix(m.Verdict, string(decision.Exhausted)+": ") }) {
			p.t.Error("no moment tells of the budget")
		}
	}
	scenes(t, map[string]scene{
		"a request that was made in vain": {doc: sampledSteps(1), client: model, change: one, knobs: []string{"asked in vain"}, moves: []move{
			begun(""), spent(run.Spent{Requests: 1, Tokens: 100}), sets("asked in vain", false), calls("SAMPLING_BUDGET_EXCEEDED"),
		}},
		"no request that was not made": {doc: sampledSteps(1), client: model, change: one, knobs: []string{"not asked"}, moves: []move{
			begun(""), spent(run.Spent{}), sets("not asked", false), calls(toModel),
		}},
		"a repair": {doc: sampledStep, client: model, change: budgeted(budget.Limits{PerRun: budget.Limit{Requests: 1}}), moves: []move{
			begun(toModel), answers(`"prose"`, "SAMPLING_BUDGET_EXCEEDED"), exhausted,
		}},
		"a review, which then approves nothing": {
			doc: with(sampledStep, `"approval_mode":"user"`), client: model, change: budgeted(budget.Limits{PerRun: budget.Limit{Tokens: 1}}),
			moves: []move{begun("APPROVAL_UNAVAILABLE")},
		},
		// The reply that first shows the step says why the model did not answer, and a later one as long as the model is not asked again.
		"and the reply says why the model did not answer": {doc: sampledStep, client: model, knobs: []string{"asked in vain"}, moves: []move{
			begun("", "Tried before: sampling: unavailable (the endpoint is busy)"), sets("asked in vain", false),
			calls(toModel), answers(`"prose"`, toModel), answers(`"prose"`, "SAMPLING_FAILED"), calls("MISSING_FIELD", "Tried before: sampling: invalid (", "not: busy"),
		}},
	})
}

func TestAnHourLaterThePrincipalMayAskAgain(t *testing.T) {
	w := newWorld(t, budgeted(budget.Limits{PerPrincipalHour: budget.Limit{Requests: 1}}))
	uri := w.mint(sampledStep)[0]
	w.caller.Client = driver.Client{Sampling: true}
	w.ask(w.beginRound(uri, ""), toModel)
	r := w.begin(uri) // another run of the same principal
	contains(t, r.Message, "in an hour")
	w.caller.Principal = "somebody else"
	w.ask(w.beginRound(uri, ""), toModel)
	w.caller.Principal = "me"
	w.machine.Pass(59 * time.Minute)
	w.code(w.next(uri, placeholder(r)), "SAMPLING_BUDGET_EXCEEDED")
	w.machine.Pass(2 * time.Minute)
	w.ask(w.nextRound(uri, placeholder(r)), toModel)
}

// audience keeps the routes that ended.
type audience struct {
	library.Silence
	mu     sync.Mutex // guards routes
	routes []observe.Route
}

func (a *audience) Routed(r observe.Route) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.routes = append(a.routes, r)
}

func (*audience) Begun(string)              {}
func (*audience) Attested(observe.Attested) {}

func TestAnObserverHearsWhyARouteGaveNoAnswer(t *testing.T) {
	for outcome, moves := range map[observe.Outcome][]move{
		"invalid": {answers(`{}`, toModel), answers(`{}`, "SAMPLING_FAILED")},
		"error":   {breaksDown("SAMPLING_FAILED")},
		"timeout": {waiting},
	} {
		t.Run(string(outcome), func(t *testing.T) {
			heard := &audience{}
			scene{doc: sampledStep, client: driver.Client{Sampling: true}, change: func(c *choices) { c.Observer = heard }, moves: append([]move{begun(toModel)}, moves...)}.play(t)
			heard.mu.Lock()
			defer heard.mu.Unlock()
			if len(heard.routes) == 0 {
				t.Fatal("nothing was heard of a route")
			}
			if r := heard.routes[0]; r.Outcome != outcome || r.ErrorCode != "SAMPLING_FAILED" || r.Via != "sampling" {
				t.Errorf("heard of %+v, want %s with SAMPLING_FAILED", r, outcome)
			}
		})
	}
}

const confirmCapability = "/experimental/acme~1confirm"

// acmeDescriptors are of two drivers of a third party: release judges steps that need an
// input of a kind of its own, and acme_confirm obtains it with a method of its own.
var acmeDescriptors = []driver.Descriptor{
	{Name: "release", Version: "1.0.0", Role: driver.RoleChallenge, Handles: []string{"release"}, Effect: driver.EffectPure},
	{
		Name: "acme_confirm", Version: "1.0.0", Role: driver.RoleCapability, Handles: []string{"acme.confirmation"}, Effect: driver.EffectPure,
		Features: []string{driver.FeatureHuman}, Needs: []string{confirmCapability},
		Sends: []driver.ClientMethod{{Method: "acme/confirm", Needs: []string{confirmCapability, "/experimental/acme~1voice"}}},
	},
}

type release struct{}

func (release) Validate(context.Context, driver.ValidateRequest) (driver.ValidateResult, error) {
	return driver.ValidateResult{}, nil
}

func (release) Advance(_ context.Context, req driver.AdvanceRequest) (driver.AdvanceResult, error) {
	a, ok := req.Answer("confirmation")
	if !ok {
		return driver.Need(driver.Input{ID: "confirmation", Kind: "acme.confirmation", Type: "release", Description: "Ship it?", Schema: json.RawMessage(`{"type":"object"}`)}), nil
	}
	return driver.Accept(json.RawMessage(`{}`), a.Value), nil
}

func TestAMethodOfAThirdParty(t *testing.T) {
	const both = `{"elicitation":{"form":{}},"experimental":{"acme/confirm":{},"acme/voice":{}}}`
	acme := func(sent, declared string, moves ...move) scene {
		return scene{
			doc:    "# Ship\n\n## Release\n\nx\n\n```json\n{\"challenge\":{\"type\":\"release\",\"release\":{}}}\n```\n",
			client: driver.Client{ElicitationForm: true, Capabilities: json.RawMessage(declared)},
			world: func(t *testing.T) *world {
				w := newWorld(t, nil)
				c := w.describes(acmeDescriptors...)
				c.challenges["release"] = release{}
				c.capabilities["acme_confirm"] = asking{name: "acme_confirm", method: sent, provenance: driver.ClientAttested, fail: w.drivers.fail}
				w.setups.replace(w.under(strings.Replace(string(decision.Default().YAML), "inputs:\n", "inputs:\n  acme.confirmation: [{via: acme_confirm}]\n", 1)))
				return w
			},
			moves: moves,
		}
	}
	all := map[string]scene{
		"obtains an input": acme("acme/confirm", both, submits(nothing, "acme/confirm"), func(p *play) {
			if want := []string{confirmCapability, "/experimental/acme~1voice"}; !slices.Equal(p.question.Needs, want) || !p.question.Human {
				p.t.Errorf("Ask = %+v, want that it needs %v and that a person answers", p.question, want)
			}
		}, answers(`{"action":"accept","content":{"by":"alice"}}`, ""), solved(driver.ClientAttested)),
		"fails in the client":  acme("acme/confirm", both, submits(nothing, "acme/confirm"), breaksDown("DRIVER_UNAVAILABLE", "acme_confirm: error")),
		"is answered nonsense": acme("acme/confirm", both, submits(nothing, "acme/confirm"), answers(`[1]`, "acme/confirm"), answers(`[1]`, "DRIVER_UNAVAILABLE"), solved()),
	}
	for name, tc := range map[string]struct{ sent, declared, want string }{
		"the driver lists another method":         {"acme/erase", both, `does not declare that it sends "acme/erase"`},
		"a method of MCP that is not listed":      {toPerson, both, `does not declare that it sends "elicitation/create"`},
		"a call of the client's own tools":        {"tools/call", both, `does not declare that it sends "tools/call"`},
		"the client lacks what the method needs":  {"acme/confirm", `{"experimental":{"acme/confirm":{}}}`, "the client did not declare /experimental/acme~1voice"},
		"the client lacks what the driver needs":  {"acme/confirm", `{"experimental":{"acme/voice":{}}}`, "no route is left"},
		"the client declares it in another place": {"acme/confirm", `{"extensions":{"acme/confirm":{},"acme/voice":{}}}`, "no route is left"},
		"the client declares nothing":             {"acme/confirm", ``, "no route is left"},
	} {
		all["is not sent: "+name] = acme(tc.sent, tc.declared, submits(nothing, "DRIVER_UNAVAILABLE", tc.want))
	}
	scenes(t, all)
}
