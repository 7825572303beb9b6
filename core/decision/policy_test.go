package decision_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// withPolicy is a tree with these entries of policy, from line 4 on.
func withPolicy(entries ...string) string {
	return head + "challenges: [{match: {}, evidence: [{via: agent}]}]\npolicy:\n  - " + strings.Join(entries, "\n  - ") + "\n"
}

func TestAPolicyIsCheckedWhenTheTreeIsRead(t *testing.T) {
	for name, tc := range map[string]struct{ entry, want string }{
		"unknown key":        {`{evidence_form: person}`, `t.yaml:4: policy[0]: unknown key "evidence_form" in an entry of policy, did you mean "evidence_from"?`},
		"demands nothing":    {`{name: idle, when: 'true'}`, `t.yaml:4: policy[0] (idle): it demands nothing: give evidence_from`},
		"unknown word":       {`{evidence_from: persn}`, `t.yaml:4: policy[0]: evidence_from must be anyone, person or server, or a list of agent-reported, model-generated, link-holder, client-attested, server-observed, not "persn"`},
		"unknown provenance": {`{evidence_from: [server]}`, `t.yaml:4: policy[0]: evidence_from: "server" is not a provenance; they are agent-reported,`},
		"an empty list":      {`{evidence_from: []}`, `t.yaml:4: policy[0]: evidence_from is an empty list, so nothing would count`},
		"bad CEL":            {`{when: 'challenge.tpye == "shell"', evidence_from: server}`, `t.yaml:4: policy[0]: when: undefined field 'tpye', did you mean "type"?`},
		"what is submitted":  {`{when: 'solution.supplied', evidence_from: server}`, `t.yaml:4: policy[0]: when: a policy cannot read solution, which the caller chooses; it can read challenge, step, protocol, run and config`},
		"the client":         {`{when: 'client.name == "ide"', evidence_from: server}`, `a policy cannot read client`},
	} {
		t.Run(name, func(t *testing.T) {
			got := problems(t, withPolicy(tc.entry), shipped())
			if len(got) != 1 || !strings.Contains(got[0], tc.want) {
				t.Errorf("problems = %q, want %q", got, tc.want)
			}
		})
	}
}

func TestEntriesOfAPolicyIntersect(t *testing.T) {
	tree := compile(t, withPolicy(
		`{name: shells are seen, when: 'challenge.type == "shell"', evidence_from: person}`,
		`{when: 'protocol.space == "ops"', evidence_from: [server-observed, agent-reported]}`,
		`{when: 'challenge.params.cmd == "x"', evidence_from: [agent-reported]}`,
	))
	shell := func(space, cmd string) decision.Facts {
		return decision.Facts{
			Challenge: decision.ChallengeFacts{Type: "shell", Params: map[string]any{"cmd": cmd}},
			Protocol:  decision.ProtocolFacts{Space: space},
		}
	}
	for name, tc := range map[string]struct {
		facts decision.Facts
		want  decision.Demand
	}{
		"one applies": {shell("other", "y"), decision.Demand{
			Provenances: []driver.Provenance{driver.ClientAttested, driver.ServerObserved},
			By:          []string{"policy[0] (shells are seen), line 4"},
		}},
		"two apply": {shell("ops", "y"), decision.Demand{
			Provenances: []driver.Provenance{driver.ServerObserved},
			By:          []string{"policy[0] (shells are seen), line 4", "policy[1], line 5"},
		}},
		"all contradict each other": {shell("ops", "x"), decision.Demand{
			Provenances: []driver.Provenance{},
			By:          []string{"policy[0] (shells are seen), line 4", "policy[1], line 5", "policy[2], line 6"},
		}},
		"a condition that fails applies": {decision.Facts{Challenge: decision.ChallengeFacts{Type: "mcp"}}, decision.Demand{
			Provenances: []driver.Provenance{driver.AgentReported}, By: []string{"policy[2], line 6"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tree.Demand(tc.facts)); diff != "" {
				t.Error(diff)
			}
			d := tree.Decide(driver.KindEvidence, tc.facts)
			if diff := cmp.Diff(tc.want, d.Demand); diff != "" {
				t.Errorf("Decide: %s", diff)
			}
			if tc.want.Impossible() != (name == "all contradict each other") {
				t.Errorf("Impossible() = %v", tc.want.Impossible())
			}
		})
	}
	var told strings.Builder
	if err := tree.Decide(driver.KindEvidence, shell("other", "y")).Explain(&told); err != nil {
		t.Fatal(err)
	}
	if want := "+ policy[0] (shells are seen), line 4: the condition holds; only client-attested, server-observed counts"; !strings.Contains(told.String(), want) {
		t.Errorf("Explain wrote\n%s\nwant %s", told.String(), want)
	}
}

func TestOfATextOnlyWhatIsKnownIsDemanded(t *testing.T) {
	tree := compile(t, withPolicy(
		`{when: '!has(run.input.a)', evidence_from: server}`, `{when: '!step.accepted', evidence_from: server}`,
		`{when: 'protocol.space != "dev"', evidence_from: server}`, `{when: 'step.name == "act"', evidence_from: person}`,
	))
	facts := decision.Facts{Step: decision.StepFacts{Name: "act"}}
	if got := tree.DemandOfText(facts).By; len(got) != 1 || !strings.Contains(got[0], "policy[3]") {
		t.Errorf("without a space: %q, want the entry about the step", got)
	}
	facts.Protocol.Space = "ops"
	if got := tree.DemandOfText(facts).By; len(got) != 2 {
		t.Errorf("with a space: %q, want the entries about the space and the step", got)
	}
	if got := tree.Demand(facts).By; len(got) != 4 {
		t.Errorf("in a run: %q, want all", got)
	}
}

var someDemands = rapid.Custom(func(t *rapid.T) string {
	from := rapid.SampledFrom([]string{"anyone", "person", "server", "[agent-reported]", "[link-holder, client-attested]", "[model-generated, server-observed]"}).Draw(t, "from")
	when := rapid.SampledFrom([]string{"true", "false", `challenge.type == "shell"`, `challenge.params.a == "x"`, `step.name == "a" || has(run.input.b)`}).Draw(t, "when")
	return fmt.Sprintf("{when: '%s', evidence_from: %s}", when, from)
})

func TestPolicyNeverWidensWhatCounts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entries := rapid.SliceOfN(someDemands, 1, 5).Draw(t, "entries")
		compiled := func(entries []string) *decision.Tree {
			tree, err := decision.Compile(decision.Source{Name: "t.yaml", YAML: []byte(withPolicy(entries...))}, shipped())
			if err != nil {
				t.Fatal(err)
			}
			return tree
		}
		facts := someFacts.Draw(t, "facts")
		own := rapid.SampledFrom([][]driver.Provenance{nil, {driver.ServerObserved}, {driver.ClientAttested, driver.ServerObserved}}).Draw(t, "of the challenge")
		fewer := compiled(entries[:len(entries)-1+boolInt(len(entries) == 1)]).Demand(facts).Narrowed(own)
		all := compiled(entries).Demand(facts).Narrowed(own)
		turned := slices.Clone(entries)
		slices.Reverse(turned)
		reversed := compiled(turned).Demand(facts).Narrowed(own)
		for _, p := range driver.Provenances() {
			counts := all.Counts(p)
			if counts && own != nil && !slices.Contains(own, p) {
				t.Errorf("%s counts although the challenge does not take it", p)
			}
			if counts && !fewer.Counts(p) {
				t.Errorf("%s counts only with one entry more", p)
			}
			if counts != reversed.Counts(p) {
				t.Errorf("%s depends on the order of the entries", p)
			}
		}
	})
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
