package plan_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/director/plan"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

func TestWhatFollowsFromAVerdict(t *testing.T) {
	answered := func(p driver.Provenance, via string) func(*plan.State) {
		return func(s *plan.State) {
			s.Run.Step.Answers = []driver.Answer{{InputID: "evidence", Via: via, Provenance: p, Value: json.RawMessage(`{}`)}}
		}
	}
	byAgent := answered(driver.AgentReported, "agent")
	accepted := driver.AdvanceResult{Accepted: &driver.Accepted{Proof: json.RawMessage(`{"ok":true}`)}}
	output := func(schema string) func(*plan.State) {
		return func(s *plan.State) { s.Task.Common.OutputSchema = json.RawMessage(schema) }
	}
	for name, tc := range map[string]struct {
		res   driver.AdvanceResult
		state edits
		want  string
	}{
		"accepted":                       {accepted, edits{byAgent}, "accept"},
		"accepted, for a judge":          {accepted, edits{byAgent, judgedBy}, "apply withheld"},
		"accepted without evidence":      {accepted, nil, "halt DRIVER_UNAVAILABLE"},
		"a proof that is not JSON":       {driver.AdvanceResult{Accepted: &driver.Accepted{Proof: json.RawMessage(`{`)}}, edits{byAgent}, "halt DRIVER_UNAVAILABLE"},
		"evidence that does not count":   {accepted, edits{byAgent, only(driver.ClientAttested)}, "apply rejected"},
		"a result of another form":       {accepted, edits{byAgent, output(`{"type":"object","required":["id"]}`)}, "apply rejected"},
		"an observation by a pure judge": {driver.AdvanceResult{Accepted: &driver.Accepted{Proof: json.RawMessage(`{}`), Observed: true}}, edits{byAgent}, "halt DRIVER_UNAVAILABLE"},
		"rejected":                       {driver.AdvanceResult{Rejected: &driver.Rejected{Message: "no"}}, edits{byAgent}, "apply rejected"},
		"declined":                       {driver.AdvanceResult{Declined: &driver.Declined{Reason: "no"}}, edits{byAgent}, "apply declined refused"},
		"declined by nobody":             {driver.AdvanceResult{Declined: &driver.Declined{Reason: "no"}}, nil, "halt DRIVER_UNAVAILABLE"},
		"unavailable":                    {driver.AdvanceResult{Unavailable: &driver.Unavailable{Reason: "busy"}}, edits{byAgent}, "halt DRIVER_UNAVAILABLE"},
		"nothing":                        {driver.AdvanceResult{}, edits{byAgent}, "halt DRIVER_UNAVAILABLE"},
	} {
		s := state(t, tc.state...)
		if got := kind(plan.Verdict(s, s.Task, tc.res)); got != tc.want {
			t.Errorf("%s: Verdict = %s, want %s", name, got, tc.want)
		}
	}
}

func TestAnApprovalStandsInFrontOfWhatComesFromOutside(t *testing.T) {
	wants := func(in ...driver.Input) driver.AdvanceResult { return driver.AdvanceResult{NeedInput: in} }
	similarity := driver.Input{ID: "similar", Kind: driver.KindSimilarity}
	user := func(s *plan.State) { s.Task.Approval.Mode = driver.ApprovalUser }
	for name, tc := range map[string]struct {
		res        driver.AdvanceResult
		state      edits
		remembered map[string]bool
		gated      bool
	}{
		"mode auto":                      {wants(evidence), nil, nil, false},
		"mode user":                      {wants(evidence), edits{user}, nil, true},
		"a person declined the same":     {wants(evidence), nil, map[string]bool{"evidence": true}, true},
		"a person's own answer, typed":   {wants(ownAnswer(`{"type":"object","properties":{"text":{"type":"string"}}}`)), edits{needsEvidence, person, func(s *plan.State) { s.Task.Approval.Phrase = "go" }}, nil, true},
		"a person's own answer, by page": {wants(ownAnswer(`{"type":"object","properties":{"text":{"type":"string"}}}`)), edits{needsEvidence, person, func(s *plan.State) { s.Task.Approval.Narrowed = true }}, nil, true},
		"what the server answers itself": {wants(similarity), edits{user}, nil, false},
		"a person's own answer":          {wants(ownAnswer(`{"type":"object","properties":{"text":{"type":"string"}}}`)), edits{needsEvidence, person}, nil, false},
	} {
		s := state(t, tc.state...)
		a, err := plan.Needed(s, s.Task, tc.res, tc.remembered)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if a.Events[0].Gated != tc.gated {
			t.Errorf("%s: gated = %v, want %v", name, a.Events[0].Gated, tc.gated)
		}
	}
	s := state(t)
	if _, err := plan.Needed(s, s.Task, wants(evidence, evidence), nil); err == nil {
		t.Error("a driver may ask twice for the same input")
	}
	if _, err := plan.Needed(s, s.Task, wants(driver.Input{ID: "approval", Kind: driver.KindApproval}), nil); err == nil {
		t.Error("a driver may ask for an approval itself")
	}
}

