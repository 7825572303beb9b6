package plan_test

import (
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/acceptances"
	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/declines"
	"github.com/kairos-mcp/kairos/core/director/plan"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/rules"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

func person(s *plan.State) { // the step asks for a person's own answer
	s.Task.Use, s.Task.Approval.Stated, s.Task.Approval.Mode = "user_input", true, driver.ApprovalUser
	s.Run.Step.Inputs[0].Person = true
}

func only(p ...driver.Provenance) func(*plan.State) {
	return func(s *plan.State) { s.Task.Demand = rules.Demand{Evidence: p} }
}

func allowed(e driver.Effect) func(*plan.State) {
	return func(s *plan.State) {
		s.Acceptances = []acceptances.Acceptance{{ID: "g", Step: 1, Driver: "acts", Effect: e}}
	}
}

func planned(s *plan.State) { s.Run.Step.Plan = &run.Plan{Driver: "acts", Data: []byte(`{}`)} }

func TestWhatSpeaksAgainstARoute(t *testing.T) {
	anotherStep := func(s *plan.State) { s.Target = 0 }
	for name, tc := range map[string]struct {
		via   string
		state edits
		want  string
		why   string // in the first event or fault
	}{
		"nothing, by the client":    {"form", nil, "render form", ""},
		"nothing, by the agent":     {"agent", nil, "read agent", ""},
		"it is not configured":      {"gone", nil, "apply route_closed gone", "not configured"},
		"its evidence cannot count": {"agent", edits{only(driver.ClientAttested)}, "apply route_closed agent", "does not count"},
		"it may not speak for a person": {
			"form", edits{func(s *plan.State) { s.Drivers = noPersons(); s.Run.Step.Inputs[0].Person = true }},
			"apply route_closed form", "does not let it answer for a person",
		},
		"nobody accepted that it acts":      {"acts", nil, "apply route_closed acts", "nobody accepted that it does this step"},
		"its plan is not known":             {"acts", edits{allowed(driver.EffectReads)}, "preview acts", ""},
		"its plan is known":                 {"acts", edits{allowed(driver.EffectReads), planned}, "render acts", ""},
		"work for a step that is done":      {"acts", edits{allowed(driver.EffectReads), planned, report}, "apply claimed", ""},
		"no preview for a step not reached": {"acts", edits{allowed(driver.EffectReads), anotherStep}, "reply", ""},
		"a person declined by another way":  {"agent", edits{declined("evidence", "form")}, "halt USER_DECLINED", "only the person can take that back"},
		"a report after a decline":          {"agent", edits{declined("evidence", "form"), report}, "apply refused", "only the person can take that back"},
		"the same person is asked again":    {"form", edits{declined("evidence", "form")}, "render form", ""},
		"a person's answer by report":       {"agent", edits{person, report}, "apply refused", "only a person's own answer"},
		"a person's answer by the agent":    {"agent", edits{person}, "apply route_closed agent", "only a person's own answer"},
		"a review that saw another way": {
			"agent", edits{func(s *plan.State) { s.Run.Step.Approval = &run.Approval{Via: "model", ClientReview: true} }},
			"apply route_closed model", "comes through agent",
		},
		"nobody waits":               {"form", edits{detached}, "reply", ""},
		"a type that is not open":    {"form", edits{submitted(`{"type":"mcp","nonce":"nonce","mcp":{"a":1}}`)}, "apply refused", "of type"},
		"a person was asked enough":  {"form", edits{declined("evidence", "form"), func(s *plan.State) { s.Run.Step.DeclineCount = 3 }}, "halt USER_DECLINED", "often enough"},
		"the question is being held": {"form", edits{asked(run.Question{Seq: 7, Human: true}), holding}, "ask", ""},
		"a model never answered":     {"form", edits{asked(run.Question{Seq: 7, Asked: 2})}, "apply route_closed form", "never answered"},
		"a person closed it often":   {"form", edits{asked(run.Question{Seq: 7, Human: true, Asked: 1, Dismissed: 3, Closed: now})}, "wait", ""},
		"a question goes out again":  {"form", edits{asked(run.Question{Seq: 7, Human: true, Asked: 1})}, "render form", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := state(t, append(edits{needsEvidence}, tc.state...)...)
			a := plan.Through(s, s.Task, s.Run.Step.Inputs[0], decision.Route{Via: tc.via})
			if got := kind(a); got != tc.want {
				t.Errorf("Through = %s, want %s", got, tc.want)
			}
			if got := reason(a); !strings.Contains(got, tc.why) {
				t.Errorf("because %q, want %q", got, tc.why)
			}
		})
	}
}

