package decision_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/yamldoc"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

const (
	head = "defaults: {missing_type: shell, no_challenge_type: comment}\n" // line 1
	tail = "  - {match: {}, evidence: [{via: agent}]}\n"
)

// withRoutes is a tree whose only rule has these routes, from line 5 on.
func withRoutes(routes ...string) string {
	return head + "challenges:\n  - match: {}\n    evidence:\n      - " + strings.Join(routes, "\n      - ") + "\n"
}

func withCondition(when string) string {
	return withRoutes("{via: sampling, when: '"+when+"'}", "{via: agent}")
}

func problems(t *testing.T, yaml string, drivers []driver.Descriptor) []string {
	t.Helper()
	tree, err := decision.Compile(decision.Source{Name: "t.yaml", YAML: []byte(yaml)}, drivers)
	if err == nil {
		return nil
	}
	if tree != nil {
		t.Error("Compile returned a tree beside its error")
	}
	var load *yamldoc.LoadError
	if !errors.As(err, &load) {
		t.Fatalf("Compile: %T %v, want a *LoadError", err, err)
	}
	if len(load.Problems) == 0 {
		t.Fatal("a LoadError without problems")
	}
	return strings.Split(err.Error(), "\n")
}

func TestCompileNamesFileLineAndRule(t *testing.T) {
	for name, tc := range map[string]struct {
		yaml string
		want []string // one a problem, in order
	}{
		"nothing":            {"", []string{"t.yaml:1: the tree is empty"}},
		"only a comment":     {"# hm\n", []string{"t.yaml:1: the tree is empty"}},
		"bad YAML":           {head + "challenges: [}\n", []string{"t.yaml:2: bad YAML: "}},
		"duplicate key":      {head + "on: {}\non: {}\n", []string{"t.yaml:3: bad YAML: "}},
		"second document":    {withRoutes("{via: agent}") + "---\na: b\n", []string{"t.yaml:7: the tree is one YAML document"}},
		"a list":             {"- a\n", []string{"t.yaml:1: the tree must be a mapping, this is a list"}},
		"too large":          {strings.Repeat("#", 1<<17), []string{"t.yaml:1: the tree has 131072 bytes"}},
		"unknown key":        {head + "chalenges: []\nchallenges:\n" + tail, []string{`t.yaml:2: unknown key "chalenges" in the tree, did you mean "challenges"?`}},
		"unknown rule key":   {head + "challenges:\n  - {match: {}, usee: shell, evidence: [{via: agent}]}\n", []string{`t.yaml:3: challenges[0]: unknown key "usee" in a rule, did you mean "use"?`}},
		"unknown match key":  {head + "challenges:\n  - {match: {typ: mcp}, evidence: [{via: agent}]}\n" + tail, []string{`t.yaml:3: challenges[0]: unknown key "typ" in match, did you mean "type"?`}},
		"unknown route key":  {withRoutes("{via: agent, tiemout: 5s}"), []string{`t.yaml:5: challenges[0].evidence[0]: unknown key "tiemout" in a route, did you mean "timeout"?`}},
		"far from any key":   {withRoutes("{via: agent, xyzzyplugh: 5s}"), []string{`unknown key "xyzzyplugh" in a route; known are via, when`}},
		"anchor":             {head + "challenges: &a\n" + tail, []string{"t.yaml:2: challenges: challenges must be a list, this is an anchor"}},
		"number as key":      {head + "challenges:\n" + tail + "inputs: {5: [{via: agent}]}\n", []string{"t.yaml:4: inputs: a key of inputs must be plain text, this is a number"}},
		"no defaults":        {"challenges:\n" + tail, []string{"t.yaml:1: defaults: missing_type and no_challenge_type are not set"}},
		"half the defaults":  {"defaults: {missing_type: shell}\nchallenges:\n" + tail, []string{"t.yaml:1: defaults: no_challenge_type is not set"}},
		"default of no type": {"defaults: {missing_type: 'A b', no_challenge_type: comment}\nchallenges:\n" + tail, []string{`t.yaml:1: defaults: missing_type: "A b" is not a challenge type`}},
		"no rules":           {head, []string{"t.yaml:1: challenges: the tree has no rules"}},
		"an empty list":      {head + "challenges: []\n", []string{"t.yaml:2: challenges: there must be a rule that matches every challenge"}},

		"unknown use": {head + "challenges:\n  - {name: mine, match: {}, use: shel, evidence: [{via: agent}]}\n", []string{`t.yaml:3: challenges[0] (mine): use: no driver "shel" is configured, did you mean "shell"?`}},
		"use of a wrong role": {head + "challenges:\n  - {match: {}, use: agent, evidence: [{via: agent}]}\n", []string{
			`t.yaml:3: challenges[0]: use: driver "agent" has role capability, a challenge driver is needed`}},
		"use of another type": {head + "challenges:\n  - {match: {type: mcp}, use: shell, evidence: [{via: agent}]}\n" + tail, []string{
			`t.yaml:3: challenges[0]: use: driver "shell" does not handle type "mcp", it handles shell`}},
		"unknown via": {withRoutes("{via: agnet}", "{via: agent}"), []string{`t.yaml:5: challenges[0].evidence[0]: via: no driver "agnet" is configured, did you mean "agent"?`}},
		"via of a wrong role": {withRoutes("{via: shell}"), []string{
			`t.yaml:5: challenges[0].evidence[0]: via: driver "shell" has role challenge, a capability driver is needed`}},
		"unknown last via": {withRoutes("{via: agent, when: client.roots}", "{via: agnet}"), []string{"t.yaml:6: challenges[0].evidence[1]: via: no driver"}},
		"all at once": {head + "challenges:\n  - {match: {typ: mcp}, when: clinet, evidence: [{via: agnet, retries: 99}]}\n" + tail + "on: {errr: next}\n", []string{
			"t.yaml:3: challenges[0]: unknown key", "t.yaml:3: challenges[0]: when:",
			"t.yaml:3: challenges[0].evidence[0]: via:", "t.yaml:3: challenges[0].evidence[0]: retries", "t.yaml:5: on: unknown key"}},
		"no via":         {withRoutes("{when: 'true'}"), []string{"t.yaml:5: challenges[0].evidence[0]: via is missing"}},
		"no match":       {head + "challenges:\n  - {evidence: [{via: agent}]}\n", []string{"t.yaml:3: challenges[0]: match is missing; {} matches every challenge"}},
		"no evidence":    {head + "challenges:\n  - {match: {}}\n", []string{"t.yaml:3: challenges[0]: evidence is missing"}},
		"empty evidence": {head + "challenges:\n  - {match: {}, evidence: []}\n", []string{"t.yaml:3: challenges[0].evidence: there is no route"}},
		"rule is text":   {head + "challenges:\n  - hello\n", []string{"t.yaml:3: challenges[0]: a rule must be a mapping, this is text"}},
		"bad approval":   {withRoutes("{via: agent, approval: always}"), []string{`t.yaml:5: challenges[0].evidence[0]: approval must be auto or user, not "always"`}},

		"no catch-all":             {head + "challenges:\n  - {match: {type: mcp}, evidence: [{via: agent}]}\n", []string{"t.yaml:3: challenges[0]: the last rule must match every challenge"}},
		"conditional catch-all":    {head + "challenges:\n  - {match: {}, when: 'client.roots', evidence: [{via: agent}]}\n", []string{"t.yaml:3: challenges[0]: the last rule must match every challenge"}},
		"rule behind the last":     {head + "challenges:\n" + tail + tail, []string{"t.yaml:4: challenges[1]: never reached: challenges[0] (line 3) matches all of it first"}},
		"rule behind a wider one":  {head + "challenges:\n  - {name: wide, match: {type: mcp}, evidence: [{via: agent}]}\n  - {match: {type: mcp, name: a}, evidence: [{via: agent}]}\n" + tail, []string{"t.yaml:4: challenges[1]: never reached: challenges[0] (wide) (line 3)"}},
		"route behind the last":    {withRoutes("{via: agent}", "{via: agent}"), []string{"t.yaml:6: challenges[0].evidence[1]: never reached: challenges[0].evidence[0] (line 5) has no condition"}},
		"route behind true":        {withRoutes("{via: agent, when: 'true'}", "{via: agent}"), []string{"t.yaml:6: challenges[0].evidence[1]: never reached"}},
		"last route conditional":   {withRoutes("{via: agent, when: 'solution.supplied'}"), []string{"t.yaml:5: challenges[0]: challenges[0].evidence[0]: the last route of evidence must have no condition"}},
		"a lone form":              {head + "challenges:\n  - {match: {type: user_input}, evidence: [{via: elicitation}]}\n" + tail, []string{`driver "elicitation" needs elicitation; to take only a person's answer, end the list with {via: agent} and add {type: user_input, evidence: person} to rules in kairos.yaml`}},
		"last route with a demand": {withRoutes("{via: agent, when: 'solution.supplied'}", "{via: sampling}"), []string{`t.yaml:6: challenges[0]: challenges[0].evidence[1]: the last route of evidence must serve any client, but driver "sampling" needs sampling`}},

		"retries below zero":  {withRoutes("{via: agent, retries: -1}"), []string{"t.yaml:5: challenges[0].evidence[0]: retries must be a whole number from 0 to 10, not -1"}},
		"retries too many":    {withRoutes("{via: agent, retries: 11}"), []string{"retries must be a whole number from 0 to 10, not 11"}},
		"retries as text":     {withRoutes("{via: agent, retries: many}"), []string{`retries must be a whole number from 0 to 10, not "many"`}},
		"timeout of no unit":  {withRoutes("{via: agent, timeout: 5}"), []string{`t.yaml:5: challenges[0].evidence[0]: timeout must be a duration like "30s"`}},
		"timeout of zero":     {withRoutes("{via: agent, timeout: 0s}"), []string{`above 0 and at most 168h0m0s, not "0s"`}},
		"timeout of a year":   {withRoutes("{via: agent, timeout: 8760h}"), []string{`at most 168h0m0s, not "8760h"`}},
		"timeout of nonsense": {withRoutes("{via: agent, timeout: soon}"), []string{`not "soon"`}},

		"syntax of a condition":   {withCondition("client.sampling &&"), []string{"t.yaml:5: challenges[0].evidence[0]: when: Syntax error:"}},
		"type error":              {withCondition("step.index == \"a\""), []string{"t.yaml:5: challenges[0].evidence[0]: when: found no matching overload for '_==_'"}},
		"misspelt fact":           {withCondition("client.samplign"), []string{"t.yaml:5: challenges[0].evidence[0]: when: undefined field 'samplign', did you mean \"sampling\"? (at character 7 of `client.samplign`)"}},
		"misspelt variable":       {withCondition("clinet.sampling"), []string{"when: undeclared reference to 'clinet' (did you mean 'client'?)"}},
		"misspelt fact in a list": {withCondition("previous.exists(p, p.vai == \"x\")"), []string{"when: undefined field 'vai', did you mean \"via\"?"}},
		"misspelt nested fact":    {withCondition("config.user_input.enable"), []string{"when: undefined field 'enable', did you mean \"enabled\"?"}},
		"Go name of a fact":       {withCondition("client.Sampling"), []string{"when: undefined field 'Sampling'"}},
		"condition of a number":   {withCondition("step.index"), []string{"when: a condition must be true or false, this is of type int"}},
		"condition of anything":   {withCondition("run.input.x"), []string{"when: a condition must be true or false, this may be anything: add == true"}},
		"condition as a mapping":  {withRoutes("{via: sampling, when: {a: b}}", "{via: agent}"), []string{"t.yaml:5: challenges[0].evidence[0]: when must be a condition in quotes, this is a mapping"}},
		"condition is false":      {withRoutes("{via: sampling, when: false}", "{via: agent}"), []string{"when must be a condition in quotes, this is true or false"}},
		"condition is empty":      {withCondition(""), []string{"when: "}},
		"too costly":              {withCondition("previous.all(a, previous.all(b, previous.all(c, a.via == b.via + c.via)))"), []string{"t.yaml:5: challenges[0].evidence[0]: when: the condition may cost "}},
		"too long":                {withCondition(strings.Repeat("client.roots && ", 300) + "true"), []string{"t.yaml:5: challenges[0].evidence[0]: when: expression code point size exceeds limit"}},
		"too deep":                {withCondition(strings.Repeat("(", 300) + "true" + strings.Repeat(")", 300)), []string{"t.yaml:5: challenges[0].evidence[0]: when: "}},
		"condition of a rule":     {head + "challenges:\n  - {match: {}, when: 'nope', evidence: [{via: agent}]}\n" + tail, []string{"t.yaml:3: challenges[0]: when: undeclared reference to 'nope'"}},
		"condition as a block": {withRoutes("via: sampling\n        when: |\n          client.sampling &&\n          client.rots", "{via: agent}"), []string{
			"t.yaml:8: challenges[0].evidence[0]: when: undefined field 'rots', did you mean \"roots\"?"}},

		"evidence under inputs":   {head + "challenges:\n" + tail + "inputs: {evidence: [{via: agent}]}\n", []string{"t.yaml:4: inputs.evidence: write routes for evidence in the rules"}},
		"similarity under inputs": {head + "challenges:\n" + tail + "inputs: {similarity: [{via: agent}]}\n", []string{"t.yaml:4: inputs.similarity: the server answers similarity itself"}},
		"kind the driver cannot":  {head + "challenges:\n" + tail + "inputs:\n  files: [{via: sampling}]\n", []string{`t.yaml:5: inputs.files[0]: via: driver "sampling" does not obtain files, it handles evidence, approval`}},
		"approval by a machine":   {head + "challenges:\n" + tail + "inputs:\n  approval: [{via: robot}]\n", []string{`t.yaml:5: inputs.approval[0]: via: driver "robot" cannot answer an approval: it names no way in which it does (answers_by)`}},
		"mode of an approval":     {head + "challenges:\n" + tail + "inputs:\n  approval: [{via: agent, approval: user}]\n", []string{`t.yaml:5: inputs.approval[0]: unknown key "approval" in a route`}},

		"call timeout of a day":                {withRoutes("{via: agent, call_timeout: 24h}"), []string{`t.yaml:5: challenges[0].evidence[0]: call_timeout must be a duration like "30s" or "5m", above 0 and at most 1h0m0s, not "24h"`}},
		"unknown outcome of a route":           {withRoutes("{via: agent, on: {tiemout: next}}"), []string{`challenges[0].evidence[0].on: unknown key "tiemout"`}},
		"a decline that continues at a route":  {withRoutes("{via: agent, on: {declined: next}}"), []string{`challenges[0].evidence[0].on.declined: "next" cannot follow the outcome declined, allowed is stop`}},
		"reactions of no driver":               {head + "challenges:\n" + tail + "drivers: {agnet: {on: {error: stop}}}\n", []string{`t.yaml:4: drivers.agnet: on: no driver "agnet" is configured, did you mean "agent"?`}},
		"reactions of a judge":                 {head + "challenges:\n" + tail + "drivers: {shell: {on: {error: stop}}}\n", []string{`t.yaml:4: drivers.shell: on: driver "shell" has role challenge, a capability driver is needed`}},
		"unknown key of a driver":              {head + "challenges:\n" + tail + "drivers: {agent: {no: {error: stop}}}\n", []string{`t.yaml:4: drivers.agent: unknown key "no" in drivers.agent`}},
		"a decline that continues at a driver": {head + "challenges:\n" + tail + "drivers: {agent: {on: {declined: next}}}\n", []string{`drivers.agent.on.declined: "next" cannot follow`}},

		"unknown outcome":          {head + "challenges:\n" + tail + "on: {tiemout: next}\n", []string{`t.yaml:4: on: unknown key "tiemout" in on, did you mean "timeout"?`}},
		"unknown action":           {head + "challenges:\n" + tail + "on: {error: explode}\n", []string{`t.yaml:4: on.error: "explode" cannot follow the outcome error, allowed is next, stop, retry`}},
		"a decline that continues": {head + "challenges:\n" + tail + "on: {declined: next}\n", []string{`t.yaml:4: on.declined: "next" cannot follow the outcome declined, allowed is stop`}},
		"a decline that retries":   {head + "challenges:\n" + tail + "on: {declined: {retry: 1, then: stop}}\n", []string{`t.yaml:4: on.declined: "retry" cannot follow the outcome declined`}},
		"again without an end":     {head + "challenges:\n" + tail + "on: {error: again}\n", []string{`t.yaml:4: on.error: "again" cannot follow the outcome error`}},
		"retry without number":     {head + "challenges:\n" + tail + "on: {invalid: retry}\n", []string{"t.yaml:4: on.invalid: write {retry: N, then: next}"}},
		"retry without then":       {head + "challenges:\n" + tail + "on: {invalid: {retry: 2}}\n", []string{"t.yaml:4: on.invalid: write {retry: N, then: next}"}},
		"retry then again":         {head + "challenges:\n" + tail + "on: {invalid: {retry: 2, then: again}}\n", []string{`t.yaml:4: on.invalid: then must be next or stop, not "again"`}},
		"person without else":      {head + "challenges:\n" + tail + "on: {timeout: {person: again}}\n", []string{"t.yaml:4: on.timeout: write either {person: ..., else: ...} or"}},
		"action nested too far":    {head + "challenges:\n" + tail + "on: {timeout: {person: {person: next, else: next}, else: next}}\n", []string{`t.yaml:4: on.timeout.person: unknown key "person"`, `t.yaml:4: on.timeout.person: unknown key "else"`}},
	} {
		t.Run(name, func(t *testing.T) {
			robot := driver.Descriptor{Name: "robot", Role: driver.RoleCapability, Handles: []string{"approval"}}
			got := problems(t, tc.yaml, append(shipped(), robot))
			if len(got) != len(tc.want) {
				t.Fatalf("%d problems, want %d:\n%s", len(got), len(tc.want), strings.Join(got, "\n"))
			}
			for i, want := range tc.want {
				if !strings.Contains(got[i], want) {
					t.Errorf("problem %d:\n%s\nwant it to contain:\n%s", i, got[i], want)
				}
			}
		})
	}
}

