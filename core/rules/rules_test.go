package rules_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/rules"
	"github.com/kairos-mcp/kairos/core/yamldoc"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// locked are drivers as shipped, as far as rules look at them.
func locked() []driver.Descriptor {
	capability := func(name, action string, handles ...string) driver.Descriptor {
		return driver.Descriptor{Name: name, Role: driver.RoleCapability, Handles: handles, ActionSchema: json.RawMessage(action)}
	}
	challenge := func(name, action string) driver.Descriptor {
		return driver.Descriptor{Name: name, Role: driver.RoleChallenge, Handles: []string{name}, ActionSchema: json.RawMessage(action)}
	}
	const call = `{"properties":{"tool":{"type":"string","pattern":"^[^A-Z./:]+$","description":"the bare name"},"server":{"type":"string"},"arguments":{"type":"object"},"type":{"type":"string"}}}`
	return []driver.Descriptor{
		challenge("shell", `{"properties":{"command":{"type":"array","items":{"type":"array","items":{"type":"string","pattern":"^[^-]"},"minItems":1}}}}`),
		challenge("mcp", call), challenge("user_input", ""), challenge("comment", ""),
		capability("agent", "", driver.KindEvidence), capability("llm", "", driver.KindEvidence, driver.KindJudge), capability("sampling", "", driver.KindJudge),
		capability("tools", call, driver.KindEvidence), approves("page", driver.ByPage), approves("elicitation", driver.ByForm, driver.ByPage),
		approves("sampler", driver.ByReview), approves("acme", "acme-push"),
	}
}

// approves is a driver that answers approvals in these ways.
func approves(name string, ways ...string) driver.Descriptor {
	return driver.Descriptor{Name: name, Role: driver.RoleCapability, Handles: []string{driver.KindApproval}, AnswersBy: ways}
}

