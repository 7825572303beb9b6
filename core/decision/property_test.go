package decision_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

var (
	someTypes    = rapid.SampledFrom([]string{"shell", "mcp", "user_input", "comment", "photo", ""})
	someNames    = rapid.SampledFrom([]string{"a", "b", ""})
	someDrivers  = rapid.SampledFrom([]string{"agent", "sampling", "elicitation"})
	someOutcomes = rapid.SampledFrom([]decision.Outcome{
		decision.Unavailable, decision.Errored, decision.Invalid, decision.TimedOut, decision.Abandoned, decision.Exhausted, "",
	})
	someConditions = rapid.SampledFrom([]string{
		"solution.supplied", "client.sampling", "client.elicitation.form", "challenge.has_sampling", "true",
		"challenge.params.absent == 1", "config.user_input.enabled && config.user_input.driver == \"sampling\"",
		"previous.exists(p, p.outcome == \"invalid\")", "size(run.input) > 1", "\"a\" in solution.params",
		"has(challenge.params.a) && challenge.params.a == \"x\"", "run.input[\"b\"] == \"x\" || solution.params.exists(k, k == \"b\")",
	})
	someParams = rapid.Custom(func(t *rapid.T) map[string]any {
		var m map[string]any
		for _, key := range []string{"a", "b", "secret"} {
			if rapid.Bool().Draw(t, key) {
				if m == nil {
					m = map[string]any{}
				}
				m[key] = rapid.SampledFrom([]any{"x", 1.0, true}).Draw(t, "value")
			}
		}
		return m
	})
	someFacts = rapid.Custom(func(t *rapid.T) decision.Facts {
		flip := func(name string) bool { return rapid.Bool().Draw(t, name) }
		return decision.Facts{
			Challenge: decision.ChallengeFacts{
				Type: someTypes.Draw(t, "type"), Name: someNames.Draw(t, "name"),
				HasSampling: flip("has_sampling"), FilesRequired: flip("files_required"), Params: someParams.Draw(t, "params"),
			},
			Run: decision.RunFacts{Input: someParams.Draw(t, "input")},
			Client: decision.ClientFacts{
				Elicitation: decision.ElicitationFacts{Form: flip("form"), URL: flip("url")},
				Sampling:    flip("sampling"), Roots: flip("roots"),
				Capabilities: someParams.Draw(t, "capabilities"),
			},
			Solution: decision.SolutionFacts{Supplied: flip("supplied"), Params: someParams.Draw(t, "submitted")},
			Previous: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) decision.PreviousFacts {
				return decision.PreviousFacts{
					Via: someDrivers.Draw(t, "via"), Outcome: someOutcomes.Draw(t, "outcome"),
					Route: rapid.IntRange(0, 4).Draw(t, "route"),
				}
			}), 0, 6).Draw(t, "previous"),
			Config: decision.ConfigFacts{
				UserInput: decision.UserInputFacts{Enabled: flip("enabled"), Driver: someDrivers.Draw(t, "driver")},
			},
			Approval: decision.ApprovalFacts{How: rapid.SliceOfDistinct(rapid.SampledFrom([]string{"form", "page", "review", "agent"}), rapid.ID).Draw(t, "how"), Page: flip("page")},
		}
	})
	someKinds = rapid.SampledFrom([]string{driver.KindEvidence, driver.KindApproval, driver.KindFiles, "other"})
)

// generated is a tree together with what its rules demand.
type generated struct {
	text  string
	rules []demand
}

type demand struct{ challengeType, name string }

// someTree draws a tree. Not each one loads: rules may cover each other.
var someTree = rapid.Custom(func(t *rapid.T) generated {
	var b strings.Builder
	var g generated
	b.WriteString(head + "challenges:\n")
	for range rapid.IntRange(0, 4).Draw(t, "rules") {
		d := demand{challengeType: someTypes.Draw(t, "match type"), name: someNames.Draw(t, "match name")}
		var demands []string
		if d.challengeType != "" {
			demands = append(demands, "type: "+d.challengeType)
		}
		if d.name != "" {
			demands = append(demands, "name: "+d.name)
		}
		fmt.Fprintf(&b, "  - match: {%s}\n    evidence:\n", strings.Join(demands, ", "))
		writeRoutes(t, &b)
		g.rules = append(g.rules, d)
	}
	b.WriteString("  - match: {}\n    evidence:\n")
	writeRoutes(t, &b)
	g.rules = append(g.rules, demand{})
	b.WriteString("inputs:\n  approval:\n")
	writeRoutes(t, &b)
	g.text = b.String()
	return g
})

func writeRoutes(t *rapid.T, b *strings.Builder) {
	for range rapid.IntRange(0, 4).Draw(t, "routes") {
		fmt.Fprintf(b, "      - {via: %s, when: '%s'}\n", someDrivers.Draw(t, "via"), someConditions.Draw(t, "when"))
	}
	b.WriteString("      - {via: agent}\n")
}

// loaded draws a tree that loads, or falls back to the shipped one.
func loaded(t *rapid.T) (*decision.Tree, []demand) {
	g := someTree.Draw(t, "tree")
	tree, err := decision.Compile(decision.Source{Name: "tree.yaml", YAML: []byte(g.text)}, shipped())
	if err == nil {
		return tree, g.rules
	}
	if !strings.Contains(err.Error(), "never reached") {
		t.Fatalf("Compile: %v\n%s", err, g.text)
	}
	tree, err = decision.Compile(decision.Default(), shipped())
	if err != nil {
		t.Fatal(err)
	}
	return tree, []demand{{challengeType: "user_input"}, {challengeType: "mcp"}, {challengeType: "shell"}, {}}
}

