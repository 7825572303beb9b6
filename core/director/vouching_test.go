package director_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/director/approval"
	"github.com/kairos-mcp/kairos/core/drivers"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// seer is a capability driver that looks at the world itself, which its fields
// describe.
type seer struct {
	sees   string // the value; empty: it cannot look
	fails  error
	claims driver.Provenance
	looked int
}

var seerDescriptor = driver.Descriptor{
	Name: "seer", Version: "1.0.0", Role: driver.RoleCapability, Handles: []string{driver.KindEvidence}, Effect: driver.EffectReads,
	Features: []string{driver.FeaturePartial},
}

func (s *seer) Render(context.Context, driver.RenderRequest) (driver.RenderResult, error) {
	s.looked++
	switch {
	case s.fails != nil:
		return driver.RenderResult{}, s.fails
	case s.sees == "":
		return driver.CannotRender("it is dark"), nil
	}
	return driver.RenderResult{Answer: &driver.Answer{Value: json.RawMessage(s.sees), Provenance: s.claims}}, nil
}

func (s *seer) Interpret(context.Context, driver.InterpretRequest) (driver.InterpretResult, error) {
	return driver.CannotInterpret("it asks nobody"), nil
}

// withSeer is a world whose tree lets the seer look before it asks anybody else.
func withSeer(t *testing.T) *world { return seerOf(driver.EffectReads)(t) }

func seerOf(effect driver.Effect) func(*testing.T) *world {
	return func(t *testing.T) *world {
		t.Helper()
		w := newWorld(t, nil)
		w.seer = &seer{sees: `{"ok":true,"by":"seer"}`, claims: driver.ServerObserved}
		desc := seerDescriptor
		desc.Effect = effect
		w.describes(desc).capabilities["seer"] = w.seer
		w.police()
		return w
	}
}

// police gives a world with a seer rules.
func (w *world) police(entries ...string) {
	w.t.Helper()
	w.setups.replace(w.ruled(w.under(shipped("{via: seer, when: '!solution.supplied'}")), entries...))
}

// looks checks how often the seer looked so far.
func looks(n int) move {
	return func(p *play) {
		p.t.Helper()
		if p.seer.looked != n {
			p.t.Errorf("it looked %d times, want %d", p.seer.looked, n)
		}
	}
}

// fromWhom is a step that says who must vouch for its evidence.
func fromWhom(who string) string {
	return strings.Replace(gatedStep, `"approval_mode":"user"`, `"evidence":"`+who+`"`, 1)
}

func TestWhoVouchesForEvidence(t *testing.T) {
	withModel := strings.Replace(fromWhom("person"), `"mcp":{`, `"sampling":{"user":"go"},"mcp":{`, 1)
	weaker := func(t *testing.T) *world {
		w := withSeer(t)
		w.seer.claims = driver.AgentReported // although its descriptor says that it looks
		return w
	}
	limited := func(t *testing.T) *world {
		w := withSeer(t)
		w.drivers.limits.Store("seer", limit{strongest: driver.ClientAttested})
		return w
	}
	policed := func(entry string) func(*testing.T) *world {
		return func(t *testing.T) *world {
			w := withSeer(t)
			w.police(entry)
			return w
		}
	}
	scenes(t, map[string]scene{
		// A driver of class pure answers the same request in the same way, so it has looked at nothing, whatever it says.
		"a driver that looks at nothing observed nothing": {doc: fromWhom("anyone"), world: seerOf(driver.EffectPure), moves: []move{calls("SEER_FAILED"), solved(), looks(1)}},
		"a driver that may not vouch is passed over":      {doc: fromWhom("server"), world: limited, moves: []move{calls("OBSERVATION_UNAVAILABLE"), looks(0)}},
		"a saying that is weaker than demanded":           {doc: fromWhom("server"), world: weaker, moves: []move{calls("EVIDENCE_NOT_ACCEPTED")}},
		"anyone":                                          {doc: fromWhom("anyone"), world: withSeer, moves: []move{sends(works, ""), solved(driver.AgentReported)}},
		"a person, and no model": {doc: withModel, client: driver.Client{Sampling: true}, moves: []move{
			begun("APPROVAL_UNAVAILABLE"), sends(works, "EVIDENCE_NOT_ACCEPTED"),
		}},
		"a person, or what the server saw": {doc: fromWhom("person"), world: withSeer, moves: []move{calls(""), looks(1)}},
		"a person, and not the agent": {doc: with(askStep, `"evidence":"person"`), client: formClient, moves: []move{
			sends(approves, "EVIDENCE_NOT_ACCEPTED"), calls(toPerson), answers(yes, ""), solved(driver.ClientAttested),
		}},
		"a rule that demands more": {
			doc:   fromWhom("anyone"),
			world: policed(`{step: act, space: personal, when: 'protocol.space == "personal"', evidence: server}`),
			moves: []move{
				sends(works, "EVIDENCE_NOT_ACCEPTED", "counts only if KAIROS observes it itself"), counted(0), calls(""), solved(driver.ServerObserved),
			},
		},
		"a rule for another space": {doc: fromWhom("anyone"), world: policed(`{space: production, evidence: server}`), moves: []move{
			sends(works, ""), solved(driver.AgentReported), looks(0),
		}},
	})
}

