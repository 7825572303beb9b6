package director_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/acceptances"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/archive"
	"github.com/kairos-mcp/kairos/core/director"
	"github.com/kairos-mcp/kairos/core/director/approval"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/offers"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// doer is a capability driver that acts on what a protocol says: it writes down
// each plan that it carried out.
type doer struct {
	effect  driver.Effect
	asks    bool   // for a proposal
	states  bool   // that a proposal is the arguments of its action
	plans   string // what it states of its action, if that is not asked for
	world   string // what it would act on; a plan for another world is refused
	did     []string
	refuses string                // why Preview is unavailable
	only    int                   // the step that Preview refuses; 0: every step
	slow    bool                  // it takes time, and can be asked how far it is, and cancelled
	ended   []driver.RenderResult // what a slow one says when it is asked again; the last stays
	asked   []driver.RenderRequest
	shown   []string             // what it was asked to preview
	useless *driver.RenderResult // what it returns after it acted, instead of an answer
	faults  bool                 // Preview refuses a proposal that nobody made
	fails   int                  // how often what it observes is a failure
}

var doerDescriptor = driver.Descriptor{
	Name: "doer", Version: "1.0.0", Role: driver.RoleCapability, Handles: []string{driver.KindEvidence}, Effect: driver.EffectChanges,
	Features: []string{driver.FeaturePreview, driver.FeaturePartial},
}

func (d *doer) Preview(_ context.Context, req driver.PreviewRequest) (driver.PreviewResult, error) {
	d.shown = append(d.shown, string(req.Input.Display))
	switch {
	case d.refuses != "" && (d.only == 0 || d.only == req.Step.Index):
		return driver.CannotPreview(d.refuses), nil
	case d.faults:
		return driver.ProposalInvalid(driver.Problem("/to", "is missing")), nil
	case d.asks && len(req.Proposal) == 0:
		return driver.ProposalNeeded(json.RawMessage(`{"type":"object","properties":{"to":{"type":"string"}},"required":["to"]}`), "Say to whom."), nil
	case d.asks && !strings.Contains(string(req.Proposal), `"to"`):
		return driver.ProposalInvalid(driver.Problem("/to", "is missing")), nil
	}
	data, err := json.Marshal(map[string]string{"world": d.world, "proposal": string(req.Proposal)})
	plan := driver.Plan{Text: "act on " + d.world + string(req.Proposal), Data: data, Effect: d.effect}
	if d.states && d.asks {
		plan.Action = json.RawMessage(`{"arguments":` + string(req.Proposal) + `}`)
	}
	if d.plans != "" {
		plan.Action = json.RawMessage(d.plans)
	}
	return driver.Planned(plan), err
}

func (d *doer) Render(_ context.Context, req driver.RenderRequest) (driver.RenderResult, error) {
	var plan struct {
		World string `json:"world"`
	}
	if err := json.Unmarshal(req.Plan, &plan); err != nil {
		return driver.RenderResult{}, fmt.Errorf("called without a plan: %w", err)
	}
	if plan.World != d.world {
		return driver.CannotRender("the world is another one"), nil
	}
	if d.slow {
		d.asked = append(d.asked, req)
		if !req.Recover {
			return driver.RenderLater("it takes time", time.Minute), nil
		}
		res := d.ended[0]
		d.ended = d.ended[min(1, len(d.ended)-1):]
		return res, nil
	}
	d.did = append(d.did, string(req.Plan))
	if d.useless != nil {
		return *d.useless, nil
	}
	if d.fails > 0 {
		d.fails--
		return driver.RenderResult{Answer: &driver.Answer{Value: json.RawMessage(`{"ok":false}`), Provenance: driver.ServerObserved}}, nil
	}
	return driver.RenderResult{Answer: &driver.Answer{Value: json.RawMessage(`{"ok":true,"did":true}`), Provenance: driver.ServerObserved}}, nil
}

func (d *doer) Interpret(context.Context, driver.InterpretRequest) (driver.InterpretResult, error) {
	return driver.CannotInterpret("it asks nobody"), nil
}

// withDoer is a world whose tree lets the doer act where somebody allowed it. Nobody
// is asked for that.
func withDoer(t *testing.T, effect driver.Effect, change ...func(*choices)) (*world, *doer) {
	t.Helper()
	return offeringDoer(t, effect, "", change...)
}

// offeringDoer is withDoer with the tree's routes to a person who allows it.
func offeringDoer(t *testing.T, effect driver.Effect, routes string, change ...func(*choices)) (*world, *doer) {
	t.Helper()
	w := newWorld(t, append(change, nil)[0])
	w.doer = &doer{effect: effect, world: "earth"}
	w.describes(doerDescriptor).capabilities["doer"] = w.doer
	w.setups.replace(w.under(doerTree(routes)))
	w.caller.Client = formClient
	return w, w.doer
}

// doerTree lets the doer act where that was accepted, and has these routes to who accepts it.
func doerTree(routes string) string {
	return strings.ReplaceAll(shipped("{via: doer, when: step.accepted}"), "  acceptance:\n    - {via: elicitation, optional: true}\n", routes)
}