func TestAChosenRouteWasNotTriedBefore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree, _ := loaded(t)
		f, kind := someFacts.Draw(t, "facts"), someKinds.Draw(t, "kind")
		d := tree.Decide(kind, f)
		if d.Route == nil {
			return
		}
		for _, p := range f.Previous {
			if p.Route == d.Route.Index && p.Via == d.Route.Via && p.Outcome != "" {
				t.Errorf("route %d via %s was tried before: %s", p.Route, p.Via, p.Outcome)
			}
		}
	})
}

func TestTheFirstRuleThatMatchesWins(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree, rules := loaded(t)
		f := someFacts.Draw(t, "facts")
		want := -1
		for i, r := range rules {
			if (r.challengeType == "" || r.challengeType == f.Challenge.Type) && (r.name == "" || r.name == f.Challenge.Name) {
				want = i
				break
			}
		}
		d := tree.Decide(driver.KindEvidence, f)
		if prefix := fmt.Sprintf("challenges[%d]", want); !strings.HasPrefix(d.Rule, prefix) {
			t.Errorf("Rule = %q, want %s", d.Rule, prefix)
		}
	})
}

func TestTheFirstOpenRouteWins(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree, _ := loaded(t)
		f := someFacts.Draw(t, "facts")
		d := tree.Decide(driver.KindEvidence, f)
		for i, n := range d.Trace {
			last := i == len(d.Trace)-1
			switch {
			case n.Reason == "":
				t.Errorf("node %s has no reason", n.Path)
			case n.Via != "" && n.Chosen && !last:
				t.Errorf("the walk continues after the chosen route %s", n.Path)
			case n.Chosen && (n.Value == "false" || n.Value == "error"):
				t.Errorf("%s was chosen though its condition is %s", n.Path, n.Value)
			case n.Error != "" && n.Value != "error":
				t.Errorf("%s has an error and the value %q", n.Path, n.Value)
			}
		}
		if d.Route != nil && !d.Trace[len(d.Trace)-1].Chosen {
			t.Error("there is a route, but the walk ends without a choice")
		}
	})
}

func TestARouteNeedsWhatItsDriverNeeds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree, _ := loaded(t)
		f, kind := someFacts.Draw(t, "facts"), someKinds.Draw(t, "kind")
		d := tree.Decide(kind, f)
		if d.Route == nil {
			return
		}
		approves := kind == driver.KindApproval
		switch d.Route.Via {
		case "elicitation":
			if !f.Client.Elicitation.Form && !f.Client.Elicitation.URL {
				t.Error("elicitation from a client that has none")
			}
		case "sampling":
			if !f.Client.Sampling || approves && !slices.Contains(f.Approval.How, driver.ByReview) {
				t.Error("sampling from a client that has none, or as an approval where no review counts")
			}
		case "agent":
			if approves && !slices.Contains(f.Approval.How, driver.ByAgent) {
				t.Error("an agent approves where its word does not count")
			}
		}
	})
}

func TestEvidenceIsNeverLeftWithoutARoute(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree, _ := loaded(t)
		f := someFacts.Draw(t, "facts")
		f.Previous = nil
		if d := tree.Decide(driver.KindEvidence, f); d.Route == nil {
			t.Errorf("no route for %+v: %+v", f, d.Trace)
		}
	})
}

func TestTheSameFactsGiveTheSameDecision(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree, _ := loaded(t)
		f, kind := someFacts.Draw(t, "facts"), someKinds.Draw(t, "kind")
		first := tree.Decide(kind, f)
		if diff := cmp.Diff(first, tree.Decide(kind, f)); diff != "" {
			t.Errorf("second decision differs:\n%s", diff)
		}
		if first.Route != nil {
			first.Route.Via = "changed by the caller"
			if again := tree.Decide(kind, f); again.Route.Via == first.Route.Via {
				t.Error("a caller can change the tree through a decision")
			}
		}
	})
}

func TestManyDecideAtOnce(t *testing.T) {
	tree := defaultTree(t)
	facts := []decision.Facts{
		{Challenge: decision.ChallengeFacts{Type: "shell"}, Client: samples},
		{Challenge: decision.ChallengeFacts{Type: "user_input"}, Client: everyone},
	}
	want := []decision.Decision{tree.Decide(driver.KindEvidence, facts[0]), tree.Decide(driver.KindEvidence, facts[1])}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 100 {
				if diff := cmp.Diff(want[i%2], tree.Decide(driver.KindEvidence, facts[i%2])); diff != "" {
					t.Errorf("a decision differs beside others:\n%s", diff)
					return
				}
			}
		})
	}
	wg.Wait()
}

func FuzzCompileNeverPanics(f *testing.F) {
	f.Add(string(decision.Default().YAML))
	f.Add(withCondition("client.sampling && ("))
	f.Add(withCondition("previous.map(p, p.via).exists(v, v == \"\\u0000\")"))
	f.Add(head + "challenges: &a\n  - *a\n  - <<: {}\n  - ? [x]\n  - !!binary x\n  - |\n   a\n---\n{}")
	f.Add("{[{[")
	f.Add("on: {timeout: {person: ~, else: {retry: 0x10, then: .inf}}}\ndefaults: ''")
	f.Fuzz(func(t *testing.T, text string) {
		tree, err := decision.Compile(decision.Source{Name: "f.yaml", YAML: []byte(text)}, shipped())
		if err != nil {
			if err.Error() == "" {
				t.Error("an error without a text")
			}
			return
		}
		// A tree that loads decides every case: its last rule and route serve all clients.
		if d := tree.Decide(driver.KindEvidence, decision.Facts{}); d.Route == nil {
			t.Errorf("a tree that loads leaves evidence without a route: %+v", d)
		}
		tree.Decide(driver.KindApproval, decision.Facts{Client: everyone})
	})
}
