package plan_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/director/plan"
	"github.com/kairos-mcp/kairos/core/director/solution"
	approvals "github.com/kairos-mcp/kairos/core/drivers"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// catalog describes drivers by name; strongest limits what they vouch for.
type catalog struct {
	drivers   map[string]driver.Descriptor
	strongest map[string]driver.Provenance
	noPerson  map[string]bool
}

func (c catalog) Describe(name string) (driver.Descriptor, string, bool) {
	d, ok := c.drivers[name]
	return d, "sum of " + name, ok
}

func (catalog) Isolation(string) string { return "" }

func (c catalog) Limits(name string) (driver.Provenance, bool) {
	return c.strongest[name], !c.noPerson[name]
}

// drivers are a challenge driver, and capability drivers for a person, a model, the agent
// and acting.
func drivers() catalog {
	challenge := func(name string, d driver.Descriptor) driver.Descriptor {
		d.Name, d.Version, d.Role, d.Handles = name, "1.0.0", driver.RoleChallenge, []string{name}
		return d
	}
	capability := func(name string, handles []string, d driver.Descriptor) driver.Descriptor {
		d.Name, d.Version, d.Role, d.Handles = name, "1.0.0", driver.RoleCapability, handles
		return d
	}
	all := []driver.Descriptor{
		challenge("shell", driver.Descriptor{Effect: driver.EffectPure, StateVersions: []int{1}}),
		challenge("user_input", driver.Descriptor{Effect: driver.EffectPure, Approval: driver.ApprovalUser}),
		capability("form", []string{"evidence", "approval", "run_input", "acceptance"}, driver.Descriptor{Features: []string{driver.FeatureHuman}, Needs: []string{driver.NeedElicitation}, AnswersBy: []string{driver.ByForm}}),
		capability("page", []string{"approval"}, driver.Descriptor{Features: []string{driver.FeatureHuman}, Needs: []string{driver.NeedApprovalPage}, AnswersBy: []string{driver.ByPage}}),
		capability("model", []string{"evidence", "approval", "judge"}, driver.Descriptor{Features: []string{driver.FeatureModel}}),
		capability("acts", []string{"evidence"}, driver.Descriptor{Effect: driver.EffectChanges, Features: []string{driver.FeaturePreview, driver.FeatureCancel, driver.FeatureRecover}}),
		capability("agent", []string{"evidence", "approval", "files"}, driver.Descriptor{Features: []string{driver.FeatureAgent}, AnswersBy: []string{driver.ByAgent}}),
	}
	c := catalog{drivers: map[string]driver.Descriptor{}, strongest: map[string]driver.Provenance{}, noPerson: map[string]bool{}}
	for _, d := range all {
		c.drivers[d.Name] = d
	}
	return c
}

const treeText = `
defaults: {missing_type: shell, no_challenge_type: shell}
challenges:
  - {match: {type: shell}, evidence: [{via: form, when: 'client.elicitation.form'}, {via: agent}]}
  - {match: {type: user_input}, evidence: [{via: form}, {via: agent}]}
  - {match: {}, evidence: [{via: agent}]}
inputs:
  approval: [{via: form}, {via: agent}]
  run_input: [{via: form}]
  acceptance: [{via: form}]
`