// slow makes the doer take time: it can be asked how far it is, and cancelled.
func (w *world) slow(ended ...driver.RenderResult) {
	w.doer.slow, w.doer.ended = true, ended
	desc := w.catalog.descriptors["doer"]
	desc.Features = append(slices.Clone(desc.Features), driver.FeatureRecover, driver.FeatureCancel)
	w.catalog.descriptors["doer"] = desc
}

// doing is a world for scenes in which somebody has allowed the doer to act.
func doing(effect driver.Effect, change ...func(*doer)) func(*testing.T) *world {
	return func(t *testing.T) *world {
		t.Helper()
		w, d := withDoer(t, effect)
		for _, c := range change {
			c(d)
		}
		return w
	}
}

// allowed: somebody allows the doer to act for the step.
func allowed(p *play) { p.t.Helper(); p.allow(runOf(p.shown), nil) }

// did checks how often the doer has acted, and the last plan.
func did(n int, parts ...string) move {
	return func(p *play) {
		p.t.Helper()
		if len(p.doer.did) != n {
			p.t.Fatalf("it did %q, want %d plans", p.doer.did, n)
		}
		if n > 0 {
			contains(p.t, p.doer.did[n-1], parts...)
		}
	}
}

// accept accepts all that drivers could do.
func (w *world) accept(on offers.On) []acceptances.Acceptance {
	w.t.Helper()
	offer, err := w.Actable(w.t.Context(), w.caller, on)
	if err != nil {
		w.t.Fatal(err)
	}
	all, err := w.Accept(w.t.Context(), w.caller, offers.AcceptInput{Offer: offer, By: "me"})
	if err != nil {
		w.t.Fatal(err)
	}
	return all
}

// allow lets the doer act for the first step of the run's protocol.
func (w *world) allow(id run.ID, change func(*acceptances.Acceptance)) acceptances.Acceptance {
	w.t.Helper()
	chain, err := w.store.Pinned(w.t.Context(), w.state(id).Pin)
	if err != nil {
		w.t.Fatal(err)
	}
	digest, err := chain.ContentDigest()
	if err != nil {
		w.t.Fatal(err)
	}
	g := acceptances.Acceptance{Space: chain.Space, Protocol: digest, Title: chain.Title, Step: 1, Label: "Act", Driver: "doer", Effect: driver.EffectChanges, By: "me"}
	if change != nil {
		change(&g)
	}
	all, err := w.Record(w.t.Context(), w.caller, []acceptances.Acceptance{g})
	if err != nil {
		w.t.Fatal(err)
	}
	return all[0]
}

const plainStep = "# Act\n\n## Act\n\nact\n\n```json\n{\"challenge\":{\"type\":\"mcp\",\"mcp\":{\"tool_name\":\"go\"}}}\n```\n"

func TestNothingIsDoneThatNobodyAccepted(t *testing.T) {
	w, d := withDoer(t, driver.EffectReads)
	uri := w.mint(strings.Replace(plainStep, `"type":`, `"evidence":"server","type":`, 1))[0]
	open := w.begin(uri)
	r := w.next(uri, placeholder(open))
	w.code(r, "OBSERVATION_UNAVAILABLE")
	for name, other := range map[string]func(*acceptances.Acceptance){
		"another step":      func(g *acceptances.Acceptance) { g.Step = 2 },
		"another driver":    func(g *acceptances.Acceptance) { g.Driver = "agent" },
		"another version":   func(g *acceptances.Acceptance) { g.Protocol = "00" },
		"another run":       func(g *acceptances.Acceptance) { g.Run = "01890000-0000-7000-8000-000000000000" },
		"a different space": nil,
	} {
		if other != nil {
			w.allow(runOf(open), other)
		}
		if w.code(w.next(uri, placeholder(open)), "OBSERVATION_UNAVAILABLE"); len(d.did) > 0 {
			t.Errorf("an acceptance for %s made it act", name)
		}
	}
	g := w.allow(runOf(open), nil)
	done := w.next(uri, placeholder(open))
	w.code(done, "")
	if len(d.did) != 1 || done.Solved[0].Provenance != driver.ServerObserved || done.Solved[0].Via != "doer" {
		t.Errorf("did %q, solved %+v, want that it acted once", d.did, done.Solved)
	}
	if told := w.told(runOf(open)); !strings.Contains(told, "act on earth") || !strings.Contains(told, g.ID) {
		t.Errorf("the timeline says nothing of the plan or its acceptance: %s", told)
	}
}

