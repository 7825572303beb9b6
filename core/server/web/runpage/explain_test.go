package runpage_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/archive"
	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/server/web/runpage"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// shippedTree is the default tree with drivers that have the shipped names.
func shippedTree(t testing.TB) *decision.Tree {
	t.Helper()
	var all []driver.Descriptor
	for _, name := range []string{"shell", "mcp", "user_input", "comment"} {
		all = append(all, driver.Descriptor{Name: name, Role: driver.RoleChallenge, Handles: []string{name}})
	}
	kinds := []string{driver.KindEvidence, driver.KindApproval, driver.KindFiles, driver.KindRunInput, driver.KindAcceptance, "judge"}
	for name, d := range map[string]driver.Descriptor{
		"agent":       {Features: []string{driver.FeatureAgent}, AnswersBy: []string{driver.ByAgent}},
		"elicitation": {Features: []string{driver.FeatureHuman}, Needs: []string{driver.NeedElicitationForm}, AnswersBy: []string{driver.ByForm, driver.ByPage}},
		"page":        {Features: []string{driver.FeatureHuman, driver.FeaturePartial}, AnswersBy: []string{driver.ByPage}},
		"roots":       {Features: []string{driver.FeaturePartial}},
		"sampling":    {Features: []string{driver.FeatureClientReview}, Needs: []string{driver.NeedSampling}, AnswersBy: []string{driver.ByReview}},
	} {
		d.Name, d.Role, d.Handles = name, driver.RoleCapability, kinds
		all = append(all, d)
	}
	tree, err := decision.Compile(decision.Default(), all)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// story puts a run together, as the engine tells it.
type story struct {
	t    testing.TB
	tree *decision.Tree
	run  runpage.Run
	now  time.Time
}

func newStory(t testing.TB, title string, steps int) *story {
	s := &story{t: t, tree: shippedTree(t), now: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)}
	s.run.Tree = s.tree.Outline()
	s.run.Timeline.Run = run.Summary{
		ID: "01a1fcdc-c44f-78f1-b508-a6e8e5cc1fc2", Title: title, State: run.Open, StepIndex: 1, StepCount: steps, CreatedAt: s.now,
	}
	s.run.Timeline.Problem = fmt.Sprintf("step %d is not solved", steps)
	return s
}

func (s *story) at(step int, label string, m archive.Moment) *archive.Moment {
	s.now = s.now.Add(1340 * time.Millisecond)
	m.At, m.Step, m.Label = s.now, step, label
	s.run.Timeline.Moments = append(s.run.Timeline.Moments, m)
	return &s.run.Timeline.Moments[len(s.run.Timeline.Moments)-1]
}

// decided is a decision of the tree and what came of it.
func (s *story) decided(step int, kind string, f decision.Facts, p decision.Past) {
	s.t.Helper()
	raw, err := s.tree.Record(kind, f)
	if err != nil {
		s.t.Fatal(err)
	}
	r, err := decision.ReadRecord(raw)
	if err != nil {
		s.t.Fatal(err)
	}
	p.Record, p.Decision = &r, s.tree.Decide(kind, f)
	s.run.Decisions = append(s.run.Decisions, archive.Decided{Step: step, Input: kind, At: s.now, Past: p})
}

// accepted ends a step.
func (s *story) accepted(step int, label, judge, via string, p driver.Provenance) {
	s.at(step, label, archive.Moment{
		What: "accepted", Via: via, Driver: judge + " 0.1.0", Provenance: p, Verdict: "accepted",
		ProofHash: strings.Repeat(fmt.Sprint(step), 64), Took: 12 * time.Millisecond,
	})
	s.run.Timeline.Run.StepIndex = step + 1
}

