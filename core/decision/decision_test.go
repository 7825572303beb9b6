package decision_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// shipped describes the drivers that the default tree names, and their kin.
func shipped() []driver.Descriptor {
	challenge := func(name string) driver.Descriptor {
		return driver.Descriptor{Name: name, Version: "1.0.0", Role: driver.RoleChallenge, Handles: []string{name}}
	}
	capability := func(name, feature string, handles, needs []string) driver.Descriptor {
		return driver.Descriptor{
			Name: name, Version: "1.0.0", Role: driver.RoleCapability,
			Handles: handles, Features: []string{feature}, Needs: needs,
		}
	}
	return []driver.Descriptor{
		challenge("shell"), challenge("mcp"), challenge("user_input"), challenge("comment"),
		capability("elicitation", driver.FeatureHuman, []string{"evidence", "approval"}, []string{driver.NeedElicitationForm}),
		capability("sampling", driver.FeatureClientReview, []string{"evidence", "approval"}, []string{driver.NeedSampling}),
		capability("agent", driver.FeatureAgent, []string{"evidence", "approval", "files"}, nil),
	}
}

func compile(t testing.TB, yaml string) *decision.Tree {
	t.Helper()
	tree, err := decision.Compile(decision.Source{Name: "tree.yaml", YAML: []byte(yaml)}, shipped())
	if err != nil {
		t.Fatalf("Compile: %v", err)
	}
	return tree
}

func defaultTree(t testing.TB) *decision.Tree {
	t.Helper()
	tree, err := decision.Compile(decision.Default(), shipped())
	if err != nil {
		t.Fatalf("Compile(Default()): %v", err)
	}
	return tree
}

// play tries routes until none is left: each one that the tree chooses ends
// without an answer.
func play(tree *decision.Tree, kind string, f decision.Facts) []string {
	var tried []string
	for range 20 {
		d := tree.Decide(kind, f)
		if d.Route == nil {
			return tried
		}
		tried = append(tried, d.Route.Via)
		f.Previous = append(f.Previous, decision.PreviousFacts{
			Via: d.Route.Via, Outcome: decision.Unavailable, Route: d.Route.Index,
		})
	}
	return append(tried, "without end")
}

var (
	neither  = decision.ClientFacts{}
	asks     = decision.ClientFacts{Elicitation: decision.ElicitationFacts{Form: true}}
	asksURL  = decision.ClientFacts{Elicitation: decision.ElicitationFacts{URL: true}}
	samples  = decision.ClientFacts{Sampling: true}
	everyone = decision.ClientFacts{Elicitation: decision.ElicitationFacts{Form: true, URL: true}, Sampling: true, Roots: true}
)

// The two flags of the configuration: server driver enabled, and which.
var (
	flagsOff      = decision.UserInputFacts{Driver: "elicitation"}
	byElicitation = decision.UserInputFacts{Enabled: true, Driver: "elicitation"}
	bySampling    = decision.UserInputFacts{Enabled: true, Driver: "sampling"}
	byAgent       = decision.UserInputFacts{Enabled: true, Driver: "agent"}
)

func TestFlagsChooseTheRoutesOfAPersonsAnswer(t *testing.T) {
	for name, tc := range map[string]struct {
		flags    decision.UserInputFacts
		client   decision.ClientFacts
		supplied bool
		want     []string
	}{
		"off, client asks":                      {flagsOff, asks, false, []string{"elicitation", "agent"}},
		"off, client samples":                   {flagsOff, samples, false, []string{"agent"}},
		"off, client does both":                 {flagsOff, everyone, false, []string{"elicitation", "agent"}},
		"off, client does neither":              {flagsOff, neither, false, []string{"agent"}},
		"off, client has only url mode":         {flagsOff, asksURL, false, []string{"agent"}},
		"off, agent has an answer":              {flagsOff, everyone, true, []string{"agent", "elicitation", "agent"}},
		"off, agent has one, client nothing":    {flagsOff, neither, true, []string{"agent", "agent"}},
		"off, whatever the driver says":         {decision.UserInputFacts{Driver: "sampling"}, everyone, false, []string{"elicitation", "agent"}},
		"off, agent driver is no more than off": {decision.UserInputFacts{Driver: "agent"}, asks, false, []string{"elicitation", "agent"}},

		"elicitation, client does both":     {byElicitation, everyone, false, []string{"elicitation", "sampling", "agent"}},
		"elicitation, client asks":          {byElicitation, asks, false, []string{"elicitation", "agent"}},
		"elicitation, client samples":       {byElicitation, samples, false, []string{"sampling", "agent"}},
		"elicitation, client does neither":  {byElicitation, neither, false, []string{"agent"}},
		"elicitation, agent has an answer":  {byElicitation, everyone, true, []string{"agent", "elicitation", "sampling", "agent"}},
		"sampling, client does both":        {bySampling, everyone, false, []string{"sampling", "elicitation", "agent"}},
		"sampling, client asks":             {bySampling, asks, false, []string{"elicitation", "agent"}},
		"sampling, client samples":          {bySampling, samples, false, []string{"sampling", "agent"}},
		"sampling, client does neither":     {bySampling, neither, false, []string{"agent"}},
		"sampling, agent has an answer":     {bySampling, everyone, true, []string{"agent", "sampling", "elicitation", "agent"}},
		"agent, client does both":           {byAgent, everyone, false, []string{"agent"}},
		"agent, client does neither":        {byAgent, neither, false, []string{"agent"}},
		"agent, and the agent has answered": {byAgent, everyone, true, []string{"agent", "agent"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := decision.Facts{
				Challenge: decision.ChallengeFacts{Type: "user_input"},
				Client:    tc.client,
				Solution:  decision.SolutionFacts{Supplied: tc.supplied},
				Config:    decision.ConfigFacts{UserInput: tc.flags},
			}
			if diff := cmp.Diff(tc.want, play(defaultTree(t), driver.KindEvidence, f)); diff != "" {
				t.Errorf("routes in order (-want +got):\n%s", diff)
			}
		})
	}
}