func TestWhatTheServerMustObserveTheAgentCannotClaim(t *testing.T) {
	w := withSeer(t)
	s := w.seer
	uri := w.mint(fromWhom("server"))[0]
	open := w.begin(uri)
	contains(t, open.Challenge.Description, "do not make anything up")
	for range 4 { // more often than failures are allowed
		r := w.next(uri, solve(open, `{"ok":true,"event_id":"invented"}`))
		w.code(r, "EVIDENCE_NOT_ACCEPTED")
		if *r.RetryCount != 0 || !r.MustObey || !strings.Contains(r.NextAction, "without evidence") || r.NextCall == nil {
			t.Fatalf("reply = %+v, want it uncounted and the call without evidence", r)
		}
	}
	if s.looked != 0 {
		t.Errorf("the claims made the server look %d times", s.looked)
	}
	done := w.next(uri, placeholder(open))
	w.code(done, "")
	if len(vouchers(done)) != 1 || done.Solved[0].Provenance != driver.ServerObserved || done.Solved[0].Via != "seer" || strings.Contains(string(done.Solved[0].Output), "invented") {
		t.Errorf("solved = %+v, want what the server saw", done.Solved)
	}
	claims := slices.DeleteFunc(w.inOrder(runOf(done)), func(e run.Event) bool { return e.Kind != run.Claimed })
	if len(claims) != 1 || claims[0].Answer == nil || !strings.Contains(string(claims[0].Answer.Value), "invented") {
		t.Errorf("claims = %+v, want the one claim", claims)
	}
	contains(t, w.told(runOf(done)), "neither judged nor counted")
}

func TestALookThatFailsIsNotReplacedByAnotherRoute(t *testing.T) {
	w := withSeer(t)
	s := w.seer
	uri := w.mint(fromWhom("server"))[0]
	open := w.begin(uri)
	for name, fail := range map[string]func(){
		"it cannot":      func() { s.sees, s.fails = "", nil },
		"it is broken":   func() { s.fails = errors.New("boom") },
		"it saw no JSON": func() { s.sees, s.fails = "{", nil },
	} {
		fail()
		for range 2 { // the next call looks again
			before := s.looked
			r := w.next(uri, placeholder(open))
			w.code(r, "OBSERVATION_UNAVAILABLE")
			if *r.RetryCount != 0 || s.looked == before || !strings.Contains(r.Message, "seer") {
				t.Errorf("%s: looked %d times, reply = %+v", name, s.looked-before, r)
			}
		}
		w.code(w.next(uri, solve(open, works)), "EVIDENCE_NOT_ACCEPTED")
	}
	s.sees, s.fails = works, nil
	w.code(w.next(uri, placeholder(open)), "")
}

