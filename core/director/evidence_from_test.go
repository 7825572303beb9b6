package director_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/drivers"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// seer is a capability driver that looks at the world itself, which its fields
// describe.
type seer struct {
	effect driver.Effect // "": reads
	sees   string        // the value; empty: it cannot look
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

// seeing adds the driver to those of the world.
type seeing struct {
	*fakeDrivers
	seer *seer
}

func (d seeing) Describe(name string) (driver.Descriptor, string, bool) {
	if name == "seer" {
		desc := seerDescriptor
		desc.Effect = cmp.Or(d.seer.effect, desc.Effect)
		return desc, "sha-of-seer", true
	}
	return d.fakeDrivers.Describe(name)
}

func (d seeing) Capability(name string, within time.Duration) (driver.Capability, bool) {
	if name == "seer" {
		return d.seer, true
	}
	return d.fakeDrivers.Capability(name, within)
}

// withSeer is a world whose tree lets the seer look before it asks anybody else.
func withSeer(t *testing.T) (*world, *seer) {
	t.Helper()
	w, s := newWorld(t, nil), &seer{sees: `{"ok":true,"by":"seer"}`, claims: driver.ServerObserved}
	all := []driver.Descriptor{seerDescriptor}
	for _, d := range descriptors {
		all = append(all, d)
	}
	yaml := strings.ReplaceAll(string(decision.Default().YAML), "evidence:\n", "evidence:\n      - {via: seer, when: '!solution.supplied'}\n")
	tree, err := decision.Compile(decision.Source{Name: "tree.yaml", YAML: []byte(yaml)}, all)
	if err != nil {
		t.Fatal(err)
	}
	w.setups.replace(drivers.Setup{Drivers: seeing{w.drivers, s}, Tree: tree})
	return w, s
}

// fromWhom is a step that says who must vouch for its evidence.
func fromWhom(who string) string {
	return strings.Replace(gatedStep, `"approval_mode":"user"`, `"evidence_from":"`+who+`"`, 1)
}

// A driver of class pure answers the same request in the same way, so it has looked at
// nothing, whatever it says.
func TestADriverThatLooksAtNothingObservedNothing(t *testing.T) {
	w, s := withSeer(t)
	s.effect = driver.EffectPure
	uri := w.mint(fromWhom("anyone"))[0]
	open := w.begin(uri)
	r := w.next(uri, placeholder(open))
	if s.looked == 0 || len(r.Solved) > 0 || r.CurrentStep.URI != uri {
		t.Errorf("after the seer was asked %d times the step is solved by %+v, want it open", s.looked, r.Solved)
	}
}

func TestWhatTheServerMustObserveTheAgentCannotClaim(t *testing.T) {
	w, s := withSeer(t)
	uri := w.mint(fromWhom("server"))[0]
	open := w.begin(uri)
	if s.looked != 0 || !strings.Contains(open.Challenge.Description, "do not make anything up") {
		t.Errorf("looked %d times at the begin, description %q", s.looked, open.Challenge.Description)
	}
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
	if len(done.Solved) != 1 || done.Solved[0].Provenance != driver.ServerObserved || done.Solved[0].Via != "seer" || strings.Contains(string(done.Solved[0].Output), "invented") {
		t.Errorf("solved = %+v, want what the server saw", done.Solved)
	}
	claims := slices.DeleteFunc(w.inOrder(runOf(done)), func(e run.Event) bool { return e.Kind != run.Claimed })
	if len(claims) != 1 || claims[0].Answer == nil || !strings.Contains(string(claims[0].Answer.Value), "invented") {
		t.Errorf("claims = %+v, want the one claim", claims)
	}
	if what := w.told(runOf(done)); !strings.Contains(what, "neither judged nor counted") {
		t.Errorf("the timeline says %s, want the claim", what)
	}
}

func TestALookThatFailsIsNotReplacedByAnotherRoute(t *testing.T) {
	w, s := withSeer(t)
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
		w.code(w.next(uri, solve(open, `{"ok":true}`)), "EVIDENCE_NOT_ACCEPTED")
	}
	s.sees, s.fails = `{"ok":true}`, nil
	w.code(w.next(uri, placeholder(open)), "")
}