// The run keeps the name of the person who accepted it, whatever becomes of the acceptance and of the values.
func TestTheRunSaysWhoAcceptedWhatItsDriverDid(t *testing.T) {
	w, _ := withDoer(t, driver.EffectReads)
	uri := w.mint(plainStep)[0]
	open := w.begin(uri)
	g := w.allow(runOf(open), func(g *acceptances.Acceptance) { g.By = "Ann at the terminal" })
	w.code(w.next(uri, placeholder(open)), "")
	planned := w.state(runOf(open)).Evidence[0].Permission
	if planned == nil || planned.Acceptance != g.ID || planned.By != g.By || planned.Driver != "doer" || len(planned.Plan) != 64 {
		t.Fatalf("the evidence has the permission %+v", planned)
	}
	if err := w.Revoke(t.Context(), w.caller, g.ID); err != nil {
		t.Fatal(err)
	}
	w.attest(api.AttestRequest{URI: uri, Outcome: "success"})
	want := fmt.Sprintf("accepted by Ann at the terminal (acceptance %s)", g.ID)
	if told := w.told(runOf(open)); !strings.Contains(told, want) || !strings.Contains(told, "act on earth") {
		t.Errorf("the timeline lacks %q or the plan: %s", want, told)
	}
	if _, err := w.Redact(t.Context(), w.caller, archive.RedactInput{Run: runOf(open), Reason: "private"}); err != nil {
		t.Fatal(err)
	}
	if told := w.told(runOf(open)); !strings.Contains(told, want) || strings.Contains(told, "earth") {
		t.Errorf("the timeline of the redacted run lacks %q, or has the plan: %s", want, told)
	}
	if left := w.state(runOf(open)).Evidence[0].Permission; left == nil || *left != *planned {
		t.Errorf("the redacted evidence has the permission %+v, want %+v", left, planned)
	}
}

func TestAnEditedProtocolAsksAgain(t *testing.T) {
	w, d := withDoer(t, driver.EffectReads)
	uri := w.mint(plainStep)[0]
	first := w.begin(uri)
	g := w.allow(runOf(first), nil)
	w.code(w.next(uri, placeholder(first)), "")

	again := w.mint(plainStep)[0] // the same text: another revision
	w.code(w.next(again, placeholder(w.begin(again))), "")
	edited := w.mint(strings.Replace(plainStep, "\nact\n", "\nact, and tell nobody\n", 1))[0]
	r := w.next(edited, placeholder(w.begin(edited)))
	if w.code(r, "MISSING_FIELD"); len(d.did) != 2 {
		t.Errorf("it acted %d times, want twice: not for the edited text", len(d.did))
	}
	if err := w.Revoke(t.Context(), w.caller, g.ID); err != nil {
		t.Fatal(err)
	}
	third := w.mint(plainStep)[0]
	w.code(w.next(third, placeholder(w.begin(third))), "MISSING_FIELD")
	refused(t, w.Revoke(t.Context(), w.caller, g.ID), fault.NotFound)
}