// A route whose answer would not count is skipped before it asks anything, and the reply says what would count.
func TestARouteThatDoesNotCountAsksNobody(t *testing.T) {
	doc := "# Ask\n\n## Sure\n\nAre you?\n\n```json\n{\"challenge\":{\"type\":\"user_input\",\"name\":\"sure\",\"approval_mode\":\"user\",\"user_input\":{\"prompt\":\"sure?\"}}}\n```\n"
	byStep := with(doc, `"evidence":"person"`)
	const byRule = "{evidence: person}"
	for name, tc := range map[string]struct {
		doc, rule string
		client    driver.Client
		code      string
	}{
		"anybody's answer":             {doc, "", driver.Client{}, "WAITING_FOR_USER"},
		"a person's, by link":          {byStep, "", driver.Client{}, "APPROVAL_UNAVAILABLE"},
		"a person's, by rule":          {doc, byRule, driver.Client{}, "APPROVAL_UNAVAILABLE"},
		"a person's, by an address":    {byStep, "", driver.Client{ElicitationURL: true}, "APPROVAL_UNAVAILABLE"},
		"a person's, in a form":        {byStep, "", formClient, ""},
		"by rule, in a form":           {doc, byRule, driver.Client{ElicitationForm: true, ElicitationURL: true}, ""},
		"in a form that nobody trusts": {byStep, "", driver.Client{ElicitationForm: true, Name: "limited"}, "APPROVAL_UNAVAILABLE"},
		"by rule, a form and a model":  {doc, byRule, driver.Client{Sampling: true}, "APPROVAL_UNAVAILABLE"},
	} {
		t.Run(name, func(t *testing.T) {
			world := func(t *testing.T) *world {
				w := withPage(t, nil)
				if tc.client.Name == "limited" {
					w.drivers.limits.Store("elicitation", limit{strongest: driver.AgentReported})
				}
				w.describes()
				w.setups.replace(w.ruled(w.under(shipped()), slices.DeleteFunc([]string{tc.rule}, func(rule string) bool { return rule == "" })...))
				return w
			}
			moves := []move{calls(toPerson), answers(yes, "")}
			if tc.code == "WAITING_FOR_USER" {
				moves = []move{calls(tc.code)}
			} else if tc.code != "" {
				moves = slices.Repeat([]move{
					calls(tc.code, "counts only if a person answers it", "client that shows forms"), counted(0),
					func(p *play) { contains(p.t, p.shown.ApprovalURL, "not: http") },
				}, 3)
			}
			scene{doc: tc.doc, client: tc.client, world: world, knobs: []string{"asks yes or no user_input"}, moves: moves}.play(t)
		})
	}
}

func TestWhatCannotPassIsNotMinted(t *testing.T) {
	w := withSeer(t)
	w.police(`{step: act, approval: {how: [page]}}`, `{when: 'step.name == "act"', evidence: person}`)
	byForm := strings.Replace(gatedStep, `"approval_mode":"user"`, `"approval":{"how":["form"]}`, 1)
	mint := func(doc string) error {
		_, err := w.Mint(t.Context(), w.caller, api.MintRequest{Document: doc, ModelID: "m"})
		return err
	}
	contains(t, fmt.Sprint(mint(byForm)), `"Act"`, "no way of approving counts", "rules[0], line 2: approval by page", "the step demands approval by form", "ask the operator to change `rules`")
	linted, err := w.Lint(t.Context(), library.LintInput{Document: byForm})
	found := linted.Findings
	if err != nil || len(found) == 0 || found[0].Severity == driver.SeverityWarning || !strings.Contains(found[0].Message, "rules[0], line 2") {
		t.Errorf("Lint = %v, %v", found, err)
	}
	contains(t, fmt.Sprint(mint("# Free\n\n## Act\n\nJust do it.\n")), "the step has none: give it one")
	w.mint(fromWhom("server")) // less than a person is not enough, and more is
}

func TestAStepThatRulesMadeImpossibleSaysSo(t *testing.T) {
	w := withSeer(t)
	uri, free := w.mint(strings.Replace(gatedStep, `"approval_mode":"user"`, `"approval":{"how":["form"]}`, 1))[0], w.mint("# Free\n\n## Act\n\nJust do it.\n")[0]
	open, openFree := w.begin(uri), w.begin(free)
	w.police(`{approval: {how: [page]}}`)
	for range 4 {
		for _, r := range []*api.StepReply{w.next(uri, placeholder(open)), w.next(uri, solve(open, works)), w.next(free, solve(openFree, works))} {
			w.code(r, "RULES_CONFLICT")
			if contains(t, r.Message, "rules[0], line 2"); r.RetryCount != nil && *r.RetryCount != 0 {
				t.Errorf("reply = %+v, want it uncounted", r)
			}
		}
	}
	if w.seer.looked != 0 {
		t.Errorf("looked %d times", w.seer.looked)
	}
	w.police()
	w.code(w.next(free, solve(openFree, works)), "") // the operator took it back
}

