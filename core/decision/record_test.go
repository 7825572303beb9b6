package decision_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// recorded is what is kept of facts, read again.
func recorded(t interface{ Fatal(...any) }, tree *decision.Tree, kind string, f decision.Facts) decision.Record {
	raw, err := tree.Record(kind, f)
	if err != nil {
		t.Fatal(err)
	}
	r, err := decision.ReadRecord(raw)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRecordedFactsLeadTheSameTreeTheSameWay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree, _ := loaded(t)
		f, kind := someFacts.Draw(t, "facts"), someKinds.Draw(t, "kind")
		then, r := tree.Decide(kind, f), recorded(t, tree, kind, f)
		if diff := cmp.Diff(then, tree.Decide(r.Kind, r.Facts)); diff != "" {
			t.Errorf("decided again (-then +now):\n%s", diff)
		}
	})
}

func TestARecordKeepsOnlyTheValuesThatConditionsLookAt(t *testing.T) {
	f := decision.Facts{
		Challenge: decision.ChallengeFacts{Type: "shell", Params: map[string]any{"cmd": "make", "token": "hidden"}},
		Solution:  decision.SolutionFacts{Supplied: true, Params: map[string]any{"cmd": "hidden", "exit_code": 0.0}},
		Run:       decision.RunFacts{Input: map[string]any{"password": "hidden"}},
	}
	tree := compile(t, withCondition(`challenge.params.cmd == "make" && "exit_code" in solution.params`))
	raw, err := tree.Record(driver.KindEvidence, f)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(raw), "hidden") {
		t.Errorf("the record holds values that no condition looks at: %s", raw)
	}
	r := recorded(t, tree, driver.KindEvidence, f)
	want := map[string][]string{"challenge.params": {"token"}, "solution.params": {"cmd"}, "run.input": {"password"}}
	if diff := cmp.Diff(want, r.LeftOut); diff != "" {
		t.Errorf("left out (-want +got):\n%s", diff)
	}
	if got := r.Challenge.Params["cmd"]; got != "make" {
		t.Errorf("challenge.params.cmd = %v, want what the condition looked at", got)
	}
}

func TestARecordIsBounded(t *testing.T) {
	tree := compile(t, withCondition("size(challenge.params) > 1"))
	f := decision.Facts{Challenge: decision.ChallengeFacts{Type: "shell", Params: map[string]any{"a": strings.Repeat("x", 1<<20), "b": 1.0}}}
	r := recorded(t, tree, driver.KindEvidence, f)
	if diff := cmp.Diff([]string{"a", "b"}, r.LeftOut["challenge.params"]); diff != "" {
		t.Errorf("left out of facts that are too large (-want +got):\n%s", diff)
	}
	f.Client.Name = strings.Repeat("x", 1<<20)
	if raw, err := tree.Record(driver.KindEvidence, f); raw != nil || err != nil {
		t.Errorf("Record = %d bytes, %v, want nothing: no value can be left out", len(raw), err)
	}
}

func TestLookedAtShowsTheValuesOfACondition(t *testing.T) {
	f := decision.Facts{
		Client:    decision.ClientFacts{Elicitation: decision.ElicitationFacts{Form: true}},
		Challenge: decision.ChallengeFacts{Params: map[string]any{"cmd": "make"}},
		Previous:  []decision.PreviousFacts{{Via: "sampling", Outcome: decision.Invalid}},
	}
	for condition, want := range map[string]string{
		"client.elicitation.form && !client.sampling":                        "client.elicitation.form=true client.sampling=false",
		`challenge.params.cmd == "make" && challenge.params["x"] == 1`:       `challenge.params.cmd="make"`,
		`challenge.params.cmd.startsWith("m") || run.input.absent == 1`:      `challenge.params.cmd="make"`,
		`previous.exists(p, p.outcome == "invalid")`:                         `previous=[{"via":"sampling","outcome":"invalid"}]`,
		`config.user_input.driver == "x" && config.user_input.driver == "y"`: `config.user_input.driver=""`,
		"true":            "",
		"no.such == fact": "",
	} {
		var got []string
		for _, l := range decision.LookedAt(condition, f) {
			got = append(got, l.Path+"="+string(l.Value))
		}
		if diff := cmp.Diff(want, strings.Join(got, " ")); diff != "" {
			t.Errorf("LookedAt(%s) (-want +got):\n%s", condition, diff)
		}
	}
}