var allWays = append(approvals.DefaultHow(), driver.ByAgent)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// state is of a run of two steps, at the first, that demands what its challenge says and
// whose client shows forms.
func state(t *testing.T, edit ...func(*plan.State)) *plan.State {
	t.Helper()
	c := drivers()
	var all []driver.Descriptor
	for _, d := range c.drivers {
		all = append(all, d)
	}
	tree, err := decision.Compile(decision.Source{Name: "tree.yaml", YAML: []byte(treeText)}, all)
	if err != nil {
		t.Fatal(err)
	}
	text := "```json\n{\"challenge\":{\"type\":\"shell\",\"shell\":{\"cmd\":\"make\"}}}\n```\n"
	chains, found := protocol.Parse([]byte("# Ship\n\n## Build\n\nCompile it.\n\n" + text + "\n## Tell\n\nSay so.\n\n" + text))
	if len(chains) != 1 {
		t.Fatalf("Parse = %v, %v", chains, found)
	}
	chain := chains[0]
	chain.Steps[0].UUID, chain.Steps[1].UUID = "00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002"
	s := &plan.State{
		Run: &run.Run{
			ID: "run-1", Revision: 1, State: run.Open, StepCount: 2, UpdatedAt: now.Add(-time.Minute), Clock: time.Time{},
			Step: run.Step{Index: 1, Nonce: "nonce"},
		},
		Chain: &chain, Drivers: c, Tree: tree, Now: now, Started: now, Target: 1, Opened: 1,
		Options: plan.Options{ApprovalTTL: time.Hour}, How: allWays,
		Caller: access.Caller{Client: driver.Client{ElicitationForm: true}},
	}
	s.Task = &input.Task{
		Step: chain.Steps[0], Challenge: chain.Steps[0].Challenge, Common: protocol.Common{Type: "shell"}, Use: "shell",
		Where: driver.Step{Index: 1, Count: 2, Label: "Build"}, Approval: approvals.Approval{How: allWays},
	}
	for _, e := range edit {
		e(s)
	}
	return s
}

// evidence is the input that the step's driver asks for.
var evidence = driver.Input{ID: "evidence", Kind: "evidence", Type: "shell", Display: json.RawMessage(`{"cmd":"make"}`)}

func needsEvidence(s *plan.State) { s.Run.Step.Inputs = []driver.Input{evidence} }

func submitted(raw string) func(*plan.State) {
	return func(s *plan.State) {
		parsed, err := solution.Parse(json.RawMessage(raw))
		if err != nil {
			panic(err)
		}
		s.Solution = parsed
	}
}

var report = submitted(`{"type":"shell","nonce":"nonce","shell":{"exit_code":0}}`)

// gated: an approval stands in front of the evidence.
func gated(s *plan.State) {
	s.Task.Approval.Mode, s.Run.Step.Gated, s.Run.Step.Digest = driver.ApprovalUser, true, digest
}

func detached(s *plan.State) { s.Caller.Detached = true }

func declined(input, by string) func(*plan.State) {
	return func(s *plan.State) {
		s.Run.Step.Declines = map[string]string{input: by}
		s.Run.Step.LastDecline = &run.Decline{Via: by, At: now}
	}
}

// kind names what an action is, and the first event or driver that it is about.
func kind(a plan.Action) string {
	switch a := a.(type) {
	case nil:
		return "nothing"
	case plan.Apply:
		if len(a.Events) == 0 && a.Then != nil {
			return kind(a.Then)
		}
		said := "apply"
		for _, ev := range a.Events {
			said += " " + string(ev.Kind)
			if ev.Attempt != nil {
				said += " " + ev.Attempt.Via
			}
		}
		return said
	case plan.Reply:
		return "reply"
	case plan.Wait:
		return "wait"
	case plan.Halt:
		return "halt " + string(a.Fault.Code)
	case plan.Show:
		return "show"
	case plan.Need:
		return []string{"need the task", "need the offer"}[a.Lookup]
	case plan.Obtain:
		return "obtain " + a.Input.Kind
	case plan.Recall:
		return "ask again"
	case plan.Render:
		return "render " + a.Route.Via
	case plan.Read:
		return "read " + a.Route.Via
	case plan.Preview:
		return "preview " + a.Route.Via
	case plan.Judge:
		return "judge"
	case plan.Remember:
		return kind(a.Then)
	case plan.Accept:
		return "accept"
	case plan.Ask:
		return "ask"
	}
	return "?"
}

// digest is of the evidence.
const digest = "0123456789abcdef0123456789abcdef"