// judging is a setup whose driver user_input has this effect and judges so.
func (w *world) judging(effect driver.Effect, judge func() driver.AdvanceResult) drivers.Setup {
	w.t.Helper()
	desc := descriptors["user_input"]
	desc.Effect, desc.StateVersions = effect, []int{1}
	return w.setupOf(map[string]driver.Challenge{"user_input": staged{writes: 1, judge: judge}}, desc)
}

// judgedBy is a scene of evidence that a driver judges so.
func judgedBy(effect driver.Effect, judge func() driver.AdvanceResult) func(*testing.T) *world {
	return func(t *testing.T) *world {
		t.Helper()
		w := newWorld(t, nil)
		w.setups.replace(w.judging(effect, judge))
		return w
	}
}

var observed = driver.Observe(json.RawMessage(`{"status":200}`), json.RawMessage(`{"up":true}`))

func observes() driver.AdvanceResult { return observed }

func TestOnlyADriverThatLooksMayObserve(t *testing.T) {
	said := []move{sends(works, ""), solved(), sends(works, ""), solved(driver.ServerObserved), func(p *play) {
		if got := p.shown.Solved[0]; got.Via != "user_input" || string(got.Output) != `{"up":true}` {
			p.t.Errorf("solved via %s with %s, want the driver's output", got.Via, got.Output)
		}
	}}
	fromServer, takes := with(stagedStep, `"evidence":"server"`), driver.Accept(json.RawMessage(`{}`), json.RawMessage(`{"up":true}`))
	extra := func() driver.AdvanceResult {
		return driver.Observe(json.RawMessage(`{}`), json.RawMessage(`{"up":true,"extra":1}`))
	}
	scenes(t, map[string]scene{
		"one that reads": {doc: stagedStep, world: judgedBy(driver.EffectReads, observes), moves: said},
		"one that acts":  {doc: stagedStep, world: judgedBy(driver.EffectChanges, observes), moves: said},
		"one that is pure": {doc: stagedStep, world: judgedBy(driver.EffectPure, observes), moves: []move{
			sends(works, ""), sends(works, "DRIVER_UNAVAILABLE", "its descriptor says that it looks at nothing"), counted(0),
		}},
		"whose look makes a report count": {doc: fromServer, world: judgedBy(driver.EffectReads, observes), moves: []move{sends(works, ""), sends(works, "")}},
		"unlike one that takes the report": {doc: fromServer, world: judgedBy(driver.EffectReads, func() driver.AdvanceResult { return takes }), moves: []move{
			sends(works, ""), sends(works, "EVIDENCE_NOT_ACCEPTED"),
		}},
		"within the strict schema": {
			doc:   with(stagedStep, `"output_schema":{"type":"object","properties":{"up":{"type":"boolean"}}}`),
			world: judgedBy(driver.EffectReads, extra), moves: []move{sends(works, ""), sends(works, "OUTPUT_INVALID")},
		},
	})
}

func TestAnObservationIsRecordedAsTheLimitOfItsDriver(t *testing.T) {
	for name, tc := range map[string]struct{ limit, want driver.Provenance }{
		"no limit":           {"", driver.ServerObserved},
		"a weaker limit":     {driver.ClientAttested, driver.ClientAttested},
		"a limit that is it": {driver.ServerObserved, driver.ServerObserved},
	} {
		t.Run(name, func(t *testing.T) {
			world := func(t *testing.T) *world {
				w := judgedBy(driver.EffectReads, observes)(t)
				w.drivers.limits.Store("user_input", limit{strongest: tc.limit})
				return w
			}
			scene{doc: stagedStep, world: world, moves: []move{sends(works, ""), sends(works, ""), solved(tc.want), func(p *play) {
				stored := p.state(runOf(p.shown))
				if err := stored.Verify(); err != nil || stored.Proofs[0].Provenance != tc.want {
					t.Errorf("the proof says %s (%v), want %s", stored.Proofs[0].Provenance, err, tc.want)
				}
			}}}.play(t)
		})
	}
}