func compile(t testing.TB, entries ...string) *rules.Set {
	t.Helper()
	set, err := rules.Compile(source(entries...), locked())
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// source has the entries from line 3 on.
func source(entries ...string) rules.Source {
	return rules.Source{Name: "kairos.yaml", YAML: []byte("log: {level: info}\nrules:\n  - " + strings.Join(entries, "\n  - ") + "\n")}
}

// step is a step of a protocol in the space production.
func step(challengeType string, actions ...string) rules.Subject {
	s := rules.Subject{Facts: decision.Facts{
		Challenge: decision.ChallengeFacts{Type: challengeType, Params: map[string]any{"cmd": "x"}},
		Step:      decision.StepFacts{Name: "ship_it"},
		Protocol:  decision.ProtocolFacts{Space: "production", Title: "Release", Slug: "release", URI: "kairos://mem/1", Tags: []string{"Money"}},
	}}
	for _, a := range actions {
		s.Actions = append(s.Actions, rules.Action{Drivers: []string{challengeType}, Stated: []json.RawMessage{json.RawMessage(a)}})
	}
	return s
}

// The policies of docs/how-to/say-what-must-hold.md, as they are written there.
func TestFivePoliciesOfAnOperator(t *testing.T) {
	deploy := `{"command":[["cd","app"],["fly","deploy"]]}`
	for name, tc := range map[string]struct {
		rules    []string
		at       rules.Subject
		want     string
		and, not rules.Subject // one that is to match as well, and one that is not
	}{
		"people answer by form or page only": {[]string{"{type: user_input, approval: {how: [form, page]}}"}, step("user_input"), "approval by form or page", step("user_input"), step("shell")},
		"everything in production is observed": {
			[]string{"{space: production, evidence: server}"}, step("shell"), "evidence: server", step("comment"),
			rules.Subject{Facts: decision.Facts{Protocol: decision.ProtocolFacts{Space: "personal"}}},
		},
		"a second model judges every comment": {[]string{"{type: comment, judge: llm}"}, step("comment"), "judge: llm", step("comment"), step("user_input")},
		"every deploy needs a typed phrase": {
			[]string{"{command: [fly, deploy], approval: {phrase: true}}", "{tool: deploy, approval: {phrase: true}}"}, step("shell", deploy),
			`approval, typed "ship_it"`, step("mcp", `{"tool":"deploy"}`), step("shell", `{"command":[["fly","status"]]}`),
		},
		"no agent's word approves anything": {
			[]string{"{when: 'challenge.type != \"\"', approval: {how: [form, review, page]}}"}, step("mcp"), "approval by form or review or page", step("shell"), rules.Subject{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			set := compile(t, tc.rules...)
			for _, at := range []rules.Subject{tc.at, tc.and} {
				if got := set.For(at).Words(); got != tc.want {
					t.Errorf("For(%+v) demands %q, want %q", at, got, tc.want)
				}
			}
			if d := set.For(tc.not); !d.Zero() {
				t.Errorf("For(%+v) demands %q, want nothing", tc.not, d.Words())
			}
		})
	}
}

// TestNearMisses: a list that is almost right is refused with its line and the right spelling.
func TestNearMisses(t *testing.T) {
	for name, tc := range map[string]struct{ entry, want string }{
		"a misspelt effect":        {`{evidnce: person}`, `kairos.yaml:3: rules[0]: unknown key "evidnce", did you mean "evidence"?`},
		"the key of a challenge":   {`{evidence_from: person}`, `unknown key "evidence_from"`},
		"a misspelt matcher":       {`{spce: production, evidence: server}`, `did you mean "space"?`},
		"a misspelt member":        {`{comand: [fly], evidence: server}`, `did you mean "command"?`},
		"a member of nobody":       {`{url: x, evidence: server}`, `what the locked drivers state of actions: arguments, command, server, tool`},
		"a name":                   {`{name: x, evidence: server}`, `a rule has the matchers type, space`},
		"an effect beside":         {`{type: shell, phrase: true}`, `write it in approval: {phrase: ...}`},
		"by beside":                {`{type: shell, by: ada}`, `write it in approval: {by: ...}`},
		"match of the tree":        {`{match: {type: shell}, evidence: server}`, `unknown key "match"`},
		"no effect":                {`{space: production}`, `rules[0]: it demands nothing: add evidence (person or server), approval`},
		"an effect that adds none": {`{type: shell, evidence: anyone}`, `it demands nothing`},
		"an unknown type":          {`{type: shel, evidence: server}`, `type: no locked driver handles the challenge type "shel", did you mean "shell"?`},
		"a type of nobody":         {`{type: photo, evidence: server}`, `; the types are comment, mcp, shell, user_input`},
		"types as a list":          {`{type: [shell, mcp], evidence: server}`, `type must be one text, without blanks around it, not a list: write a rule for each`},
		"a space with its kind":    {`{space: "Group: release", evidence: server}`, `space: write the name alone: "release"`},
		"a space as a pattern":     {`{space: "prod*", evidence: server}`, `"prod*" is not the name of a space`},
		"an empty space":           {`{space: "", evidence: server}`, `space must be one text`},
		"a number as tag":          {`{tag: 7, evidence: server}`, `tag must be one text, without blanks around it, not 7`},
		"the title of a step":      {`{step: "Ship it", evidence: server}`, `step: "Ship it" is not the name of a step, did you mean "ship_it"?`},
		"half a uri":               {`{protocol: "kairos://release", evidence: server}`, `is not the URI of a protocol`},
		"a command as text":        {`{command: fly deploy, evidence: server}`, `command is a list in the actions of driver shell: write [fly, deploy]`},
		"an option":                {`{command: [fly, --now], evidence: server}`, `command can never match`},
		"no words":                 {`{command: [], evidence: server}`, `command can never match`},
		"a word that is none":      {`{command: [fly, 7], evidence: server}`, `command must be a list of texts, and 7 is not one: put it in quotes`},
		"tools as a list":          {`{tool: [a, b], evidence: server}`, `tool is one text in the actions of driver mcp: write a rule for each`},
		"a tool with its server":   {`{tool: calendar.create_event, evidence: server}`, `tool can never match`},
		"what a host calls it":     {`{tool: CreateEvent, evidence: server}`, `(driver tools: the bare name)`},
		"an object":                {`{arguments: x, evidence: server}`, `is neither a text nor a list, so no rule can match it: use when`},
		"another word":             {`{evidence: persn}`, `evidence must be anyone, person, server, not "persn", did you mean "person"?`},
		"provenances":              {`{evidence: [server-observed]}`, `evidence must be anyone, person, server, not a list`},
		"approval as a word":       {`{approval: user}`, `approval must be a mapping such as {}, {phrase: true}, {how: [form, page]}, {after: 1s} or {by: [group:release], not: runner}, not "user"`},
		"approval as true":         {`{approval: true}`, `approval must be a mapping`},
		"a key of approval":        {`{approval: {hwo: [form]}}`, `unknown key "hwo" in approval, did you mean "how"?`},
		"who approves":             {`{approval: {by: [group:release]}}`, `nobody can log in to this server: set auth.enabled`},
		"who does not":             {`{approval: {not: runner}}`, `nobody can log in to this server: set auth.enabled`},
		"how many":                 {`{approval: {quorum: 2}}`, `nobody can log in to this server: set auth.enabled`},
		"by login":                 {`{approval: {how: [login]}}`, `nobody can log in to this server: set auth.enabled`},
		"one way as text":          {`{approval: {how: page}}`, `approval.how must be a list: write [page]`},
		"no way":                   {`{approval: {how: []}}`, `approval.how is an empty list`},
		"a way twice":              {`{approval: {how: [form, form]}}`, `approval.how has "form" twice`},
		"a misspelt way":           {`{approval: {how: [from]}}`, `approval.how: no locked driver answers an approval by "from", did you mean "form"?`},
		"a way in capitals":        {`{approval: {how: [Form, page]}}`, `no locked driver answers an approval by "Form", did you mean "form"?`},
		"the driver of a way":      {`{approval: {how: [elicitation]}}`, `by "elicitation"; the ways are acme-push, form, page, review`},
		"a way of nobody":          {`{approval: {how: [agent]}}`, `no locked driver answers an approval by "agent"`},
		"a misspelt third party":   {`{approval: {how: [acme_push]}}`, `did you mean "acme-push"?`},
		"an older word for review": {`{approval: {how: [client]}}`, `no locked driver answers an approval by "client"`},
		"a way that is a number":   {`{approval: {how: [1]}}`, `approval.how must be a list of words, and 1 is not one`},
		"ways in a list":           {`{approval: {how: [[form]]}}`, `approval.how must be a list of words`},
		"no phrase":                {`{approval: {phrase: false}}`, `leave it out where nothing has to be typed`},
		"a number as phrase":       {`{approval: {phrase: 42}}`, `approval.phrase must be true or a text in quotes, not 42`},
		"an untypable phrase":      {`{approval: {phrase: " x"}}`, `approval.phrase must be one line`},
		"a judge of nobody":        {`{judge: lmm}`, `judge must be a locked capability driver that judges, not "lmm", did you mean "llm"?`},
		"a judge that is none":     {`{judge: tools}`, `those that judge are llm, sampling`},
		"a judge that is a type":   {`{judge: true}`, `judge must be a locked capability driver that judges, not true`},
		"bad CEL":                  {`{when: 'challenge.tpye == "shell"', evidence: server}`, `kairos.yaml:3: rules[0]: when: undefined field 'tpye', did you mean "type"?`},
		"an assignment":            {`{when: 'challenge.type = "shell"', evidence: server}`, `when: `},
		"what is submitted":        {`{when: 'solution.supplied', evidence: server}`, `when: a rule cannot read solution, which the caller chooses`},
		"the client":               {`{when: 'client.name == "ide"', evidence: server}`, `a rule cannot read client`},
		"earlier routes":           {`{when: 'size(previous) > 0', evidence: server}`, `a rule cannot read previous`},
		"a fact that is none":      {`{when: 'protocol.tag == "x"', evidence: server}`, `did you mean "tags"?`},
		"a text":                   {`production`, `a rule must be a mapping`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := rules.Compile(source(tc.entry), locked())
			var refused *yamldoc.LoadError
			if !errors.As(err, &refused) || !strings.Contains(err.Error(), tc.want) || refused.Problems[0].Line != 3 {
				t.Errorf("Compile(%s) = %v, want %s", tc.entry, err, tc.want)
			}
		})
	}
	for _, text := range []string{"rules: {space: production}", "rules: all", "rules: &a [{evidence: server}]"} {
		if _, err := rules.Compile(rules.Source{Name: "kairos.yaml", YAML: []byte(text)}, locked()); err == nil || !strings.Contains(err.Error(), "rules must be a list") {
			t.Errorf("Compile(%s) = %v, want that it is not a list", text, err)
		}
	}
	none := slices.DeleteFunc(locked(), func(d driver.Descriptor) bool { return len(d.AnswersBy) > 0 })
	if _, err := rules.Compile(source("{approval: {how: [acme-push]}}"), none); err != nil {
		t.Errorf("where no driver says how it answers, a way cannot be checked: %v", err)
	}
	for _, text := range []string{"", "log: {level: info}", "rules:", "# rules", "rules: []"} {
		if set, err := rules.Compile(rules.Source{YAML: []byte(text)}, locked()); err != nil || set.Len() != 0 {
			t.Errorf("Compile(%q) = %d rules, %v", text, set.Len(), err)
		}
	}
	if _, err := rules.Compile(source(slices.Repeat([]string{"{evidence: server}"}, 400)...), locked()); err == nil || !strings.Contains(err.Error(), "at most 200 are allowed") {
		t.Errorf("400 rules: %v", err)
	}
}