// A model behind an endpoint serves any client, unless the endpoint fails.
func TestARouteBehindAnEndpointThatMayFailIsReached(t *testing.T) {
	llm := driver.Descriptor{
		Name: "llm", Version: "1.0.0", Role: driver.RoleCapability, Handles: []string{driver.KindEvidence, driver.KindJudge},
		Features: []string{driver.FeatureModel, driver.FeaturePartial},
	}
	source := decision.Default()
	const judge = "  judge:\n"
	if !bytes.Contains(source.YAML, []byte(judge)) {
		t.Fatal("the shipped tree has no routes to a judge any more")
	}
	source.YAML = bytes.Replace(source.YAML, []byte(judge), []byte(judge+"    - {via: llm}\n"), 1)
	if _, err := decision.Compile(source, append(shipped(), llm)); err != nil {
		t.Errorf("Compile: %v", err)
	}
}

func TestAnOptionalRouteMayLackItsDriver(t *testing.T) {
	const text = `defaults: {missing_type: shell, no_challenge_type: comment}
challenges:
  - match: {}
    evidence:
      - {via: nobody, optional: true, when: step.accepted}
      - {via: agent%s}
inputs:
  acceptance: [{via: agent, optional: true}]
`
	tree, err := decision.Compile(decision.Source{Name: "t.yaml", YAML: fmt.Appendf(nil, text, "")}, shipped())
	if err != nil {
		t.Fatal(err)
	}
	f := decision.Facts{Challenge: decision.ChallengeFacts{Type: "shell"}, Step: decision.StepFacts{Accepted: true}}
	d := tree.Decide(driver.KindEvidence, f)
	if d.Route == nil || d.Route.Via != "agent" || d.Route.Index != 1 || !strings.Contains(d.Trace[1].Reason, `no driver "nobody" is configured`) {
		t.Errorf("decided %+v, trace %+v", d.Route, d.Trace)
	}
	if d := tree.Decide(driver.KindAcceptance, f); d.Route != nil {
		t.Errorf("a driver that does not obtain it is taken: %+v", d.Route)
	}
	if via := tree.EvidenceVia(f.Challenge); slices.Contains(via, "nobody") {
		t.Errorf("EvidenceVia = %v", via)
	}
	for change, want := range map[string]string{
		", optional: true":  "",
		", optional: maybe": "optional must be true or false",
	} {
		_, err := decision.Compile(decision.Source{Name: "t.yaml", YAML: fmt.Appendf(nil, text, change)}, shipped())
		if got := fmt.Sprint(err); (err != nil) != (want != "") || !strings.Contains(got, want) && want != "" {
			t.Errorf("%s: %v, want %q", change, err, want)
		}
	}
	if _, err := decision.Compile(decision.Source{Name: "t.yaml", YAML: []byte(strings.Replace(fmt.Sprintf(text, ", optional: true"), "via: agent,", "via: other,", 1))}, shipped()); err == nil || !strings.Contains(err.Error(), "must not be optional") {
		t.Errorf("a last route that is not there: %v", err)
	}
}
