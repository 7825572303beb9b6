package decision_test

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

var update = flag.Bool("update", false, "write the golden files anew")

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

func explain(t *testing.T, d decision.Decision) string {
	t.Helper()
	var b strings.Builder
	if err := d.Explain(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestExplainPrintsTheWalkWithReasons(t *testing.T) {
	failing := compile(t, head+`challenges:
  - {match: {name: deploy}, evidence: [{via: agent}]}
  - name: guarded
    match: {type: shell}
    when: challenge.params.cmd.startsWith("rm")
    use: shell
    evidence: [{via: agent}]
  - match: {}
    evidence:
      - {via: agent, when: run.input.trusted == true}
      - {via: agent}
`)
	person := decision.Facts{
		Challenge: decision.ChallengeFacts{Type: "user_input"}, Client: asks,
		Config: decision.ConfigFacts{UserInput: bySampling},
	}
	tried := person
	tried.Previous = []decision.PreviousFacts{{Via: "elicitation", Outcome: decision.TimedOut, Route: 2}}
	shell := decision.Facts{Challenge: decision.ChallengeFacts{Type: "shell"}}
	var b strings.Builder
	for _, s := range []struct {
		title string
		d     decision.Decision
	}{
		{"a person is asked", defaultTree(t).Decide(driver.KindEvidence, person)},
		{"the person did not answer", defaultTree(t).Decide(driver.KindEvidence, tried)},
		{"the agent has the answer", defaultTree(t).Decide(driver.KindEvidence, decision.Facts{
			Challenge: shell.Challenge, Solution: decision.SolutionFacts{Supplied: true}})},
		{"nobody can approve", defaultTree(t).Decide(driver.KindApproval, decision.Facts{Client: samples, Approval: decision.ApprovalFacts{How: []string{"form", "page"}}})},
		{"a kind without routes", defaultTree(t).Decide("location", decision.Facts{})},
		{"conditions that fail", failing.Decide(driver.KindEvidence, shell)},
		{"a type nobody handles", defaultTree(t).Decide(driver.KindEvidence, decision.Facts{
			Challenge: decision.ChallengeFacts{Type: "photo"}})},
	} {
		b.WriteString("# " + s.title + "\n" + explain(t, s.d) + "\n")
	}
	golden(t, "explain.txt", b.String())
}

func TestExplainReportsTheWritersError(t *testing.T) {
	full := errors.New("disk full")
	if err := defaultTree(t).Decide(driver.KindEvidence, decision.Facts{}).Explain(failingWriter{full}); !errors.Is(err, full) {
		t.Errorf("Explain = %v, want %v", err, full)
	}
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }

func TestADecisionIsStoredAsJSON(t *testing.T) {
	f := decision.Facts{Challenge: decision.ChallengeFacts{Type: "mcp", HasSampling: true}, Client: samples}
	d := defaultTree(t).Decide(driver.KindEvidence, f)
	text, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "decision.json", string(text)+"\n")
	var back decision.Decision
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(d, back); diff != "" {
		t.Errorf("decision after a round trip (-want +got):\n%s", diff)
	}
}

func schema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(decision.Schema())))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("tree.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("tree.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func validate(t *testing.T, s *jsonschema.Schema, text []byte) error {
	t.Helper()
	asJSON, err := yaml.YAMLToJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(string(asJSON)))
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate(v)
}

func TestTheShippedTreeFitsTheSchema(t *testing.T) {
	if err := validate(t, schema(t), decision.Default().YAML); err != nil {
		t.Error(err)
	}
}

// The schema and Compile agree on trees whose errors need neither drivers nor CEL.
func TestSchemaAndCompileAgree(t *testing.T) {
	s := schema(t)
	for name, text := range map[string]string{
		"smallest":              head + "challenges:\n" + tail,
		"every key of a rule":   head + "challenges:\n  - {name: n, match: {type: mcp, name: a}, when: 'true', use: mcp, evidence: [{via: agent}]}\n" + tail,
		"every key of a route":  withRoutes("{via: agent, when: 'client.roots', retries: 1, timeout: 1m30s, approval: user}", "{via: agent, when: true}"),
		"every outcome":         head + "challenges:\n" + tail + "on: {unavailable: stop, error: next, invalid: {retry: 0, then: stop}, declined: stop, timeout: again, abandoned: {person: again, else: {retry: 2, then: next}}}\n",
		"inputs":                head + "challenges:\n" + tail + "inputs: {approval: [{via: elicitation, timeout: 24h}], files: [{via: agent}]}\n",
		"rules are not here":    head + "challenges:\n" + tail + "rules: []\n",
		"a mode of a rule":      head + "challenges:\n  - {match: {}, approval_mode: user, evidence: [{via: agent}]}\n",
		"unknown key":           head + "challenges:\n" + tail + "else: {}\n",
		"unknown key of rule":   head + "challenges:\n  - {match: {}, else: 1, evidence: [{via: agent}]}\n",
		"unknown key of match":  head + "challenges:\n  - {match: {kind: mcp}, evidence: [{via: agent}]}\n" + tail,
		"unknown key of route":  withRoutes("{via: agent, else: 1}"),
		"approval of an input":  head + "challenges:\n" + tail + "inputs: {files: [{via: agent, approval: user}]}\n",
		"evidence as an input":  head + "challenges:\n" + tail + "inputs: {evidence: [{via: agent}]}\n",
		"no defaults":           "challenges:\n" + tail,
		"no rules":              head,
		"no via":                withRoutes("{retries: 1}"),
		"retries of eleven":     withRoutes("{via: agent, retries: 11}"),
		"timeout as a number":   withRoutes("{via: agent, timeout: 30}"),
		"declined continues":    head + "challenges:\n" + tail + "on: {declined: next}\n",
		"error again":           head + "challenges:\n" + tail + "on: {error: again}\n",
		"retry then again":      head + "challenges:\n" + tail + "on: {invalid: {retry: 1, then: again}}\n",
		"person without else":   head + "challenges:\n" + tail + "on: {timeout: {person: again}}\n",
		"person and retry":      head + "challenges:\n" + tail + "on: {timeout: {person: again, else: next, retry: 1}}\n",
		"mode of nobody":        withRoutes("{via: agent, approval: never}"),
		"condition as a number": withRoutes("{via: agent, when: 1}", "{via: agent}"),
	} {
		t.Run(name, func(t *testing.T) {
			loads := problems(t, text, shipped()) == nil
			if err := validate(t, s, []byte(text)); (err == nil) != loads {
				t.Errorf("schema: %v, Compile: %v", err, problems(t, text, shipped()))
			}
		})
	}
}