func TestWhatSpeaksAgainstARouteToAnApproval(t *testing.T) {
	elsewhere := func(s *plan.State) {
		s.Decline = &declines.Decline{Run: "run-0", At: now, Label: "Build", Title: "Ship"}
	}
	for name, tc := range map[string]struct {
		via   string
		state edits
		want  string
		why   string
	}{
		"a person":                             {"form", nil, "render form", ""},
		"the agent's report":                   {"agent", nil, "read agent", ""},
		"work before the approval":             {"form", edits{report}, "apply submitted_before_approval", ""},
		"the same work again":                  {"form", edits{report, func(s *plan.State) { s.Run.Step.Early = &run.Early{Digest: s.Solution.Payload} }}, "render form", ""},
		"the agent, after a person's decline":  {"agent", edits{elsewhere}, "apply route_closed agent", "only a person can approve what a person declined"},
		"a person, after a person's decline":   {"form", edits{elsewhere}, "render form", ""},
		"another way than that of the decline": {"page", edits{declined("approval", "form")}, "apply route_closed page", "declined through form"},
		"work after the decline":               {"form", edits{declined("approval", "form"), report, func(s *plan.State) { s.Run.Step.Early = &run.Early{Digest: s.Solution.Payload} }}, "apply refused", "only the person can take that back"},
	} {
		t.Run(name, func(t *testing.T) {
			s := state(t, append(edits{needsEvidence, gated}, tc.state...)...)
			a := plan.Through(s, s.Task, plan.DueInput(s, s.Task), decision.Route{Via: tc.via})
			if got := kind(a); got != tc.want {
				t.Errorf("Through = %s, want %s", got, tc.want)
			}
			if got := reason(a); !strings.Contains(got, tc.why) {
				t.Errorf("because %q, want %q", got, tc.why)
			}
		})
	}
}

func TestWhereNoRouteIsLeft(t *testing.T) {
	budget := func(s *plan.State) {
		s.Run.Step.Tried = []run.Attempt{{Input: "evidence", Via: "model", Outcome: string(decision.Exhausted), At: now}}
	}
	for name, tc := range map[string]struct {
		state edits
		want  string
	}{
		"nothing says why":        {nil, "halt DRIVER_UNAVAILABLE"},
		"a budget is used up":     {edits{budget}, "halt SAMPLING_BUDGET_EXCEEDED"},
		"only a person counts":    {edits{only(driver.ClientAttested)}, "halt APPROVAL_UNAVAILABLE"},
		"only the server counts":  {edits{only(driver.ServerObserved)}, "halt OBSERVATION_UNAVAILABLE"},
		"a person's own answer":   {edits{person}, "halt APPROVAL_UNAVAILABLE"},
		"a person declined":       {edits{declined("evidence", "form")}, "halt USER_DECLINED"},
		"declined, and submitted": {edits{declined("evidence", "form"), report}, "apply refused"},
	} {
		s := state(t, append(edits{needsEvidence}, tc.state...)...)
		if got := kind(plan.NoRoute(s, s.Task, s.Run.Step.Inputs[0])); got != tc.want {
			t.Errorf("%s: NoRoute = %s, want %s", name, got, tc.want)
		}
	}
}

func noPersons() catalog {
	c := drivers()
	c.noPerson["form"] = true
	return c
}

func asked(q run.Question) func(*plan.State) {
	return func(s *plan.State) {
		q.Input, q.Via = evidence, "form"
		s.Run.Step.Question = &q
	}
}

func holding(s *plan.State) {
	s.Caller = access.Caller{Client: s.Caller.Client, Holding: func(run.ID, int64) bool { return true }}
}

// reason is why the action is taken.
func reason(a plan.Action) string {
	switch a := a.(type) {
	case plan.Apply:
		if len(a.Events) > 0 {
			return a.Events[0].Reason
		}
	case plan.Halt:
		return a.Fault.Message
	}
	return ""
}

func judgedBy(s *plan.State) { s.Task.Common.Judge = &protocol.Judge{} }
