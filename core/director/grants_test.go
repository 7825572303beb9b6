package director_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/archive"
	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/drivers"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/grants"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// doer is a capability driver that acts on what a protocol says: it writes down
// each plan that it carried out.
type doer struct {
	effect  driver.Effect
	asks    bool   // for a proposal
	states  bool   // that a proposal is the arguments of its action
	world   string // what it would act on; a plan for another world is refused
	did     []string
	refuses string                // why Preview is unavailable
	only    int                   // the step that Preview refuses; 0: every step
	slow    bool                  // it takes time, and can be asked how far it is, and cancelled
	ended   []driver.RenderResult // what a slow one says when it is asked again; the last stays
	asked   []driver.RenderRequest
	shown   []string // what it was asked to preview
	fails   int      // how often what it observes is a failure
}

func (d *doer) descriptor() driver.Descriptor {
	desc := doerDescriptor
	if d.slow {
		desc.Features = append(slices.Clone(desc.Features), driver.FeatureRecover, driver.FeatureCancel)
	}
	return desc
}

var doerDescriptor = driver.Descriptor{
	Name: "doer", Version: "1.0.0", Role: driver.RoleCapability, Handles: []string{driver.KindEvidence}, Effect: driver.EffectEffects,
	Features: []string{driver.FeatureGrant, driver.FeaturePartial},
}