func TestMatchers(t *testing.T) {
	for name, tc := range map[string]struct {
		rule string
		at   rules.Subject
		want bool
	}{
		"type":                       {"type: shell", step("shell"), true},
		"another type":               {"type: mcp", step("shell"), false},
		"a step without a challenge": {"type: comment", step(""), false},
		"space by its id":            {`space: "group:corp:production"`, step("shell"), true},
		"space in another case":      {"space: Production", step("shell"), true},
		"another space":              {"space: prod", step("shell"), false},
		"title":                      {"protocol: release", step("shell"), true},
		"another title":              {"protocol: Release 2", step("shell"), false},
		"tag":                        {"tag: money", step("shell"), true},
		"tag in CEL":                 {`when: '"Money" in protocol.tags'`, step("shell"), true},
		"step":                       {"step: ship_it", step("shell"), true},
		"two of which one fails":     {"step: ship_it, type: mcp", step("shell"), false},
		"a condition that fails":     {`when: 'challenge.params.dir == "x"'`, step("shell"), true},
		"the action is not known":    {"tool: pay", step("mcp"), false},
		"the action says nothing":    {"tool: pay", step("mcp", ""), true}, // its driver declares the member
		"no driver declares it":      {"tool: pay", step("shell", `{"command":[["pay"]]}`), false},
		"tool":                       {"tool: pay", step("mcp", `{"tool":"Pay"}`), true},
		"another tool":               {"tool: pay", step("mcp", `{"tool":"refund"}`), false},
		"tool of a server":           {"server: shop, tool: pay", step("mcp", `{"server":"shop","tool":"pay"}`), true},
		"tool of another server":     {"server: shop, tool: pay", step("mcp", `{"server":"bank","tool":"pay"}`), false},
		"a server that is not said":  {"server: shop, tool: pay", step("mcp", `{"tool":"pay"}`), true},
		"a server that is null":      {"server: shop, tool: pay", step("mcp", `{"server":null,"tool":"pay"}`), true},
		"each in another action":     {"server: shop, tool: pay", step("mcp", `{"server":"shop","tool":"x"}`, `{"server":"bank","tool":"pay"}`), false},
		"command":                    {"command: [fly, deploy]", step("shell", `{"command":[["a"],["fly","deploy","-a","x"]]}`), true},
		"a shorter command":          {"command: [fly, deploy]", step("shell", `{"command":[["fly"]]}`), false},
		"another command":            {"command: [fly, deploy]", step("shell", `{"command":[["fly","status"],["deploy"]]}`), false},
		"a program of that name":     {"command: [fly]", step("shell", `{"command":[["flyctl"]]}`), false},
		"another reading":            {"command: [fly, deploy]", step("shell", `{"command":[{"reads_as":["fly","deploy"]}]}`), true},
		"an open word":               {"command: [fly, deploy]", step("shell", `{"command":[["fly",{"unparsed":"$X"}]]}`), true},
		"an open word behind":        {"command: [fly, deploy]", step("shell", `{"command":[["echo",{"unparsed":"$X"}]]}`), false},
		"an open program":            {"command: [fly, deploy]", step("shell", `{"command":[[{"unparsed":"$X"},"y"]]}`), true},
		"an unparsed command":        {"command: [fly, deploy]", step("shell", `{"command":[["a"],{"unparsed":"("}]}`), true},
		"an assignment":              {"command: [fly, deploy]", step("shell", `{"command":[{"set":"fly=deploy"}]}`), false},
		"too much to parse":          {"command: [fly, deploy]", step("shell", `{"more than can be compared":true}`), true},
		"an unparsed text":           {"tool: pay", step("mcp", `{"tool":{"unparsed":"{{ input.tool }}"}}`), true},
	} {
		t.Run(name, func(t *testing.T) {
			if d := compile(t, "{"+tc.rule+", evidence: server}").For(tc.at); (len(d.By) > 0) != tc.want {
				t.Errorf("%s matches: %v", tc.rule, d.By)
			}
		})
	}
}