// threeRoutes is a run whose steps a model, a person and the agent answered.
func threeRoutes(t testing.TB) runpage.Run {
	s := newStory(t, "Release the calendar service", 4)
	client := decision.ClientFacts{
		Name: "Claude Code", Era: "2026-07-28", Transport: "http", Sampling: true, Elicitation: decision.ElicitationFacts{Form: true},
	}
	model := decision.Facts{
		Challenge: decision.ChallengeFacts{Type: "shell", Name: "tests", Required: true, HasSampling: true},
		Step:      decision.StepFacts{Index: 1, Count: 4}, Run: decision.RunFacts{Attempt: 1}, Client: client,
	}
	s.at(1, "Run the tests", archive.Moment{What: "asked", Via: "sampling", Question: "Run make test and return only JSON: {\"exit_code\": 0}"})
	s.decided(1, driver.KindEvidence, model, decision.Past{Answered: true, Took: 1340 * time.Millisecond})
	s.at(1, "Run the tests", archive.Moment{What: "answered", Via: "sampling", Provenance: driver.ModelGenerated, Took: 1340 * time.Millisecond,
		Answer: json.RawMessage(`{"exit_code":0,"stdout":"ok  \tcalendar\t2.341s"}`)})
	s.accepted(1, "Run the tests", "shell", "sampling", driver.ModelGenerated)

	approval := decision.Facts{
		Challenge: decision.ChallengeFacts{Type: "user_input", Name: "go", Required: true},
		Step:      decision.StepFacts{Index: 2, Count: 4}, Run: decision.RunFacts{Attempt: 1}, Client: client,
	}
	s.at(2, "Ask the owner", archive.Moment{What: "asked", Via: "elicitation", Question: "Ship version 2.4 to production?"})
	s.decided(2, driver.KindEvidence, approval, decision.Past{Answered: true, Took: 3*time.Minute + 12*time.Second})
	s.now = s.now.Add(3 * time.Minute)
	s.at(2, "Ask the owner", archive.Moment{What: "answered", Via: "elicitation", Provenance: driver.ClientAttested, Took: 3*time.Minute + 12*time.Second,
		Answer: json.RawMessage(`{"confirmation":"approved"}`)})
	s.accepted(2, "Ask the owner", "user_input", "elicitation", driver.ClientAttested)

	work := model
	work.Challenge = decision.ChallengeFacts{Type: "mcp", Name: "deploy", Required: true, HasSampling: true}
	work.Step.Index = 3
	s.at(3, "Deploy", archive.Moment{What: "asked", Via: "elicitation", Question: "Approve step 3 of 4, \"Deploy\"?"})
	s.decided(3, driver.KindApproval, work, decision.Past{Answered: true, Took: 21 * time.Second})
	s.at(3, "Deploy", archive.Moment{What: "approved", Via: "elicitation", Provenance: driver.ClientAttested, Took: 21 * time.Second})
	s.at(3, "Deploy", archive.Moment{What: "asked", Via: "sampling", Question: "Call deploy with {\"version\": \"2.4\"}"})
	s.decided(3, driver.KindEvidence, work, decision.Past{Outcome: decision.Invalid, Took: 840 * time.Millisecond})
	s.at(3, "Deploy", archive.Moment{What: "route_closed", Via: "sampling", Verdict: "invalid: the reply is prose, not JSON", Took: 840 * time.Millisecond})
	work.Previous = []decision.PreviousFacts{{Via: "sampling", Outcome: decision.Invalid, Route: 1}}
	work.Solution = decision.SolutionFacts{}
	s.decided(3, driver.KindEvidence, work, decision.Past{Answered: true, Took: 400 * time.Microsecond})
	s.at(3, "Deploy", archive.Moment{What: "supplied", Via: "agent", Provenance: driver.AgentReported, Took: 400 * time.Microsecond,
		Answer: json.RawMessage(`{"tool_name":"deploy","result":{"deployed":true,"url":"https://calendar.example/releases/2.4"}}`)})
	s.accepted(3, "Deploy", "mcp", "agent", driver.AgentReported)
	return s.run
}