func TestADriverThatMayNotVouchIsPassedOver(t *testing.T) {
	w, s := withSeer(t)
	w.drivers.limits.Store("seer", limit{strongest: driver.ClientAttested})
	uri := w.mint(fromWhom("server"))[0]
	r := w.next(uri, placeholder(w.begin(uri)))
	w.code(r, "OBSERVATION_UNAVAILABLE")
	if s.looked != 0 {
		t.Errorf("it looked %d times, want that a look which cannot count is not made", s.looked)
	}
}

func TestASayingThatIsWeakerThanDemandedIsRefused(t *testing.T) {
	w, s := withSeer(t)
	s.claims = driver.AgentReported // although its descriptor says that it looks
	uri := w.mint(fromWhom("server"))[0]
	w.code(w.next(uri, placeholder(w.begin(uri))), "EVIDENCE_NOT_ACCEPTED")
}

func TestAJudgeThatLooksItselfMakesAReportCount(t *testing.T) {
	for name, observes := range map[string]bool{"it looks": true, "it takes the report": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			desc := descriptors["user_input"]
			desc.Effect, desc.StateVersions = driver.EffectReads, []int{1}
			w.setups.replace(w.setupOf(map[string]driver.Challenge{"user_input": staged{writes: 1, judge: func() driver.AdvanceResult {
				if !observes {
					return driver.Accept(json.RawMessage(`{}`), json.RawMessage(`{"up":true}`))
				}
				return driver.Observe(json.RawMessage(`{}`), json.RawMessage(`{"up":true}`))
			}}}, desc))
			uri := w.mint(strings.Replace(stagedStep, `"type":`, `"evidence_from":"server","type":`, 1))[0]
			r := w.next(uri, solve(w.begin(uri), `{"ok":true}`))
			r = w.next(uri, solve(r, `{"ok":true}`))
			if want := map[bool]string{true: "", false: "EVIDENCE_NOT_ACCEPTED"}[observes]; r.ErrorCode != want {
				t.Errorf("error_code = %q (%s), want %q", r.ErrorCode, r.Message, want)
			}
		})
	}
}

func TestAPersonVouchesAndAModelDoesNot(t *testing.T) {
	doc := strings.Replace(fromWhom("person"), `"mcp":{`, `"sampling":{"user":"go"},"mcp":{`, 1)
	w := newWorld(t, nil)
	w.caller.Client = driver.Client{Sampling: true}
	uri := w.mint(doc)[0]
	r := w.begin(uri) // asks no model
	w.code(r, "APPROVAL_UNAVAILABLE")
	w.code(w.next(uri, solve(r, `{"ok":true}`)), "EVIDENCE_NOT_ACCEPTED")

	w, s := withSeer(t)
	uri = w.mint(fromWhom("person"))[0]
	done := w.next(uri, placeholder(w.begin(uri)))
	if w.code(done, ""); s.looked != 1 {
		t.Errorf("looked %d times, want that what the server saw counts, too", s.looked)
	}

	w = newWorld(t, nil)
	w.caller.Client = driver.Client{ElicitationForm: true}
	uri = w.mint(strings.Replace(askStep, `"type":`, `"evidence_from":"person","type":`, 1))[0]
	open := w.begin(uri)
	w.code(w.next(uri, solve(open, `{"confirmation":"approved"}`)), "EVIDENCE_NOT_ACCEPTED")
	done = w.reply(w.answer(w.ask(w.nextRound(uri, placeholder(open)), "elicitation/create"), yesToTheForm))
	if len(done.Solved) != 1 || done.Solved[0].Provenance != driver.ClientAttested {
		t.Errorf("solved = %+v, want the person's answer", done.Solved)
	}
}