// A limited driver is still read as one that looked: its word is recorded as
// weaker, but it is not taken for the agent's report.
func TestWhatALimitedDriverSawOfFilesCounts(t *testing.T) {
	limited := func(t *testing.T) *world {
		w := newWorld(t, nil)
		w.drivers.limits.Store("roots", limit{strongest: driver.AgentReported})
		return w
	}
	scene{doc: filed(`"files":[{"path":"x"}]`), world: limited, knobs: []string{"roots are open", "files are missing"}, moves: []move{
		sends(works, "FILES_MISMATCH"), sets("files are missing", false), sends(works, ""),
		func(p *play) {
			if f := p.shown.Solved[0].Files; f == nil || f.Via != "roots" || f.Provenance != driver.AgentReported {
				t.Errorf("files = %+v, want those of roots, agent-reported", f)
			}
		},
	}}.play(t)
}

func TestAnApprovalIsRecordedAsTheLimitOfItsDriver(t *testing.T) {
	limited := func(t *testing.T) *world {
		w := withPage(t, nil)
		w.drivers.limits.Store("elicitation", limit{strongest: driver.ModelGenerated})
		w.drivers.limits.Store("page", limit{strongest: driver.AgentReported})
		return w
	}
	scenes(t, map[string]scene{
		"by form": {doc: statedStep, client: formClient, world: limited, moves: []move{calls(toPerson), answers(yes, ""), func(p *play) {
			if got := p.state(runOf(p.shown)).Proofs[0].Provenance; got != driver.ModelGenerated {
				p.t.Errorf("the proof says %s, want the limit", got)
			}
		}}},
		"by link": {doc: gatedStep, world: limited, moves: []move{calls("WAITING_FOR_USER"), onPage("approved"), calls(""), sends(works, ""), func(p *play) {
			if a := p.state(runOf(p.shown)).Evidence[0].Approval; a == nil || a.Provenance != driver.AgentReported || a.Basis != run.BasisLink {
				p.t.Errorf("approval = %+v, want one by link that is recorded as the limit", a)
			}
		}}},
	})
}

// A driver that may not answer for a person is not asked for an approval, a
// person's own answer or a run's input, although its descriptor says human.
func TestADriverThatMayNotAnswerForAPersonIsNotARoute(t *testing.T) {
	needsInput := func(title string) string {
		return inputsDoc(title, "who") + shellDoc("One", "one", "one", "greet {{ input.who }}")
	}
	w := withPage(t, nil)
	w.caller.Client = formClient
	uri := w.mint(gatedStep)[0]
	w.ask(w.nextRound(uri, placeholder(w.begin(uri))), toPerson)
	w.ask(w.beginRound(w.mint(needsInput("Feed"))[0], ""), toPerson)

	w.drivers.limits.Store("elicitation", limit{noPerson: true})
	r := w.next(uri, placeholder(w.begin(uri)))
	if w.code(r, "WAITING_FOR_USER"); r.ApprovalURL == "" { // at the page, which is another driver
		t.Errorf("reply = %+v, want the next route, the page", r)
	}
	_, err := w.Begin(t.Context(), w.caller, api.BeginRequest{URI: w.mint(needsInput("Feed others"))[0]})
	refused(t, err, fault.MissingInput)
	own := w.mint(statedStep)[0]
	w.code(w.next(own, placeholder(w.begin(own))), "APPROVAL_UNAVAILABLE")

	w.drivers.limits.Store("page", limit{noPerson: true})
	if v := w.view(r); v.State != approval.Replaced {
		t.Errorf("the page that was open is %s, want it closed", v.State)
	}
	if late := w.decide(r, "approved", ""); !late.Late || w.state(runOf(r)).Step.Approval != nil {
		t.Errorf("the page of a driver that may not answer for a person says %+v, want that the answer comes too late", late)
	}
	r = w.next(uri, placeholder(w.begin(uri)))
	w.code(r, "APPROVAL_UNAVAILABLE")
	contains(t, r.Message, "the operator does not let it answer for a person")

	// An answer that was asked for before the operator forbade it does not count.
	scene{doc: statedStep, client: formClient, moves: []move{
		calls(toPerson), func(p *play) { p.drivers.limits.Store("elicitation", limit{noPerson: true}) }, answers(yes, "APPROVAL_UNAVAILABLE"), solved(),
	}}.play(t)
}