func (d *doer) Preview(_ context.Context, req driver.PreviewRequest) (driver.PreviewResult, error) {
	d.shown = append(d.shown, string(req.Input.Display))
	switch {
	case d.refuses != "" && (d.only == 0 || d.only == req.Step.Index):
		return driver.CannotPreview(d.refuses), nil
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
	if d.fails > 0 {
		d.fails--
		return driver.RenderResult{Answer: &driver.Answer{Value: json.RawMessage(`{"ok":false}`), Provenance: driver.ServerObserved}}, nil
	}
	return driver.RenderResult{Answer: &driver.Answer{Value: json.RawMessage(`{"ok":true,"did":true}`), Provenance: driver.ServerObserved}}, nil
}

func (d *doer) Interpret(context.Context, driver.InterpretRequest) (driver.InterpretResult, error) {
	return driver.CannotInterpret("it asks nobody"), nil
}

type doing struct {
	*fakeDrivers
	doer *doer
}

func (d doing) Describe(name string) (driver.Descriptor, string, bool) {
	if name == "doer" {
		return d.doer.descriptor(), "sha-of-doer", true
	}
	return d.fakeDrivers.Describe(name)
}

func (d doing) Capability(name string, within time.Duration) (driver.Capability, bool) {
	if name == "doer" {
		return d.doer, true
	}
	return d.fakeDrivers.Capability(name, within)
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
	w, d := newWorld(t, append(change, nil)[0]), &doer{effect: effect, world: "earth"}
	all := []driver.Descriptor{doerDescriptor}
	for _, desc := range descriptors {
		all = append(all, desc)
	}
	yaml := strings.ReplaceAll(string(decision.Default().YAML), "evidence:\n", "evidence:\n      - {via: doer, when: step.granted}\n")
	yaml = strings.ReplaceAll(yaml, "  grant:\n    - {via: elicitation, optional: true}\n", routes)
	tree, err := decision.Compile(decision.Source{Name: "tree.yaml", YAML: []byte(yaml)}, all)
	if err != nil {
		t.Fatal(err)
	}
	w.setups.replace(drivers.Setup{Drivers: doing{w.drivers, d}, Tree: tree})
	w.caller.Client = driver.Client{ElicitationForm: true}
	return w, d
}

// allow lets the doer act for the first step of the run's protocol.
func (w *world) allow(id run.ID, change func(*grants.Grant)) grants.Grant {
	w.t.Helper()
	chain, err := w.store.Pinned(w.t.Context(), w.state(id).Pin)
	if err != nil {
		w.t.Fatal(err)
	}
	digest, err := chain.ContentDigest()
	if err != nil {
		w.t.Fatal(err)
	}
	g := grants.Grant{Space: chain.Space, Protocol: digest, Title: chain.Title, Step: 1, Label: "Act", Driver: "doer", Effect: driver.EffectEffects, By: "me"}
	if change != nil {
		change(&g)
	}
	all, err := w.Allow(w.t.Context(), w.caller, []grants.Grant{g})
	if err != nil {
		w.t.Fatal(err)
	}
	return all[0]
}

const plainStep = "# Act\n\n## Act\n\nact\n\n```json\n{\"challenge\":{\"type\":\"mcp\",\"mcp\":{\"tool_name\":\"go\"}}}\n```\n"

func TestNothingIsDoneThatNobodyAllowed(t *testing.T) {
	w, d := withDoer(t, driver.EffectReads)
	uri := w.mint(strings.Replace(plainStep, `"type":`, `"evidence_from":"server","type":`, 1))[0]
	open := w.begin(uri)
	r := w.next(uri, placeholder(open))
	w.code(r, "OBSERVATION_UNAVAILABLE")
	for name, other := range map[string]func(*grants.Grant){
		"another step":      func(g *grants.Grant) { g.Step = 2 },
		"another driver":    func(g *grants.Grant) { g.Driver = "agent" },
		"another version":   func(g *grants.Grant) { g.Protocol = "00" },
		"another run":       func(g *grants.Grant) { g.Run = "01890000-0000-7000-8000-000000000000" },
		"a different space": nil,
	} {
		if other != nil {
			w.allow(runOf(open), other)
		}
		if w.code(w.next(uri, placeholder(open)), "OBSERVATION_UNAVAILABLE"); len(d.did) > 0 {
			t.Errorf("a grant for %s made it act", name)
		}
	}
	g := w.allow(runOf(open), nil)
	done := w.next(uri, placeholder(open))
	w.code(done, "")
	if len(d.did) != 1 || done.Solved[0].Provenance != driver.ServerObserved || done.Solved[0].Via != "doer" {
		t.Errorf("did %q, solved %+v, want that it acted once", d.did, done.Solved)
	}
	if told := w.told(runOf(open)); !strings.Contains(told, "act on earth") || !strings.Contains(told, g.ID) {
		t.Errorf("the timeline says nothing of the plan or its grant: %s", told)
	}
}

// The run keeps the name of the person who allowed it, whatever becomes of the grant and of the values.
func TestTheRunSaysWhoAllowedWhatItsDriverDid(t *testing.T) {
	w, _ := withDoer(t, driver.EffectReads)
	uri := w.mint(plainStep)[0]
	open := w.begin(uri)
	g := w.allow(runOf(open), func(g *grants.Grant) { g.By = "Ann at the terminal" })
	w.code(w.next(uri, placeholder(open)), "")
	planned := w.state(runOf(open)).Evidence[0].Permission
	if planned == nil || planned.Grant != g.ID || planned.By != g.By || planned.Driver != "doer" || len(planned.Plan) != 64 {
		t.Fatalf("the evidence has the permission %+v", planned)
	}
	if err := w.Revoke(t.Context(), w.caller, g.ID); err != nil {
		t.Fatal(err)
	}
	w.attest(api.AttestRequest{URI: uri, Outcome: "success"})
	want := fmt.Sprintf("allowed by Ann at the terminal (grant %s)", g.ID)
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

// A step that the agent did has no permission, although a driver could have done it.
func TestWhatTheAgentDidHasNoPermission(t *testing.T) {
	w, _ := withDoer(t, driver.EffectReads)
	uri := w.mint(plainStep)[0]
	open := w.begin(uri)
	w.code(w.next(uri, solve(open, `{"ok":true}`)), "")
	if p := w.state(runOf(open)).Evidence[0].Permission; p != nil {
		t.Errorf("the evidence has the permission %+v", p)
	}
}

// An agent that has a report refused can tell the person what would help, if anything does.
func TestARefusedReportSaysHowKAIROSCouldDoIt(t *testing.T) {
	doc := strings.Replace(plainStep, `"type":`, `"evidence_from":"server","type":`, 1)
	w, _ := withDoer(t, driver.EffectReads)
	uri := w.mint(doc)[0]
	open := w.begin(uri)
	want := fmt.Sprintf("A person can allow KAIROS to do it: `kairos allow %s`.", open.RunID)
	r := w.next(uri, solve(open, `{"ok":true}`))
	if w.code(r, "EVIDENCE_NOT_ACCEPTED"); !strings.Contains(r.Message, want) {
		t.Errorf("message = %q, want %q", r.Message, want)
	}
	w.allow(runOf(open), nil)
	r = w.next(uri, solve(r, `{"ok":true}`))
	if w.code(r, "EVIDENCE_NOT_ACCEPTED"); strings.Contains(r.Message, "kairos allow") {
		t.Errorf("message = %q, although it is allowed", r.Message)
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
	if err := w.Revoke(t.Context(), w.caller, g.ID); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("revoking it twice = %v, want that it is not there", err)
	}
}

func TestWhatChangesSomethingIsApprovedExactly(t *testing.T) {
	w, d := withDoer(t, driver.EffectEffects)
	uri := w.mint(plainStep)[0]
	open := w.begin(uri)
	w.allow(runOf(open), nil)
	a := w.ask(w.nextRound(uri, placeholder(open)), "elicitation/create")
	if !strings.Contains(string(a.Params), "exactly this itself") || !strings.Contains(string(a.Params), "act on earth") {
		t.Errorf("the question is %s, want the plan in it", a.Params)
	}
	approved := w.reply(w.answer(a, yesToTheForm))
	if len(d.did) != 0 {
		t.Fatalf("it did %q before anybody called for it", d.did)
	}
	d.world = "mars" // between approval and execution
	r := w.next(uri, placeholder(approved))
	if w.code(r, "OBSERVATION_UNAVAILABLE"); len(d.did) != 0 {
		t.Errorf("it did %q, want nothing: the plan is of another world", d.did)
	}
	d.world = "earth"
	done := w.next(uri, placeholder(r))
	if w.code(done, ""); len(d.did) != 1 {
		t.Errorf("it did %q, want the plan once", d.did)
	}
	if ev := w.state(runOf(done)).Evidence[0]; ev.Approval == nil {
		t.Error("the evidence has no approval")
	}
}

// What was approved cannot be done any more, so the person is asked about what can.
func TestAnotherWorldIsPlannedAnew(t *testing.T) {
	w, d := withDoer(t, driver.EffectEffects)
	uri := w.mint(plainStep)[0]
	open := w.begin(uri)
	w.allow(runOf(open), nil)
	approved := w.reply(w.answer(w.ask(w.nextRound(uri, placeholder(open)), "elicitation/create"), yesToTheForm))
	d.world = "mars"
	r := w.next(uri, placeholder(approved))
	w.code(r, "OBSERVATION_UNAVAILABLE")
	a := w.ask(w.nextRound(uri, placeholder(r)), "elicitation/create")
	if !strings.Contains(string(a.Params), "act on mars") || len(d.did) != 0 {
		t.Errorf("did %q, the question is %s, want the new plan in it", d.did, a.Params)
	}
	done := w.next(uri, placeholder(w.reply(w.answer(a, yesToTheForm))))
	if w.code(done, ""); len(d.did) != 1 || !strings.Contains(d.did[0], "mars") {
		t.Errorf("it did %q, want what was approved last", d.did)
	}
}

// A step that demands an approval of its own is approved once, by the plan: before
// that there is nothing exact to approve.
func TestAPersonApprovesThePlanAndNothingBefore(t *testing.T) {
	for _, effect := range []driver.Effect{driver.EffectReads, driver.EffectEffects} {
		t.Run(string(effect), func(t *testing.T) {
			w, d := withDoer(t, effect)
			uri := w.mint(strings.Replace(plainStep, `"type":`, `"approval_mode":"user","evidence_from":"server","type":`, 1))[0]
			open := w.begin(uri)
			w.allow(runOf(open), nil)
			a := w.ask(w.nextRound(uri, placeholder(open)), "elicitation/create")
			if !strings.Contains(string(a.Params), "act on earth") {
				t.Fatalf("the question is %s, want the plan in it", a.Params)
			}
			done := w.next(uri, placeholder(w.reply(w.answer(a, yesToTheForm))))
			if w.code(done, ""); len(d.did) != 1 {
				t.Errorf("it did %q, want the plan once", d.did)
			}
		})
	}
}

func TestANoIsNotGotAroundByALookOrAClaim(t *testing.T) {
	w, d := withDoer(t, driver.EffectEffects)
	uri := w.mint(plainStep)[0]
	open := w.begin(uri)
	w.allow(runOf(open), nil)
	no := w.reply(w.answer(w.ask(w.nextRound(uri, placeholder(open)), "elicitation/create"), `{"action":"accept","content":{"confirmation":"rejected"}}`))
	w.code(no, "USER_DECLINED")
	r := w.nextRound(uri, solve(no, `{"ok":true,"invented":true}`))
	if r.Reply != nil && len(r.Reply.Solved) > 0 || len(d.did) > 0 {
		t.Errorf("after the no: %+v, it did %q", r.Reply, d.did)
	}
}

func TestAGrantToLookIsNoneToChange(t *testing.T) {
	w, d := withDoer(t, driver.EffectEffects)
	uri := w.mint(strings.Replace(plainStep, `"type":`, `"evidence_from":"server","type":`, 1))[0]
	open := w.begin(uri)
	w.allow(runOf(open), func(g *grants.Grant) { g.Effect = driver.EffectReads })
	r := w.next(uri, placeholder(open))
	if w.code(r, "OBSERVATION_UNAVAILABLE"); len(d.did) != 0 || !strings.Contains(r.Message, "only allowed to look") {
		t.Errorf("did %q: %s", d.did, r.Message)
	}
}

func TestALiarDoesNotGetAroundAGrant(t *testing.T) {
	for _, from := range []string{"anyone", "server"} {
		t.Run(from, func(t *testing.T) {
			w, d := withDoer(t, driver.EffectReads)
			uri := w.mint(strings.Replace(plainStep, `"type":`, `"evidence_from":"`+from+`","type":`, 1))[0]
			open := w.begin(uri)
			w.allow(runOf(open), nil)
			d.refuses = "the tool is down"
			r := w.next(uri, solve(open, `{"ok":true,"event_id":"invented"}`))
			w.code(r, "OBSERVATION_UNAVAILABLE")
			d.refuses = ""
			r = w.next(uri, solve(r, `{"ok":true,"event_id":"invented"}`))
			if from == "server" {
				w.code(r, "EVIDENCE_NOT_ACCEPTED")
				r = w.next(uri, placeholder(r))
			}
			w.code(r, "")
			if len(d.did) != 1 || strings.Contains(string(r.Solved[0].Output), "invented") {
				t.Errorf("did %q, solved %+v, want what the server did itself", d.did, r.Solved)
			}
			if !strings.Contains(w.told(runOf(r)), "invented") {
				t.Error("the claim is not recorded")
			}
		})
	}
}

func TestTheAgentProposesWhatAStepLeavesOpen(t *testing.T) {
	w, d := withDoer(t, driver.EffectEffects)
	d.asks = true
	uri := w.mint(strings.Replace(plainStep, `"type":`, `"evidence_from":"server","type":`, 1))[0]
	open := w.begin(uri)
	w.allow(runOf(open), nil)
	r := w.next(uri, placeholder(open))
	w.code(r, "MISSING_FIELD")
	if !strings.Contains(r.Challenge.Description, "Say to whom. Propose only") {
		t.Errorf("description = %q, want what to propose", r.Challenge.Description)
	}
	wrong := w.next(uri, solve(r, `{"whom":"betty"}`))
	if !strings.Contains(wrong.Message, "/to") || *wrong.RetryCount != 0 {
		t.Errorf("reply = %+v, want the proposal refused and uncounted", wrong)
	}
	a := w.ask(w.nextRound(uri, solve(r, `{"to":"betty"}`)), "elicitation/create")
	if !strings.Contains(string(a.Params), "betty") {
		t.Errorf("the question is %s, want what was proposed", a.Params)
	}
	approved := w.reply(w.answer(a, yesToTheForm))
	w.code(w.next(uri, placeholder(approved)), "")
	if len(d.did) != 1 || !strings.Contains(d.did[0], "betty") {
		t.Errorf("did %q", d.did)
	}
}