func TestEvidenceFromAnyoneChangesNothing(t *testing.T) {
	w, _ := withSeer(t)
	uri := w.mint(fromWhom("anyone"))[0]
	done := w.next(uri, solve(w.begin(uri), `{"ok":true}`))
	if len(done.Solved) != 1 || done.Solved[0].Provenance != driver.AgentReported {
		t.Errorf("solved = %+v, want the agent's report", done.Solved)
	}
}

// A route whose answer would not count is skipped before it asks anything, and the reply says what would count.
func TestARouteThatDoesNotCountAsksNobody(t *testing.T) {
	const doc = "# Ask\n\n## Sure\n\nAre you?\n\n```json\n{\"challenge\":{\"type\":\"user_input\",\"name\":\"sure\",\"approval_mode\":\"user\",%s\"user_input\":{\"prompt\":\"sure?\"}}}\n```\n"
	byPolicy := "\npolicy:\n  - {evidence_from: [client-attested]}\n"
	for name, tc := range map[string]struct {
		says, policy string
		client       driver.Client
		code         string
	}{
		"anybody's answer":              {"", "", driver.Client{}, "WAITING_FOR_USER"},
		"a person's, by link":           {`"evidence_from":"person",`, "", driver.Client{}, "APPROVAL_UNAVAILABLE"},
		"a person's, by policy":         {"", byPolicy, driver.Client{}, "APPROVAL_UNAVAILABLE"},
		"a person's, by an address":     {`"evidence_from":"person",`, "", driver.Client{ElicitationURL: true}, "APPROVAL_UNAVAILABLE"},
		"by policy, by an address":      {"", byPolicy, driver.Client{ElicitationURL: true}, "APPROVAL_UNAVAILABLE"},
		"a person's, in a form":         {`"evidence_from":"person",`, "", driver.Client{ElicitationForm: true}, ""},
		"by policy, in a form":          {"", byPolicy, driver.Client{ElicitationForm: true, ElicitationURL: true}, ""},
		"in a form that nobody trusts":  {`"evidence_from":"person",`, "", driver.Client{ElicitationForm: true, Name: "limited"}, "APPROVAL_UNAVAILABLE"},
		"by policy, a form and a model": {"", byPolicy, driver.Client{Sampling: true}, "APPROVAL_UNAVAILABLE"},
	} {
		t.Run(name, func(t *testing.T) {
			w := withPage(t, nil)
			w.drivers.set("asks yes or no user_input", true)
			if tc.client.Name == "limited" {
				w.drivers.limits.Store("elicitation", limit{strongest: driver.AgentReported})
			}
			var all []driver.Descriptor
			for _, d := range descriptors {
				all = append(all, d)
			}
			tree, err := decision.Compile(decision.Source{Name: "tree.yaml", YAML: []byte(string(decision.Default().YAML) + tc.policy)}, all)
			if err != nil {
				t.Fatal(err)
			}
			w.setups.replace(drivers.Setup{Drivers: w.drivers, Tree: tree})
			w.caller.Client = tc.client
			uri := w.mint(strings.Replace(doc, "%s", tc.says, 1))[0]
			r := w.begin(uri)
			for range 3 {
				round := w.nextRound(uri, placeholder(r))
				if tc.code == "" {
					ask := w.ask(round, "elicitation/create")
					w.code(w.reply(w.answer(ask, `{"action":"accept","content":{"confirmation":"approved"}}`)), "")
					return
				}
				r = w.reply(round)
				w.code(r, tc.code)
				counted := r.RetryCount != nil && *r.RetryCount > 0
				if tc.code == "APPROVAL_UNAVAILABLE" && (r.ApprovalURL != "" || counted || !strings.Contains(r.Message, "counts only if a person answers it") || !strings.Contains(r.Message, "client that shows forms")) {
					t.Errorf("reply = %+v, want what would count, and no link", r)
				}
			}
		})
	}
}