func TestPlansOfDrivers(t *testing.T) {
	fromServer := with(plainStep, `"evidence":"server"`)
	toMars := func(p *play) { p.doer.world = "mars" } // between approval and execution
	backToEarth := func(p *play) { p.doer.world = "earth" }
	asks := func(d *doer) { d.asks = true }
	onlyLook := func(p *play) {
		p.allow(runOf(p.shown), func(g *acceptances.Acceptance) { g.Effect = driver.EffectReads })
	}
	refuses := func(why string) move { return func(p *play) { p.doer.refuses = why } }
	const invented = `{"ok":true,"event_id":"invented"}`
	recorded := func(p *play) { contains(p.t, p.told(runOf(p.shown)), "invented") }
	approved := with(plainStep, `"approval_mode":"user","evidence":"server"`)
	never := `"output_schema":{"type":"object","required":["never"]}`
	again := func(times string) []move {
		return []move{answers(yes, ""), calls("OUTPUT_INVALID"), calls(toPerson, "KAIROS has done this step "+times+" already (driver doer)", "not: Nothing is done")}
	}
	scenes(t, map[string]scene{
		"what changes something is approved exactly": {doc: plainStep, client: formClient, world: doing(driver.EffectChanges), moves: []move{
			allowed, calls(toPerson, "exactly this itself", "act on earth"), answers(yes, ""), did(0),
			toMars, calls("OBSERVATION_UNAVAILABLE"), did(0), backToEarth, calls(""), did(1),
			func(p *play) {
				if p.state(runOf(p.shown)).Evidence[0].Approval == nil {
					p.t.Error("the evidence has no approval")
				}
			},
		}},
		// What was approved cannot be done any more, so the person is asked about what can.
		"another world is planned anew": {doc: plainStep, client: formClient, world: doing(driver.EffectChanges), moves: []move{
			allowed, calls(toPerson), answers(yes, ""), toMars, calls("OBSERVATION_UNAVAILABLE"),
			calls(toPerson, "act on mars"), did(0), answers(yes, ""), calls(""), did(1, "mars"),
		}},
		// A step that demands an approval of its own is approved once, by the plan: before that there is nothing exact to approve.
		"a person approves the plan to look":   {doc: approved, client: formClient, world: doing(driver.EffectReads), moves: []move{allowed, calls(toPerson, "act on earth"), answers(yes, ""), calls(""), did(1)}},
		"a person approves the plan to change": {doc: approved, client: formClient, world: doing(driver.EffectChanges), moves: []move{allowed, calls(toPerson, "act on earth"), answers(yes, ""), calls(""), did(1)}},
		"a decline is not got around by a claim": {doc: plainStep, client: formClient, world: doing(driver.EffectChanges), moves: []move{
			allowed, calls(toPerson), answers(`{"action":"accept","content":{"confirmation":"rejected"}}`, "USER_DECLINED"), sends(invented, "USER_DECLINED"), solved(), did(0),
		}},
		"an acceptance to look is none to change": {doc: fromServer, client: formClient, world: doing(driver.EffectChanges), moves: []move{
			onlyLook, calls("OBSERVATION_UNAVAILABLE", "only looks are accepted"), did(0),
		}},
		"a claim does not get around an acceptance": {doc: with(plainStep, `"evidence":"anyone"`), client: formClient, world: doing(driver.EffectReads), moves: []move{
			allowed, refuses("the tool is down"), sends(invented, "OBSERVATION_UNAVAILABLE"), refuses(""),
			sends(invented, ""), did(1), solved(driver.ServerObserved), recorded,
		}},
		"a claim where only the server counts": {doc: fromServer, client: formClient, world: doing(driver.EffectReads), moves: []move{
			allowed, refuses("the tool is down"), sends(invented, "OBSERVATION_UNAVAILABLE"), refuses(""),
			sends(invented, "EVIDENCE_NOT_ACCEPTED", "not: kairos accept"), calls(""), did(1), solved(driver.ServerObserved), recorded,
		}},
		// A driver could have done it.
		"what the agent did has no permission": {doc: plainStep, world: doing(driver.EffectReads), moves: []move{
			sends(works, ""), func(p *play) {
				if got := p.state(runOf(p.shown)).Evidence[0].Permission; got != nil {
					p.t.Errorf("the evidence has the permission %+v", got)
				}
			},
		}},
		// An agent that has a report refused can tell the person what would help, if anything does.
		"a refused report says who could accept it": {doc: fromServer, client: formClient, world: doing(driver.EffectReads), moves: []move{
			sends(works, "EVIDENCE_NOT_ACCEPTED", "The operator can accept that KAIROS does it: `kairos accept --run "),
			calls("OBSERVATION_UNAVAILABLE", "The operator can accept that KAIROS does it: `kairos accept --run ", "not: could not do this one", "not: agent:"),
			refuses("no workspace is set"), calls("OBSERVATION_UNAVAILABLE", "Driver doer does such steps, and could not do this one now: no workspace is set.", "not: kairos accept"),
		}},
		"the agent proposes what a step leaves open": {doc: fromServer, client: formClient, world: doing(driver.EffectChanges, asks), moves: []move{
			allowed, calls("MISSING_FIELD", "Say to whom. Propose only"), sends(`{"whom":"betty"}`, "MISSING_FIELD", "/to"), counted(0),
			sends(`{"to":"betty"}`, toPerson, "betty"), answers(yes, ""), calls(""), did(1, "betty"),
		}},
		// A person who is asked about the same again is told that it was done already.
		"what was done is said before it is done again": {doc: with(plainStep, never), client: formClient, world: doing(driver.EffectChanges), moves: slices.Concat(
			[]move{allowed, calls(toPerson)}, again("once"), again("2 times"), []move{did(2)})},
		// A look that is repeated repeats nothing that matters.
		"another look is not announced": {doc: with(plainStep, `"approval_mode":"user",`+never), client: formClient, world: doing(driver.EffectReads), moves: []move{
			allowed, calls(toPerson), answers(yes, ""), calls("OUTPUT_INVALID"), calls(toPerson, "Nothing is done before"),
		}},
	})
}

// The page shows what the form shows: what KAIROS will do itself, whole.
func TestThePageShowsThePlan(t *testing.T) {
	for name, world := range map[string]string{"short": "earth", "longer than a form": strings.Repeat("very ", 10_000) + "far"} {
		t.Run(name, func(t *testing.T) {
			w, d := withDoer(t, driver.EffectChanges, hasPage)
			d.world, w.caller.Client = world, driver.Client{}
			uri := w.mint(plainStep)[0]
			open := w.begin(uri)
			w.allow(runOf(open), nil)
			waits := w.next(uri, placeholder(open))
			w.code(waits, "WAITING_FOR_USER")
			v := w.view(waits)
			if v.Plan == nil || v.Plan.Driver != "doer" || v.Plan.Text != "act on "+world || v.Display != nil {
				t.Fatalf("the page shows %.200v, want the plan and nothing else", v)
			}
			w.decide(waits, "approved", "")
			approved := w.next(uri, placeholder(waits))
			if w.code(w.next(uri, placeholder(approved)), ""); len(d.did) != 1 {
				t.Errorf("it did %d things, want what was approved", len(d.did))
			}
		})
	}
}

