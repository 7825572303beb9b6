package decision_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// shipped describes the drivers that the default tree names, and their kin.
func shipped() []driver.Descriptor {
	challenge := func(name string) driver.Descriptor {
		return driver.Descriptor{Name: name, Version: "1.0.0", Role: driver.RoleChallenge, Handles: []string{name}}
	}
	capability := func(name, feature string, handles, needs []string, ways ...string) driver.Descriptor {
		return driver.Descriptor{
			Name: name, Version: "1.0.0", Role: driver.RoleCapability,
			Handles: handles, Features: []string{feature}, Needs: needs, AnswersBy: ways,
		}
	}
	return []driver.Descriptor{
		challenge("shell"), challenge("mcp"), challenge("user_input"), challenge("comment"),
		capability("elicitation", driver.FeatureHuman, []string{"evidence", "approval", "run_input", "acceptance"}, []string{driver.NeedElicitation}, driver.ByForm, driver.ByPage),
		capability("page", driver.FeatureHuman, []string{"approval"}, []string{driver.NeedApprovalPage}, driver.ByPage),
		capability("sampling", driver.FeatureClientReview, []string{"evidence", "approval", "judge"}, []string{driver.NeedSampling}, driver.ByReview),
		{Name: "roots", Version: "1.0.0", Role: driver.RoleCapability, Handles: []string{"files"}, Effect: driver.EffectReads, Features: []string{driver.FeaturePartial}},
		capability("agent", driver.FeatureAgent, []string{"evidence", "approval", "files"}, nil, driver.ByAgent),
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

func TestOtherTypesGoToTheModelOrTheAgent(t *testing.T) {
	for name, tc := range map[string]struct {
		client    decision.ClientFacts
		sampling  bool
		supplied  bool
		userInput decision.UserInputFacts
		want      []string
	}{
		"no prompt":                          {everyone, false, false, flagsOff, []string{"agent"}},
		"prompt":                             {everyone, true, false, flagsOff, []string{"sampling", "agent"}},
		"prompt, client does not sample":     {asks, true, false, flagsOff, []string{"agent"}},
		"prompt, agent has an answer":        {everyone, true, true, flagsOff, []string{"agent", "sampling", "agent"}},
		"the flags are about a person alone": {everyone, false, false, bySampling, []string{"agent"}},
	} {
		for _, challengeType := range []string{"shell", "mcp", "comment", "somebody_elses"} {
			t.Run(name+", "+challengeType, func(t *testing.T) {
				f := decision.Facts{
					Challenge: decision.ChallengeFacts{Type: challengeType, HasSampling: tc.sampling},
					Client:    tc.client,
					Solution:  decision.SolutionFacts{Supplied: tc.supplied},
					Config:    decision.ConfigFacts{UserInput: tc.userInput},
				}
				if diff := cmp.Diff(tc.want, play(defaultTree(t), driver.KindEvidence, f)); diff != "" {
					t.Errorf("routes in order (-want +got):\n%s", diff)
				}
			})
		}
	}
}

func TestApprovalsComeFromAPersonOrByConsent(t *testing.T) {
	form, page, review := []string{driver.ByForm}, []string{driver.ByPage}, []string{driver.ByReview}
	all := []string{driver.ByForm, driver.ByPage, driver.ByReview, driver.ByAgent}
	// A tree of an operator opens no more doors than the shipped one.
	careless := head + "challenges:\n" + tail + "inputs:\n  approval: [{via: elicitation}, {via: sampling}, {via: agent}]\n"
	for name, tc := range map[string]struct {
		client decision.ClientFacts
		how    []string
		want   []string
	}{
		"person":                          {asks, form, []string{"elicitation"}},
		"person, and all else counts":     {everyone, all, []string{"elicitation", "sampling", "agent"}},
		"client's review":                 {samples, review, []string{"sampling"}},
		"client's review does not count":  {samples, form, nil},
		"nobody":                          {neither, review, nil},
		"nobody but a trusted agent":      {neither, []string{driver.ByAgent}, []string{"agent"}},
		"a page that opens in the client": {decision.ClientFacts{Elicitation: decision.ElicitationFacts{URL: true}}, page, []string{"elicitation"}},
		"no way counts":                   {everyone, nil, nil},
		"a way that no driver has":        {everyone, []string{"signature"}, nil},
	} {
		for treeName, tree := range map[string]*decision.Tree{"shipped": defaultTree(t), "careless": compile(t, careless)} {
			t.Run(name+", "+treeName, func(t *testing.T) {
				f := decision.Facts{Client: tc.client, Approval: decision.ApprovalFacts{How: tc.how}}
				if diff := cmp.Diff(tc.want, play(tree, driver.KindApproval, f)); diff != "" {
					t.Errorf("routes in order (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// The page needs nothing of the client, so it is the last resort and takes no
// door away that the configuration opens.
func TestThePageIsWhereApprovalsEnd(t *testing.T) {
	for name, tc := range map[string]struct {
		client decision.ClientFacts
		how    string
		want   []string
	}{
		"nobody through the client":        {neither, "page form", []string{"page"}},
		"person through the client":        {asks, "page form", []string{"elicitation", "page"}},
		"client's review":                  {samples, "review page", []string{"sampling", "page"}},
		"client's review does not count":   {samples, "page", []string{"page"}},
		"the page does not count":          {samples, "review", []string{"sampling"}},
		"trusted agent":                    {neither, "agent page", []string{"agent", "page"}},
		"everything at once, person first": {everyone, "page agent review form", []string{"elicitation", "sampling", "agent", "page"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := decision.Facts{Client: tc.client, Approval: decision.ApprovalFacts{How: strings.Fields(tc.how), Page: true}}
			if diff := cmp.Diff(tc.want, play(defaultTree(t), driver.KindApproval, f)); diff != "" {
				t.Errorf("routes in order (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOtherKindsOfInput(t *testing.T) {
	tree := defaultTree(t)
	required := decision.Facts{Challenge: decision.ChallengeFacts{FilesRequired: true}}
	for name, tc := range map[string]struct {
		kind  string
		facts decision.Facts
		want  []string
	}{
		"files":              {driver.KindFiles, decision.Facts{}, []string{"roots", "agent"}},
		"files required":     {driver.KindFiles, required, []string{"roots"}},
		"kind of a stranger": {"location", decision.Facts{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, play(tree, tc.kind, tc.facts)); diff != "" {
				t.Errorf("routes in order (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecideNamesTheChallengeDriver(t *testing.T) {
	tree := compile(t, head+`challenges:
  - {name: mine, match: {type: shell, name: deploy}, use: shell, evidence: [{via: agent}]}
  - {match: {name: odd}, use: mcp, evidence: [{via: agent}]}
`+tail)
	for name, tc := range map[string]struct {
		challenge decision.ChallengeFacts
		rule, use string
	}{
		"by the rule":               {decision.ChallengeFacts{Type: "shell", Name: "deploy"}, "challenges[0] (mine)", "shell"},
		"by the type":               {decision.ChallengeFacts{Type: "shell", Name: "other"}, "challenges[2]", "shell"},
		"rule's driver handles it":  {decision.ChallengeFacts{Type: "mcp", Name: "odd"}, "challenges[1]", "mcp"},
		"rule's driver does not":    {decision.ChallengeFacts{Type: "comment", Name: "odd"}, "challenges[1]", ""},
		"nobody handles it":         {decision.ChallengeFacts{Type: "photo"}, "challenges[2]", ""},
		"a capability is not taken": {decision.ChallengeFacts{Type: "evidence"}, "challenges[2]", ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := tree.Decide(driver.KindEvidence, decision.Facts{Challenge: tc.challenge})
			if d.Rule != tc.rule || d.Use != tc.use {
				t.Errorf("Decide(%+v) = rule %q, use %q, want %q, %q",
					tc.challenge, d.Rule, d.Use, tc.rule, tc.use)
			}
			if d.Route == nil || d.Route.Via != "agent" {
				t.Errorf("Route = %+v, want one via agent", d.Route)
			}
		})
	}
}

func TestARouteCarriesWhatItsRuleSays(t *testing.T) {
	tree := compile(t, withRoutes(
		"{via: elicitation, when: 'client.elicitation.form', timeout: 90s}",
		"{via: sampling, approval: user, retries: 0, call_timeout: 40s}", "{via: agent, retries: 3}")+"on: {invalid: {retry: 2, then: stop}}\n")
	want := []decision.Route{
		{Index: 0, Via: "elicitation", Human: true, When: "client.elicitation.form", Retries: 2, Timeout: 90 * time.Second, Line: 5, Path: "challenges[0].evidence[0]"},
		{Index: 1, Via: "sampling", Approval: driver.ApprovalUser, CallTimeout: 40 * time.Second, Line: 6, Path: "challenges[0].evidence[1]"},
		{Index: 2, Via: "agent", Retries: 3, Line: 7, Path: "challenges[0].evidence[2]"},
	}
	f := decision.Facts{Client: everyone}
	for _, w := range want {
		d := tree.Decide(driver.KindEvidence, f)
		if diff := cmp.Diff(&w, d.Route); diff != "" {
			t.Errorf("Route (-want +got):\n%s", diff)
		}
		f.Previous = append(f.Previous, decision.PreviousFacts{Via: w.Via, Outcome: decision.TimedOut, Route: w.Index})
	}
}

func TestConditionsSeeTheFacts(t *testing.T) {
	facts := decision.Facts{
		Challenge: decision.ChallengeFacts{
			Type: "mcp", Name: "find", Required: true, HasSampling: true, HasOutputSchema: true, FilesRequired: true,
			Params: map[string]any{"tool_name": "find_slot", "arguments": map[string]any{"minutes": 30.0, "people": []any{"a", "b"}}},
		},
		Step:     decision.StepFacts{Index: 2, Count: 4, Name: "slot", Approval: driver.ApprovalUser},
		Protocol: decision.ProtocolFacts{Space: "ops", Digest: "abc"},
		Run:      decision.RunFacts{Attempt: 3, Input: map[string]any{"space": "team"}},
		Client:   decision.ClientFacts{Name: "ide", Version: "1.2", Era: "2025-11-25", Transport: "stdio", Roots: true},
		Solution: decision.SolutionFacts{Supplied: true, Type: "mcp", Params: map[string]any{"success": true}},
		Previous: []decision.PreviousFacts{{Via: "sampling", Outcome: decision.Invalid, Route: 0}},
		Config:   decision.ConfigFacts{UserInput: decision.UserInputFacts{Enabled: true, Driver: "agent"}},
	}
	for condition, want := range map[string]bool{
		`challenge.type == "mcp" && challenge.name == "find" && challenge.required`:            true,
		`challenge.has_sampling && challenge.has_output_schema && challenge.files_required`:    true,
		`challenge.params.tool_name.startsWith("find_")`:                                       true,
		`challenge.params.arguments.minutes > 29 && challenge.params.arguments.minutes == 30`:  true,
		`"b" in challenge.params.arguments.people`:                                             true,
		`has(challenge.params.arguments) && !has(challenge.params.cmd)`:                        true,
		`challenge.params.cmd == "x"`:                                                          false, // an absent key fails
		`challenge.params.arguments.minutes.seconds > 1`:                                       false,
		`step.index == 2 && step.count == 4 && step.name == "slot" && step.approval == "user"`: true,
		`protocol.space == "ops" && protocol.digest == "abc" && !step.accepted`:                true,
		`step.index < 3.5`: true,
		`run.attempt > 2 && run.input.space == "team" && !has(run.input.other)`:             true,
		`client.name == "ide" && client.version == "1.2" && client.era >= "2025-11-25"`:     true,
		`client.transport == "stdio" && client.roots && !client.sampling`:                   true,
		`!client.elicitation.form && !client.elicitation.url`:                               true,
		`solution.supplied && solution.type == challenge.type && solution.params.success`:   true,
		`previous.exists(p, p.via == "sampling" && p.outcome == "invalid" && p.route == 0)`: true,
		`size(previous) == 1 && previous[0].via == "sampling"`:                              true,
		`previous[1].via == "sampling"`:                                                     false,
		`config.user_input.enabled && config.user_input.driver == "agent"`:                  true,
		`client.name.matches("^i.e$")`:                                                      true,
		`step.index / (step.count - 4) == 1`:                                                false, // fails
		`step.index / (step.count - 4) == 1 || true`:                                        true,
	} {
		t.Run(condition, func(t *testing.T) {
			tree := compile(t, withRoutes("{via: agent, when: '"+condition+"'}", "{via: agent}"))
			if got := tree.Decide(driver.KindEvidence, facts).Route.Index == 0; got != want {
				t.Errorf("%s = %v, want %v", condition, got, want)
			}
		})
	}
}

func TestFactsThatAreNotKnownAreZero(t *testing.T) {
	for _, condition := range []string{
		`challenge.type == "" && step.name == "" && client.era == "" && solution.type == ""`,
		`!challenge.has_sampling && !client.elicitation.form && !config.user_input.enabled`,
		`step.index == 0 && run.attempt == 0 && size(previous) == 0`,
		`!has(challenge.params.a) && !has(run.input.a) && !has(solution.params.a)`,
	} {
		tree := compile(t, withRoutes("{via: agent, when: '"+condition+"'}", "{via: agent}"))
		if d := tree.Decide(driver.KindEvidence, decision.Facts{}); d.Route.Index != 0 {
			t.Errorf("%s does not hold: %+v", condition, d.Trace)
		}
	}
}

func TestACostlyConditionDoesNotHold(t *testing.T) {
	tree := compile(t, withCondition(`size(challenge.params) > 0 && challenge.params.text.contains("needle")`))
	long := decision.Facts{Client: samples, Challenge: decision.ChallengeFacts{Params: map[string]any{
		"text": strings.Repeat("hay", 100_000) + "needle",
	}}}
	d := tree.Decide(driver.KindEvidence, long)
	if d.Route.Index != 1 || !strings.Contains(d.Trace[1].Error, "cost limit exceeded") {
		t.Errorf("route %d, walk %+v, want route 1 because of the cost", d.Route.Index, d.Trace)
	}
	long.Challenge.Params["text"] = "a needle"
	if d := tree.Decide(driver.KindEvidence, long); d.Route.Index != 0 {
		t.Errorf("route %d, walk %+v, want route 0", d.Route.Index, d.Trace)
	}
}

func TestOnSaysWhatFollows(t *testing.T) {
	tree := compile(t, head+"challenges:\n"+tail+
		"on: {error: stop, invalid: {retry: 3, then: stop}, timeout: {person: {retry: 1, then: next}, else: stop}}\n")
	for name, tc := range map[string]struct {
		tree    *decision.Tree
		outcome decision.Outcome
		human   bool
		want    decision.Action
	}{
		"shipped, unavailable":           {defaultTree(t), decision.Unavailable, false, decision.Action{Kind: decision.Next}},
		"shipped, error":                 {defaultTree(t), decision.Errored, true, decision.Action{Kind: decision.Next}},
		"shipped, invalid":               {defaultTree(t), decision.Invalid, false, decision.Action{Kind: decision.Retry, Retries: 1, Then: decision.Next}},
		"shipped, declined":              {defaultTree(t), decision.Declined, true, decision.Action{Kind: decision.Stop}},
		"shipped, timeout of a person":   {defaultTree(t), decision.TimedOut, true, decision.Action{Kind: decision.Again}},
		"shipped, timeout of a machine":  {defaultTree(t), decision.TimedOut, false, decision.Action{Kind: decision.Next}},
		"shipped, abandoned":             {defaultTree(t), decision.Abandoned, false, decision.Action{Kind: decision.Next}},
		"shipped, exhausted":             {defaultTree(t), decision.Exhausted, false, decision.Action{Kind: decision.Next}},
		"own, error":                     {tree, decision.Errored, false, decision.Action{Kind: decision.Stop}},
		"own, invalid":                   {tree, decision.Invalid, true, decision.Action{Kind: decision.Retry, Retries: 3, Then: decision.Stop}},
		"own, timeout of a person":       {tree, decision.TimedOut, true, decision.Action{Kind: decision.Retry, Retries: 1, Then: decision.Next}},
		"own, timeout of a machine":      {tree, decision.TimedOut, false, decision.Action{Kind: decision.Stop}},
		"what is left out is as shipped": {tree, decision.Abandoned, false, decision.Action{Kind: decision.Next}},
		"unknown outcome":                {tree, "exploded", false, decision.Action{Kind: decision.Stop}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.tree.On(decision.Route{Human: tc.human}, tc.outcome); got != tc.want {
				t.Errorf("On(%s, %v) = %+v, want %+v", tc.outcome, tc.human, got, tc.want)
			}
		})
	}
}

func TestARouteOrADriverMayReactInItsOwnWay(t *testing.T) {
	tree := compile(t, withRoutes(
		"{via: elicitation, when: 'client.elicitation.form', on: {error: stop, invalid: {retry: 4, then: stop}}}",
		"{via: sampling}", "{via: agent}")+"drivers:\n  elicitation: {on: {error: next, unavailable: stop}}\non: {error: {retry: 2, then: next}}\n")
	first := decision.Route{Path: "challenges[0].evidence[0]", Via: "elicitation"}
	for name, tc := range map[string]struct {
		at      decision.Route
		outcome decision.Outcome
		want    decision.ActionKind
	}{
		"the route":                      {first, decision.Errored, decision.Stop},
		"else its driver":                {first, decision.Unavailable, decision.Stop},
		"else the tree":                  {first, decision.Exhausted, decision.Next},
		"the driver elsewhere":           {decision.Route{Via: "elicitation"}, decision.Errored, decision.Next},
		"another driver in its place":    {decision.Route{Path: first.Path, Via: "roots"}, decision.Errored, decision.Retry},
		"a route that says nothing":      {decision.Route{Path: "challenges[0].evidence[1]", Via: "sampling"}, decision.Errored, decision.Retry},
		"a place that is not in it":      {decision.Route{Path: "challenges[7].evidence[1]", Via: "sampling"}, decision.Errored, decision.Retry},
		"an invalid reply, by the route": {first, decision.Invalid, decision.Retry},
	} {
		if got := tree.On(tc.at, tc.outcome); got.Kind != tc.want {
			t.Errorf("%s: %+v, want %s", name, got, tc.want)
		}
	}
	if r, ok := tree.RouteAt(first.Path, first.Via); !ok || r.Retries != 4 {
		t.Errorf("RouteAt = %+v, %v; want 4 retries", r, ok)
	}
	if r, ok := tree.RouteAt(first.Path, "agent"); ok {
		t.Errorf("RouteAt = %+v for another driver, want none", r)
	}
}

func TestDefaultsNameTheTypes(t *testing.T) {
	tree := defaultTree(t)
	if tree.MissingType() != "shell" || tree.NoChallengeType() != "comment" {
		t.Errorf("MissingType, NoChallengeType = %q, %q, want shell, comment", tree.MissingType(), tree.NoChallengeType())
	}
}

func TestTwoDriversOfOneTypeNeedAChoice(t *testing.T) {
	second := driver.Descriptor{Name: "shell2", Role: driver.RoleChallenge, Handles: []string{"shell"}}
	drivers := append(shipped(), second)
	for name, tc := range map[string]struct {
		yaml string
		want string
	}{
		"no choice":          {head + "challenges:\n" + tail, `t.yaml:3: challenges[0]: drivers "shell" and "shell2" both handle type "shell"`},
		"choice":             {head + "challenges:\n  - {match: {type: shell}, use: shell2, evidence: [{via: agent}]}\n" + tail, ""},
		"choice for some":    {head + "challenges:\n  - {match: {type: shell, name: a}, use: shell2, evidence: [{via: agent}]}\n" + tail, `t.yaml:4: challenges[1]: drivers`},
		"choice comes later": {head + "challenges:\n  - {match: {name: a}, evidence: [{via: agent}]}\n  - {match: {}, use: shell2, evidence: [{via: agent}]}\n", `t.yaml:3: challenges[0]: drivers`},
	} {
		t.Run(name, func(t *testing.T) {
			got := problems(t, tc.yaml, drivers)
			if tc.want == "" && got == nil {
				return
			}
			if len(got) != 1 || tc.want == "" || !strings.Contains(got[0], tc.want) {
				t.Errorf("problems %q, want %q", got, tc.want)
			}
		})
	}
}