// A plan fills in what the input left open, and takes back nothing that the input stated.
func TestAPlanOnlyAdds(t *testing.T) {
	for name, tc := range map[string]struct {
		rule, input, plan string
		want              bool
	}{
		"what the input left out":        {"server: shop, tool: pay", `{"tool":"pay"}`, `{"server":"bank"}`, false},
		"what the input could not read":  {"tool: pay", `{"tool":{"unparsed":"?"}}`, `{"tool":"look"}`, false},
		"what nobody says":               {"server: shop, tool: pay", `{"tool":"pay"}`, `{}`, true},
		"another tool than the input":    {"tool: pay", `{"tool":"pay"}`, `{"tool":"look"}`, true},
		"a tool that the plan adds":      {"tool: pay", `{"tool":"look"}`, `{"tool":"pay"}`, true},
		"another server than the input":  {"server: shop, tool: pay", `{"server":"shop","tool":"pay"}`, `{"server":"bank"}`, true},
		"nothing instead of the input":   {"tool: pay", `{"tool":"pay"}`, `{"tool":null}`, true},
		"a word that was open":           {"command: [fly, deploy]", `{"command":[["fly",{"unparsed":"$X"}]]}`, `{"command":[["fly","status"]]}`, false},
		"the command beside an open one": {"command: [fly, deploy]", `{"command":[["fly","deploy"],["echo",{"unparsed":"$X"}]]}`, `{"command":[["echo","x"]]}`, true},
		"another reading that was open":  {"command: [fly, deploy]", `{"command":[{"reads_as":["fly",{"unparsed":"$X"}]}]}`, `{"command":[["fly","status"]]}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			d := compile(t, "{"+tc.rule+", evidence: server}").For(rules.Subject{Actions: []rules.Action{{
				Drivers: []string{"mcp", "tools", "shell"}, Stated: []json.RawMessage{json.RawMessage(tc.input), json.RawMessage(tc.plan)},
			}}})
			if !d.Zero() != tc.want {
				t.Errorf("%s matches: %v", tc.rule, d.By)
			}
		})
	}
}

func TestDemandsIntersect(t *testing.T) {
	set := compile(t, "{type: shell, evidence: person}", "{space: production, evidence: server, approval: {how: [form, page]}}",
		"{step: ship_it, approval: {how: [page, review], phrase: true}}", `{tag: money, approval: {phrase: go}, judge: llm}`, "{protocol: release, judge: llm}")
	want := rules.Demand{
		Evidence: []driver.Provenance{driver.ServerObserved}, Approval: &rules.Approval{How: []string{"page", "login"}, Phrases: []string{"ship_it", "go"}}, Judge: "llm",
		By: []string{
			"rules[0], line 3: evidence: person", "rules[1], line 4: evidence: server; approval by form or page", "rules[2], line 5: approval, the step's name typed by page or review",
			`rules[3], line 6: approval, typed "go"; judge: llm`, "rules[4], line 7: judge: llm",
		},
	}
	got := set.For(step("shell"))
	if diff := cmp.Diff(want, got); diff != "" || got.Impossible() != "" {
		t.Errorf("For() (-want +got):\n%s%s", diff, got.Impossible())
	}
	for name, entries := range map[string][]string{
		"no way of approving":  {"{approval: {how: [form]}}", "{approval: {how: [page]}}"},
		"a step has one judge": {"{judge: llm}", "{judge: sampling}"},
	} {
		if why := compile(t, entries...).For(step("shell")).Impossible(); !strings.Contains(why, name) {
			t.Errorf("%v: Impossible() = %q, want %s", entries, why, name)
		}
	}
	own := rules.OfChallenge(protocol.Common{Evidence: protocol.FromServer, Approval: &protocol.Approval{How: []string{"form"}}}, "")
	if why := compile(t, "{approval: {how: [page]}}").For(step("shell")).And(own).Impossible(); why == "" {
		t.Error("a step that takes forms only passes a rule that takes the page only")
	}
	var none *rules.Set
	if d := none.For(step("shell")); !d.Zero() || none.Digest() != "" || none.ReadsDigest() || none.Len() != 0 {
		t.Errorf("no set demands %v", d)
	}
}

func TestOfATextOnlyWhatIsKnownIsDemanded(t *testing.T) {
	set := compile(t, `{when: '!has(run.input.a)', evidence: server}`, `{when: 'step.index == 0', evidence: server}`,
		`{when: 'protocol.space != "dev"', evidence: server}`, `{space: production, evidence: server}`, `{command: [x], evidence: server}`,
		`{when: '!step.accepted', evidence: server}`, `{when: 'config.user_input.enabled', evidence: server}`)
	at := step("shell", `{"command":[["x"]]}`)
	numbers := func(d rules.Demand) string {
		return strings.ReplaceAll(strings.Join(d.By, " "), ": evidence: server", "")
	}
	if got, want := numbers(set.ForText(at)), "rules[1], line 4 rules[2], line 5 rules[3], line 6 rules[4], line 7"; got != want {
		t.Errorf("in a space: %s, want %s", got, want)
	}
	at.Facts.Protocol.Space = ""
	if got, want := numbers(set.ForText(at)), "rules[1], line 4 rules[4], line 7"; got != want {
		t.Errorf("without one: %s, want %s", got, want)
	}
	if got := numbers(set.ForAction(at)); got != "rules[4], line 7" {
		t.Errorf("ForAction: %s", got)
	}
}

func TestTheNamesOfSpacesAreKnown(t *testing.T) {
	set := compile(t, "{space: production, evidence: server}", `{when: 'protocol.space == "ops" || "lab" != protocol.space', evidence: server}`,
		`{when: 'protocol.space in ["a", "b"] && protocol.title == "c"', evidence: server}`, `{when: 'protocol.space.startsWith("x")', evidence: server}`)
	if got, want := set.Spaces(), []string{"production", "ops", "lab", "a", "b"}; !slices.Equal(got, want) {
		t.Errorf("Spaces() = %q, want %q", got, want)
	}
}

var someRules = rapid.Custom(func(t *rapid.T) string {
	match := rapid.SampledFrom([]string{"", "type: shell, ", "command: [x], ", "space: production, ", `when: 'challenge.params.a == "x"', `}).Draw(t, "match")
	effect := rapid.SampledFrom([]string{"evidence: person", "evidence: server", "approval: {}", "approval: {how: [form, page]}", "approval: {how: [page, review]}", "judge: llm"}).Draw(t, "effect")
	return fmt.Sprintf("{%s%s}", match, effect)
})

func TestOneMoreRuleNeverTakesMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entries := rapid.SliceOfN(someRules, 2, 5).Draw(t, "entries")
		at := step(rapid.SampledFrom([]string{"shell", "mcp", ""}).Draw(t, "type"), rapid.SampledFrom([]string{"{}", `{"command":[["x"]]}`, `{"command":[["y"]]}`}).Draw(t, "action"))
		compiled := func(entries []string) rules.Demand {
			set, err := rules.Compile(source(entries...), locked())
			if err != nil {
				t.Fatal(err)
			}
			return set.For(at)
		}
		turned := slices.Clone(entries)
		slices.Reverse(turned)
		fewer, all, reversed := compiled(entries[:len(entries)-1]), compiled(entries), compiled(turned)
		for _, p := range driver.Provenances() {
			if all.Counts(p) && !fewer.Counts(p) || all.Counts(p) != reversed.Counts(p) {
				t.Errorf("%s counts only with one rule more, or in one order", p)
			}
		}
		ways := func(d rules.Demand) int {
			switch {
			case d.Approval == nil:
				return 100
			case d.Approval.How == nil:
				return 99
			}
			return len(d.Approval.How)
		}
		if ways(all) > ways(fewer) || ways(all) != ways(reversed) || fewer.Judge != "" && all.Judge == "" {
			t.Errorf("%v demands %v, and with one rule more %v, in another order %v", entries, fewer, all, reversed)
		}
	})
}

// FuzzCompile: whatever the configuration is, it compiles or every problem has a place.
func FuzzCompile(f *testing.F) {
	f.Add("rules:\n  - {space: a, evidence: server}\n")
	f.Add("rules: [{command: [[]], approval: {how: {}}}, [], {when: [}]")
	f.Fuzz(func(t *testing.T, text string) {
		set, err := rules.Compile(rules.Source{Name: "f.yaml", YAML: []byte(text)}, locked())
		var refused *yamldoc.LoadError
		if err != nil && (!errors.As(err, &refused) || len(refused.Problems) == 0 || refused.Problems[0].Line < 1) {
			t.Fatalf("Compile(%q) = %v", text, err)
		}
		_ = set.For(step("shell", `{"command":[["x"]]}`)).Words()
	})
}
