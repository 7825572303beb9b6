package decision_test

import (
	"fmt"
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
		if d, differ := decision.Compare(tree, tree, r); differ || len(d.Doubts) > 0 {
			t.Errorf("Compare(tree, tree) = %+v, want no difference and no doubt", d)
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

// made is a decision of the tree on the facts, and whether its route answered.
func made(t *testing.T, tree *decision.Tree, kind string, f decision.Facts, answered bool) decision.Past {
	t.Helper()
	r := recorded(t, tree, kind, f)
	return decision.Past{Decision: tree.Decide(kind, f), Record: &r, Answered: answered}
}

func TestCoverageCountsWhatWasLookedAtChosenAndAnswered(t *testing.T) {
	tree := compile(t, head+`challenges:
  - name: person
    match: {type: user_input}
    evidence:
      - {via: elicitation, when: client.elicitation.form}
      - {via: agent}
  - match: {}
    evidence: [{via: agent}]
inputs:
  approval: [{via: elicitation}]
`)
	person := decision.Facts{Challenge: decision.ChallengeFacts{Type: "user_input"}, Client: decision.ClientFacts{Elicitation: decision.ElicitationFacts{Form: true}}}
	nobody := decision.Facts{Challenge: decision.ChallengeFacts{Type: "user_input"}}
	other := made(t, compile(t, withCondition("client.sampling")), driver.KindEvidence, nobody, true)
	got := tree.Coverage([]decision.Past{
		made(t, tree, driver.KindEvidence, person, true),
		made(t, tree, driver.KindEvidence, person, false),
		made(t, tree, driver.KindEvidence, nobody, true),
		other,
		{Decision: tree.Decide(driver.KindEvidence, person), Answered: true}, // a run of an older version
	})
	if got.Decisions != 4 || got.Replayed != 1 || got.Unknown != 1 {
		t.Errorf("decisions, replayed, unknown = %d, %d, %d, want 4, 1, 1", got.Decisions, got.Replayed, got.Unknown)
	}
	var lines, never []string
	for _, n := range got.Nodes {
		lines = append(lines, fmt.Sprintf("%s %s: %d %d %d", n.Path, n.Via, n.Looked, n.Chosen, n.Answered))
	}
	want := []string{
		"challenges[0] : 4 4 0",
		"challenges[0].evidence[0] elicitation: 4 2 1",
		"challenges[0].evidence[1] agent: 2 2 2",
		"challenges[1] : 0 0 0",
		"challenges[1].evidence[0] agent: 0 0 0",
		"inputs.approval : 0 0 0",
		"inputs.approval[0] elicitation: 0 0 0",
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("coverage (-want +got):\n%s", diff)
	}
	for _, n := range got.Never() {
		never = append(never, n.Path)
	}
	if diff := cmp.Diff([]string{"challenges[1]", "challenges[1].evidence[0]", "inputs.approval", "inputs.approval[0]"}, never); diff != "" {
		t.Errorf("never chosen (-want +got):\n%s", diff)
	}
}

func TestCompareTellsWhoWouldGoAnotherWayAndWhy(t *testing.T) {
	before := compile(t, withRoutes("{via: sampling, when: client.sampling}", "{via: elicitation}", "{via: agent}"))
	full := decision.Facts{
		Challenge: decision.ChallengeFacts{Type: "shell"},
		Client:    decision.ClientFacts{Sampling: true, Elicitation: decision.ElicitationFacts{Form: true}},
	}
	after := func(r ...string) *decision.Tree { return compile(t, withRoutes(r...)) }
	failed := full
	failed.Previous = []decision.PreviousFacts{{Via: "sampling", Outcome: decision.Invalid, Route: 0}}
	for name, tc := range map[string]struct {
		after *decision.Tree
		facts decision.Facts
		want  string
	}{
		"same way by other words": {after("{via: sampling, when: client.sampling || client.roots}", "{via: elicitation}", "{via: agent}"), full, ""},
		"a condition fails": {
			after("{via: sampling, when: client.roots}", "{via: elicitation}", "{via: agent}"), full,
			"sampling -> elicitation: the new tree skips challenges[0].evidence[0] via sampling, line 5: the condition does not hold: client.roots; " +
				"the old tree has sampling open before any route via elicitation",
		},
		"another order": {
			after("{via: elicitation}", "{via: sampling, when: client.sampling}", "{via: agent}"), full,
			"sampling -> elicitation: the new tree has elicitation open before any route via sampling; the old tree has sampling open before any route via elicitation",
		},
		"more approval": {after("{via: sampling, when: client.sampling, approval: user}", "{via: elicitation}", "{via: agent}"), full, "sampling -> sampling: the approval mode is unset in the old tree and user in the new tree"},
		// The route that failed stands elsewhere now, and is not tried again.
		"what was tried is found at its new place": {
			after("{via: agent, when: solution.supplied}", "{via: sampling, when: client.sampling}", "{via: elicitation}", "{via: agent}"), failed, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, differ := decision.Compare(before, tc.after, recorded(t, before, driver.KindEvidence, tc.facts))
			got := ""
			if differ {
				got = d.Old.Via + " -> " + d.New.Via + ": " + strings.Join(d.Why, "; ")
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("difference (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCompareDoubtsWhatWasNotKept(t *testing.T) {
	before := compile(t, withRoutes("{via: agent}"))
	after := compile(t, withRoutes(`{via: sampling, when: has(solution.params.cmd) && solution.params.cmd == "x"}`, "{via: agent}"))
	f := decision.Facts{
		Challenge: decision.ChallengeFacts{Type: "shell"}, Client: decision.ClientFacts{Sampling: true},
		Solution: decision.SolutionFacts{Params: map[string]any{"cmd": "x"}},
	}
	r := recorded(t, before, driver.KindEvidence, f)
	d, _ := decision.Compare(before, after, r)
	if diff := cmp.Diff([]string{"solution.params.cmd"}, d.Doubts); diff != "" {
		t.Errorf("doubts (-want +got):\n%s", diff)
	}
	r.Complete("solution.params", f.Solution.Params)
	if d, differ := decision.Compare(before, after, r); !differ || len(d.Doubts) > 0 {
		t.Errorf("with all facts Compare = %+v, %v, want a difference without doubts", d, differ)
	}
}

// A record that left nothing out is stored without the map of what it left out.
func TestAnyRecordReadBackIsCompleted(t *testing.T) {
	tree := compile(t, withRoutes("{via: agent}"))
	for name, f := range map[string]decision.Facts{
		"no free-form facts": {Challenge: decision.ChallengeFacts{Type: "shell"}},
		"free-form facts": {
			Challenge: decision.ChallengeFacts{Type: "shell", Params: map[string]any{"cmd": "true"}},
			Run:       decision.RunFacts{Input: map[string]any{"folder": "x"}},
			Solution:  decision.SolutionFacts{Params: map[string]any{"cmd": "x"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := recorded(t, tree, driver.KindEvidence, f)
			for range 2 { // the second time nothing is left out any more
				r.Complete("challenge.params", f.Challenge.Params)
				r.Complete("run.input", f.Run.Input)
				r.Complete("solution.params", f.Solution.Params)
			}
			if len(r.LeftOut) > 0 {
				t.Errorf("after Complete with everything, left out = %v, want nothing", r.LeftOut)
			}
			if diff := cmp.Diff(f.Challenge.Params, r.Challenge.Params); diff != "" {
				t.Errorf("challenge.params (-want +got):\n%s", diff)
			}
		})
	}
}