// A person approved the call whose outcome nobody knew. Another one they approve anew.
func TestACallThatDidNotHappenIsApprovedAnew(t *testing.T) {
	w, d, uri, r := slowly(t, driver.RenderUnknown("the line was cut"))
	w.code(w.cancels(uri, r), "OUTCOME_UNKNOWN")
	if _, err := w.Decide(t.Context(), w.caller, director.DecideInput{Run: runOf(r), By: "somebody", Reason: "nothing is there"}); err != nil {
		t.Fatal(err)
	}
	asked := len(d.asked)
	a := w.ask(w.nextRound(uri, placeholder(r)), toPerson)
	if contains(t, string(a.Params), "exactly this itself"); len(d.asked) != asked {
		t.Errorf("%d more calls, want the plan again and no call", len(d.asked)-asked)
	}
}

// What has acted is not called again under the same approval, whatever it returned.
func TestADriverThatActedIsNotCalledAgainForItsAnswer(t *testing.T) {
	for name, res := range map[string]driver.RenderResult{
		"an answer that is not JSON": {Answer: &driver.Answer{Value: json.RawMessage(`{`), Provenance: driver.ServerObserved}},
		"more than it may claim":     {Answer: &driver.Answer{Value: json.RawMessage(works), Provenance: driver.ClientAttested}},
		"not an answer":              driver.RenderedInvalid(driver.Problem("/ok", "is missing")),
	} {
		t.Run(name, func(t *testing.T) {
			w, d := withDoer(t, driver.EffectChanges, hasPage)
			w.caller.Client = driver.Client{}
			d.useless = &res
			uri := w.mint(plainStep)[0]
			open := w.begin(uri)
			w.allow(runOf(open), nil)
			waits := w.next(uri, placeholder(open))
			w.decide(waits, "approved", "")
			r := w.next(uri, placeholder(waits))
			for range 3 {
				r = w.next(uri, placeholder(r))
				w.code(r, "OUTCOME_UNKNOWN")
			}
			if len(d.did) != 1 {
				t.Errorf("it acted %d times under one approval", len(d.did))
			}
		})
	}
}

func TestAPreviewThatRefusesNoProposalIsAskedOnce(t *testing.T) {
	w, d := withDoer(t, driver.EffectReads)
	d.faults = true
	uri := w.mint(plainStep)[0]
	open := w.begin(uri)
	w.allow(runOf(open), nil)
	w.code(w.next(uri, placeholder(open)), "OBSERVATION_UNAVAILABLE")
	if len(d.shown) > 3 {
		t.Errorf("it was asked %d times", len(d.shown))
	}
}

// The page that took the approval also ends what runs since then.
func TestThePageCancelsWhatRunsSinceItsApproval(t *testing.T) {
	w, d := withDoer(t, driver.EffectChanges, hasPage)
	w.caller.Client = driver.Client{}
	w.slow(notDone)
	uri := w.mint(plainStep)[0]
	open := w.begin(uri)
	w.allow(runOf(open), nil)
	waits := w.next(uri, placeholder(open))
	if v := w.view(waits); v.Running != "" {
		t.Errorf("before the approval %q runs", v.Running)
	}
	if v := w.decide(waits, "approved", ""); v.Running != "" {
		t.Errorf("before anybody called for it %q runs", v.Running)
	}
	w.code(w.next(uri, placeholder(w.next(uri, placeholder(waits)))), "WAITING_FOR_DRIVER")
	if v := w.view(waits); v.State != approval.Approved || v.Running != "doer" || v.Ending {
		t.Fatalf("the page shows %+v, want that the driver is at work", v)
	}
	v := w.decide(waits, approval.Cancel, "")
	if last := d.asked[len(d.asked)-1]; !last.Cancel || v.Running != "" {
		t.Errorf("the driver was asked %+v and the page shows %+v, want that it ended", last, v)
	}
	for when, v := range map[string]approval.View{"at once": v, "loaded again": w.view(waits)} {
		if v.EndedAt.IsZero() {
			t.Errorf("%s the page shows %+v, which does not say that it was ended", when, v)
		}
	}
	if v := w.decide(waits, approval.Cancel, ""); !v.Late || v.EndedAt.IsZero() {
		t.Errorf("a second cancel = %+v, want that it was too late", v)
	}
	calls := len(d.asked)
	if r := w.next(uri, placeholder(waits)); !strings.Contains(r.Challenge.Description, "must approve") || len(d.asked) != calls {
		t.Errorf("then: %+v, want that it is approved anew", r)
	}
}

const offered = "  acceptance:\n    - {via: elicitation}\n"

func allows(word string) string { return `{"action":"accept","content":{"accept":"` + word + `"}}` }