func TestAnswersThatAreNotTaken(t *testing.T) {
	ok := driver.Answer{Value: json.RawMessage(`{"text":"hi"}`), Provenance: driver.ClientAttested}
	for name, tc := range map[string]struct {
		via    string
		answer driver.Answer
		state  edits
		want   string
	}{
		"a person's":                    {"form", ok, nil, "apply supplied"},
		"not JSON":                      {"form", driver.Answer{Value: json.RawMessage(`{`), Provenance: driver.ClientAttested}, nil, "apply route_closed form"},
		"an observation of a form":      {"form", driver.Answer{Value: ok.Value, Provenance: driver.ServerObserved}, nil, "apply route_closed form"},
		"a person's word by a model":    {"model", ok, nil, "apply route_closed model"},
		"for a person, against a limit": {"form", ok, edits{needsEvidence, person, func(s *plan.State) { s.Drivers = noPersons() }}, "apply route_closed form"},
	} {
		s := state(t, append(edits{needsEvidence}, tc.state...)...)
		if got := kind(plan.Supplied(s, plan.Read{Task: s.Task, Input: s.Run.Step.Inputs[0], Route: decision.Route{Via: tc.via}}, "", tc.answer)); got != tc.want {
			t.Errorf("%s: Supplied = %s, want %s", name, got, tc.want)
		}
	}
}

func TestADriverIsAskedAgainWithinBounds(t *testing.T) {
	for wish, want := range map[float64]time.Duration{0: 5 * time.Second, 0.001: 100 * time.Millisecond, 2.5: 2500 * time.Millisecond, 1e12: time.Hour} {
		if got := plan.RetryAfter(driver.Pending{RetryAfter: wish}); got != want {
			t.Errorf("RetryAfter(%g) = %s, want %s", wish, got, want)
		}
	}
	s := state(t)
	for name, tc := range map[string]struct {
		at   time.Time
		want time.Duration
	}{
		"due": {now, 0}, "overdue": {now.Add(-time.Minute), 0}, "later": {now.Add(time.Minute), time.Minute}, "the clock was set back": {now.Add(24 * time.Hour), 0},
	} {
		if got := plan.RetryIn(s, run.Call{RetryAt: tc.at}); got != tc.want {
			t.Errorf("%s: RetryIn = %s, want %s", name, got, tc.want)
		}
	}
}

func TestDriversThatBreakTheContractAreFound(t *testing.T) {
	pending, unknown, notDone := plan.Deferral{Pending: &driver.Pending{}}, plan.Deferral{Unknown: &driver.Unknown{}}, plan.Deferral{NotDone: &driver.NotDone{}}
	for name, tc := range map[string]struct {
		via        string
		said       plan.Deferral
		recovering bool
		breaks     bool
	}{
		"an outcome":                       {"shell", plan.Deferral{}, false, false},
		"a pure driver is pending":         {"shell", pending, false, true},
		"a driver with effects is pending": {"acts", pending, false, false},
		"a pure driver does not know":      {"shell", unknown, false, true},
		"a driver with effects does not":   {"acts", unknown, false, false},
		"not done, when it was asked":      {"acts", notDone, true, false},
		"not done, when it was not asked":  {"acts", notDone, false, true},
	} {
		if err := plan.Breach(state(t), run.Call{Driver: tc.via}, tc.recovering, tc.said); (err != nil) != tc.breaks {
			t.Errorf("%s: Breach = %v", name, err)
		}
	}
}

func ownAnswer(schema string) driver.Input {
	return driver.Input{ID: "evidence", Kind: "evidence", Type: "user_input", Person: true, Schema: json.RawMessage(schema)}
}