func TestAFormAcceptsWhatDriversDoInItsRun(t *testing.T) {
	w, d := offeringDoer(t, driver.EffectReads, offered)
	w.caller.Client.Name = "editor\u202e"
	uri := w.mint(plainStep)[0]
	a := w.ask(w.beginRound(uri, ""), "elicitation/create")
	contains(t, string(a.Params), "KAIROS can do these steps of the protocol", "1. Act (driver doer, only looks)", "act on earth", "ask you each time", "`kairos accept`")
	open := w.reply(w.answer(a, allows("once")))
	w.code(open, "")
	if len(d.did) > 0 {
		t.Errorf("it did %q when it was merely allowed", d.did)
	}
	done := w.next(uri, placeholder(open))
	if w.code(done, ""); len(d.did) != 1 || done.Solved[0].Provenance != driver.ServerObserved {
		t.Fatalf("did %q, solved %+v", d.did, done.Solved)
	}
	all, err := w.Accepted(t.Context(), w.caller)
	if err != nil || len(all) != 1 || all[0].Effect != driver.EffectReads || all[0].Run != runOf(open) || all[0].By != `a form in editor⟨U+202E⟩, through elicitation` {
		t.Errorf("acceptances = %+v, %v, want one for this run that does not say that a person gave it", all, err)
	}
	if again := w.beginRound(uri, ""); again.Ask == nil {
		t.Error("the next run does not ask: the form allowed more than its run")
	}
}

// TestAnEditedProtocolShowsWhatChanged: who is asked again sees what changed since
// it was accepted, in the form and at the terminal.
func TestAnEditedProtocolShowsWhatChanged(t *testing.T) {
	w, _ := offeringDoer(t, driver.EffectReads, offered)
	uri := w.mint(plainStep)[0]
	a := w.ask(w.beginRound(uri, ""), "elicitation/create")
	contains(t, string(a.Params), "not: earlier version")
	w.reply(w.answer(a, allows("once")))
	w.accept(offers.On{URI: uri})
	edited := w.mint(strings.Replace(plainStep, "\nact\n", "\nact, and tell\u202enobody\n", 1))[0]
	a = w.ask(w.beginRound(edited, ""), "elicitation/create")
	contains(t, string(a.Params), "An earlier version was accepted on 2026-", "This changed since", `\u003e -act\n`, `\u003e +act, and tell`, "not: \u202e")
	acts, err := w.Actable(t.Context(), w.caller, offers.On{URI: edited})
	if err != nil || acts.Earlier == nil || !strings.Contains(acts.Earlier.Diff, "+act, and tell") {
		t.Errorf("Actable = %+v, %v, want what changed", acts.Earlier, err)
	}
	w.code(w.reply(w.answer(a, allows("once"))), "")
	w.accept(offers.On{URI: edited})
	if acts, err = w.Actable(t.Context(), w.caller, offers.On{URI: edited}); err != nil || acts.Earlier != nil {
		t.Errorf("Actable after it was accepted = %+v, %v, want no earlier version", acts.Earlier, err)
	}
}

// TestAGreaterEffectIsOfferedAnew: what was accepted for a look does not cover a driver that
// would now change something.
func TestAGreaterEffectIsOfferedAnew(t *testing.T) {
	w, d := offeringDoer(t, driver.EffectReads, offered)
	uri := w.mint(plainStep)[0]
	w.accept(offers.On{URI: uri})
	d.effect = driver.EffectChanges
	if offer, err := w.Actable(t.Context(), w.caller, offers.On{URI: uri}); err != nil || offer.Steps[0].Acceptance != "" {
		t.Errorf("Actable = %+v, %v, want a step that nobody accepted", offer.Steps, err)
	}
	contains(t, string(w.ask(w.beginRound(uri, ""), "elicitation/create").Params), "act on earth")
}

// TestAFormNamesWhatDriversCannotDo: a step that no driver can do now is not
// offered, and the form says why.
func TestAFormNamesWhatDriversCannotDo(t *testing.T) {
	w, d := offeringDoer(t, driver.EffectReads, offered)
	d.refuses, d.only = "no server\nhas the tool", 2
	uri := w.mint(plainStep + strings.SplitN(plainStep, "\n", 2)[1])[0]
	a := w.ask(w.beginRound(uri, ""), "elicitation/create")
	contains(t, string(a.Params), "(1 of 2)", `It cannot do step 2 (Act) now: driver doer says \"no server\\nhas the tool\"`)
	w.code(w.reply(w.answer(a, allows("once"))), "")
	if all, err := w.Accepted(t.Context(), w.caller); err != nil || len(all) != 1 || all[0].Step != 1 {
		t.Errorf("acceptances = %+v, %v, want step 1 alone", all, err)
	}
}

// offering is a world for scenes in which a person is asked what drivers may do.
func offering(t *testing.T) *world {
	t.Helper()
	w, _ := offeringDoer(t, driver.EffectReads, offered)
	return w
}

// accepted checks how many acceptances there are.
func accepted(n int) move {
	return func(p *play) {
		p.t.Helper()
		if all, err := p.Accepted(p.t.Context(), p.caller); err != nil || len(all) != n {
			p.t.Errorf("acceptances = %+v, %v, want %d", all, err, n)
		}
	}
}

func TestWhatAPersonAnswersToTheOffer(t *testing.T) {
	all := map[string]scene{
		// The step that is shown next is the driver's, in the same call.
		"once": {doc: plainStep, client: formClient, world: offering, moves: []move{
			begun(toPerson), answers(allows("once"), "", "The server obtains this itself"), accepted(1),
		}},
		// The agent that works meanwhile is not held up, and the answer comes too late.
		"nothing, and the agent does the step": {doc: plainStep, client: formClient, world: offering, moves: []move{
			begun(toPerson), waiting, sends(works, ""), did(0), solved(driver.AgentReported), answers(allows("once"), ""), accepted(0),
		}},
		"nothing, and it is put again": {doc: plainStep, client: formClient, world: offering, moves: []move{
			begun(toPerson), waiting, calls(toPerson), answers(allows("once"), ""), calls(""), did(1),
		}},
		"nothing: there is no form": {doc: plainStep, world: offering, moves: []move{begun("")}},
		"nothing: the driver could not": {doc: plainStep, client: formClient, moves: []move{begun("")}, world: func(t *testing.T) *world {
			w := offering(t)
			w.doer.refuses = "no server has the tool"
			return w
		}},
	}
	for name, result := range map[string]string{
		"no":         allows("no"),
		"a decline":  no,
		"dismissed":  closed,
		"other word": allows("perhaps"),
		"for ever":   allows("always"), // whoever fills forms by themselves
		"unreadable": `{"action":"accept","content":17}`,
	} {
		all[name] = scene{doc: plainStep, client: formClient, world: offering, moves: []move{
			begun(toPerson), answers(result, ""), calls("MISSING_FIELD"), sends(works, ""), accepted(0), did(0),
			func(p *play) { contains(p.t, p.told(runOf(p.shown)), "KAIROS can do these") },
		}}
	}
	scenes(t, all)
}

// TestTheOfferFollowsTheFormForTheRunsInput: a protocol that asks for its input first
// shows the steps with what is known by then.
func TestTheOfferFollowsTheFormForTheRunsInput(t *testing.T) {
	inputs := inputsDoc("Act", "who")
	step := strings.Replace(plainStep, `"tool_name":"go"`, `"tool_name":"go","arguments":{"who":"{{ input.who }}"}`, 1)
	for name, given := range map[string]string{"asked for": "", "given at once": `{"who":"Ann"}`} {
		t.Run(name, func(t *testing.T) {
			w, d := offeringDoer(t, driver.EffectReads, offered)
			uri := w.mint(inputs + strings.TrimPrefix(step, "# Act\n"))[0]
			round := w.beginRound(uri, given)
			if given == "" {
				round = w.answer(w.ask(round, "elicitation/create"), `{"action":"accept","content":{"who":"Ann"}}`)
			}
			a := w.ask(round, "elicitation/create")
			if !strings.Contains(string(a.Params), "KAIROS can do these steps") {
				t.Errorf("the question is %s", a.Params)
			}
			if last := d.shown[len(d.shown)-1]; !strings.Contains(last, `"who":"Ann"`) {
				t.Errorf("previewed %s, want what is known filled in", last)
			}
			open := w.reply(w.answer(a, allows("once")))
			if w.code(w.next(uri, placeholder(open)), ""); len(d.did) != 1 {
				t.Errorf("did %q", d.did)
			}
		})
	}
}

// TestAResumedRunAsksWhatItStandsStillFor: a run that was begun where nobody could be asked
// is resumed by a person, who is asked what the step cannot do without.
func TestAResumedRunAsksWhatItStandsStillFor(t *testing.T) {
	for name, tc := range map[string]struct {
		doc, code string
		asks      bool
	}{
		"only what KAIROS sees counts": {with(plainStep, `"evidence":"server"`), "OBSERVATION_UNAVAILABLE", true},
		"the agent may do it":          {plainStep, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			w, d := offeringDoer(t, driver.EffectReads, offered)
			person := w.caller.Client
			w.caller.Client = driver.Client{}
			uri := w.mint(tc.doc)[0]
			begun := w.begin(uri)
			w.code(begun, tc.code)
			resumed := func() director.Round {
				t.Helper()
				r, err := w.Begin(t.Context(), w.caller, api.BeginRequest{SessionID: begun.RunID})
				if err != nil {
					t.Fatal(err)
				}
				return r
			}
			w.code(w.reply(resumed()), tc.code) // still nobody to ask
			w.caller.Client = person
			if !tc.asks {
				w.code(w.reply(resumed()), "")
				return
			}
			a := w.ask(resumed(), "elicitation/create")
			contains(t, string(a.Params), "KAIROS can do these steps of the protocol", "1. Act (driver doer, only looks)")
			open := w.reply(w.answer(a, allows("once")))
			if w.code(w.next(uri, placeholder(open)), ""); len(d.did) != 1 {
				t.Errorf("did %q", d.did)
			}
		})
	}
}

// TestAcceptingAgainReplaces: of one step there is one acceptance, and revoking it is enough.
func TestAcceptingAgainReplaces(t *testing.T) {
	w, d := withDoer(t, driver.EffectReads)
	uri := w.mint(plainStep)[0]
	w.accept(offers.On{URI: uri})
	again := w.accept(offers.On{URI: uri})
	if all, err := w.Accepted(t.Context(), w.caller); err != nil || len(all) != 1 || all[0] != again[0] {
		t.Fatalf("accepted is %+v, %v, want the second acceptance alone", all, err)
	}
	if err := w.Revoke(t.Context(), w.caller, again[0].ID); err != nil {
		t.Fatal(err)
	}
	if w.code(w.next(uri, placeholder(w.begin(uri))), "MISSING_FIELD"); len(d.did) > 0 {
		t.Errorf("it did %q after what was accepted was revoked", d.did)
	}
}

func TestWhereAcceptancesCount(t *testing.T) {
	w, _ := withDoer(t, driver.EffectReads)
	uri := w.mint(plainStep)[0]
	open := w.begin(uri)
	w.accept(offers.On{URI: uri, Run: runOf(open)})
	w.accept(offers.On{URI: uri})
	counts := func(want ...string) {
		t.Helper()
		all, err := w.Entries(t.Context(), w.caller)
		got := make([]string, len(all))
		for i, e := range all {
			got[i] = e.Counts
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("they count in %q, %v, want %q", got, err, want)
		}
	}
	counts(offers.CountsInEvery, offers.CountsInItsRun)
	edited := w.mint(strings.Replace(plainStep, "\nact\n", "\nact, and tell nobody\n", 1))[0]
	counts(offers.CountsInEarlier, offers.CountsInItsRun)
	w.code(w.next(uri, placeholder(open)), "")
	w.attest(api.AttestRequest{URI: uri, Outcome: "success"})
	counts(offers.CountsInEarlier, offers.CountsInNone)
	for name, tc := range map[string]struct {
		on   offers.On
		want fault.Code
		says string
	}{
		"a run that has ended":      {offers.On{Run: runOf(open)}, fault.InvalidArgument, "has ended"},
		"a run of another protocol": {offers.On{URI: w.mint("# Other\n\n## One\n\none\n")[0], Run: runOf(w.begin(edited))}, fault.InvalidArgument, `is of the protocol "Act", not of "Other"`},
		"no such run":               {offers.On{Run: "01890000-0000-7000-8000-00000000000a"}, fault.NotFound, "no run"},
	} {
		if _, err := w.Actable(t.Context(), w.caller, tc.on); fault.CodeOf(err) != tc.want || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: Actable = %v, want %s that says %q", name, err, tc.want, tc.says)
		}
	}
	if _, err := w.Delete(t.Context(), w.caller, api.DeleteRequest{URIs: []string{edited}}); err != nil {
		t.Fatal(err)
	}
	counts(offers.CountsInEarlier, offers.CountsInNone)
	_, err := w.Actable(t.Context(), w.caller, offers.On{URI: edited})
	if refused(t, err, fault.NotFound); !strings.Contains(err.Error(), "is deleted") {
		t.Errorf("a deleted protocol: %v, want that it is deleted", err)
	}
}

func TestAFastAcceptanceIsSaidToBeTheClients(t *testing.T) {
	w, d := offeringDoer(t, driver.EffectReads, offered)
	w.caller.Client.Name = "editor"
	uri := w.mint(plainStep)[0]
	open := w.reply(w.within(8*time.Millisecond, w.ask(w.beginRound(uri, ""), "elicitation/create"), allows("once")))
	done := w.next(uri, placeholder(open))
	if w.code(done, ""); len(d.did) != 1 {
		t.Fatalf("did %q, solved %+v", d.did, done.Solved)
	}
	const by = "a form in editor, through elicitation, answered by the client in 8 ms"
	if p := w.state(runOf(done)).Evidence[0].Permission; p == nil || p.By != by {
		t.Errorf("the evidence says that it was permitted by %+v, want %q", p, by)
	}
	contains(t, w.moment(done, string(run.Planned)).Verdict, "accepted by "+by)
	if m := w.moment(done, string(run.Answered)); m.Delay == nil || m.Verdict != "answered by the client in 8 ms" {
		t.Errorf("the timeline says of the acceptance %q, after %+v", m.Verdict, m.Delay)
	}
}

func TestAFastDeclineOfAnOfferIsNotRemembered(t *testing.T) {
	w, d := offeringDoer(t, driver.EffectReads, offered)
	uri := w.mint(plainStep)[0]
	open := w.reply(w.within(8*time.Millisecond, w.ask(w.beginRound(uri, ""), "elicitation/create"), no))
	w.code(open, "")
	contains(t, w.moment(open, string(run.RouteClosed)).Verdict, "answered by the client in 8 ms")
	next := w.reply(w.answer(w.ask(w.beginRound(uri, ""), "elicitation/create"), allows("once")))
	if w.code(w.next(uri, placeholder(next)), ""); len(d.did) != 1 {
		t.Errorf("after a person accepted it in another run, the driver did %q", d.did)
	}
}
