package protocol_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// nearMiss is a document that is almost right, and what lint must say about it.
type nearMiss struct {
	name, doc string
	says      []string
	// stored: mint takes the document and warns, as existing clients expect.
	stored bool
}

// types are those of the challenges in the near misses.
var types = []string{"comment", "mcp", "shell", "user_input"}

// found are the findings of the document without drivers.
func found(doc string) []protocol.Diagnostic {
	chains, found := protocol.Parse([]byte(doc))
	for _, c := range chains {
		found = append(found, protocol.CheckReferences(c)...)
		found = append(found, protocol.CheckLookalikes(c.Steps, types)...)
	}
	return found
}

// Nothing that is almost right passes in silence: lint says what was meant.
func TestNearMisses(t *testing.T) {
	var all []nearMiss
	for _, kind := range [][]nearMiss{
		misspeltChallenges(), foreignBlocks(), misplacedBlocks(), unknownKeys(), brokenJSON(), brokenYAML(), bareTemplates(), framings(),
	} {
		all = append(all, kind...)
	}
	if len(all) < 120 {
		t.Errorf("%d near misses, want at least 120", len(all))
	}
	for _, tc := range all {
		t.Run(tc.name, func(t *testing.T) {
			var lines []string
			for _, d := range protocol.ForAuthors(found(tc.doc)) {
				lines = append(lines, d.String())
			}
			said := strings.Join(lines, "\n")
			for _, want := range tc.says {
				if !strings.Contains(said, want) {
					t.Errorf("lint of\n%s\nsays %q, want %q", tc.doc, said, want)
				}
			}
			if refused := len(only(found(tc.doc), driver.SeverityError)) > 0; refused == tc.stored {
				t.Errorf("refused by mint: %v, want %v; lint of\n%s\nsays %s", refused, !tc.stored, tc.doc, said)
			}
		})
	}
}

const shellChallenge = `{"type": "shell", "shell": {"cmd": "make test"}}`

// inStep is a document with one step.
func inStep(body string) string { return "# T\n\n## S\n\nRun the tests.\n\n" + body + "\n" }

// inLanguage is a block of a language.
func inLanguage(language, content string) string {
	return fence + language + "\n" + content + "\n" + fence
}

// edits are words at most two typing errors from a word.
func edits(word string) []string {
	n := len(word)
	return []string{
		word[:3] + word[4:], word[:n-1], word[1:], word + "s", word[:2] + "x" + word[3:], word[:4] + word[5:6] + word[4:5] + word[6:],
		word[:1] + word[:1] + word[1:], strings.ToUpper(word[:1]) + word[1:], strings.ToUpper(word), word[:2] + word[3:n-1], word + "_1", " " + word,
	}
}

// misspeltChallenges are blocks whose only key is nearly "challenge".
func misspeltChallenges() (out []nearMiss) {
	want := []string{"error", `must be written "challenge"`}
	for _, key := range edits("challenge") {
		for language, content := range map[string]string{
			"json": `{"` + key + `": ` + shellChallenge + `}`,
			"":     "{\n  \"" + key + "\": " + shellChallenge + "\n}",
			"yaml": `"` + key + "\":\n  type: shell\n  shell:\n    cmd: make test",
		} {
			out = append(out, nearMiss{fmt.Sprintf("key %s in %q", key, language), inStep(inLanguage(language, content)), want, false})
		}
		out = append(out, nearMiss{"key " + key + " beside another", inStep(inLanguage("json", `{"`+key+`": `+shellChallenge+`, "why": 1}`)), want, true})
	}
	return out
}

// foreignBlocks are challenges in another container, or of another language.
func foreignBlocks() (out []nearMiss) {
	for name, content := range map[string]string{
		"only the type's object":  `{"shell": {"cmd": "make test"}}`,
		"without the outer key":   shellChallenge,
		"flat":                    `{"type": "shell", "cmd": "make test"}`,
		"another outer key":       `{"proof": ` + shellChallenge + `}`,
		"a step around it":        `{"step": {"challenge": ` + shellChallenge + `}}`,
		"the oldest form":         `{"cmd": "make test", "timeout_seconds": 60}`,
		"mcp":                     `{"mcp": {"tool_name": "create_event"}}`,
		"a comment":               `{"type": "comment", "comment": {"min_length": 20}, "required": true}`,
		"a contract, only a type": `{"contract": {"type": "comment"}}`,
		"a contract, only a key":  `{"contract": {"comment": {"min_length": 30}}}`,
		"a proof, only a type":    `{"proof": {"type": "comment"}}`,
		"a step, only a type":     `{"step": {"challenge": {"type": "comment"}}}`,
		"a list":                  `[{"challenge": ` + shellChallenge + `}]`,
		"a list of misspelt ones": `[{"chalenge": ` + shellChallenge + `}]`,
	} {
		out = append(out, nearMiss{name, inStep(inLanguage("json", content)), []string{"error", "challenge"}, true})
	}
	for name, content := range map[string]string{
		"yaml of a type":          "shell:\n  cmd: make test",
		"yaml without outer key":  "type: shell\nshell:\n  cmd: make test",
		"yaml, another outer key": "proof:\n  type: shell\n  shell:\n    cmd: make test",
		"yaml in a list":          "- challenge:\n    type: shell",
	} {
		out = append(out, nearMiss{name, inStep(inLanguage("yaml", content)), []string{"error", "challenge"}, true})
	}
	for _, language := range []string{"JSON", "jsonc", "json5", "js", "text", "sh", "challenge"} {
		out = append(out, nearMiss{"language " + language, inStep(inLanguage(language, `{"challenge": `+shellChallenge+`}`)), []string{"error", "write json"}, true})
	}
	out = append(
		out,
		nearMiss{"yaml without a language", inStep(inLanguage("", "challenge:\n  type: shell")), []string{"error", "write the language yaml"}, true},
		nearMiss{"a contract", inStep(inLanguage("json", `{"contract": `+shellChallenge+`}`)), []string{"warning", `read as "challenge"`}, true},
		nearMiss{"a contract in yaml", inStep(inLanguage("yaml", "contract:\n  type: shell\n  shell:\n    cmd: make")), []string{"warning", `read as "challenge"`}, true},
		nearMiss{"a list of challenges", inStep(inLanguage("json", `{"challenges": [`+shellChallenge+`]}`)), []string{"error", `must be written "challenge"`}, false},
	)
	return out
}

// misplacedBlocks are challenges where none can stand.
func misplacedBlocks() []nearMiss {
	good := inLanguage("json", `{"challenge": `+shellChallenge+`}`)
	bare := `{"challenge": ` + shellChallenge + `}`
	schema := `{"type": "object", "properties": {"x": {"type": "string"}}}`
	return []nearMiss{
		{"text after it", inStep(good + "\n\nDone."), []string{"error", "last thing of its step"}, false},
		{"another block after it", inStep(good + "\n\n" + inLanguage("sh", "ls")), []string{"error", "last thing of its step"}, true},
		{"a misspelt one, another block after it", inStep(inLanguage("json", `{"Challenge": {}}`) + "\n\n" + inLanguage("sh", "ls")), []string{"error", "last thing of its step"}, true},
		{"in a quote", inStep("> " + strings.ReplaceAll(good, "\n", "\n> ")), []string{"error", "in a quote"}, true},
		{"behind a list marker", inStep("- " + strings.ReplaceAll(good, "\n", "\n  ")), []string{"error", "list marker"}, true},
		{"without a block", inStep(bare), []string{"error", "put it into a block"}, true},
		{"indented", inStep("    " + bare), []string{"error", "put it into a block"}, true},
		{"as inline code", inStep("`" + bare + "`"), []string{"error", "put it into a block"}, true},
		{"yaml without a block", inStep("challenge:\n  type: shell"), []string{"error", "put it into a block"}, true},
		{"in the description", "# T\n\n" + good + "\n\n## S\n\nDo it.\n", []string{"error", "below its H2"}, true},
		{"without an H2", "# T\n\nDo it.\n\n" + good + "\n", []string{"error", "H2 heading"}, true},
		{"misspelt without an H2", "# T\n\nDo it.\n\n" + inLanguage("json", `{"chalenge": {}}`) + "\n", []string{"error", "H2 heading"}, true},
		{"two of them", inStep(good + "\n\n" + good), []string{"warning", "the last one counts"}, true},
		{"not closed", inStep(strings.TrimSuffix(good, fence)), []string{"error", "not closed"}, false},
		{"input for inputs", "# T\n\n" + inLanguage("json", `{"input": `+schema+`}`) + "\n\n## S\n", []string{"error", `must be written "inputs"`}, true},
		{"Inputs for inputs", "# T\n\n" + inLanguage("json", `{"Inputs": `+schema+`}`) + "\n\n## S\n", []string{"error", `must be written "inputs"`}, true},
		{"input for inputs in yaml", "# T\n\n" + inLanguage("yaml", "input:\n  type: object") + "\n\n## S\n", []string{"error", `must be written "inputs"`}, true},
		{"inputs in a step", inStep(inLanguage("json", `{"inputs": `+schema+`}`)), []string{"error", "between the title and the first step"}, true},
	}
}

// unknownKeys are known keys of a challenge, misspelt.
func unknownKeys() (out []nearMiss) {
	for key, meant := range map[string]string{
		"aproval_mode": "approval_mode", "approval_mod": "approval_mode", "approvl": "approval", "requird": "required", "require": "required", //nolint:misspell // what is tested
		"evidnce": "evidence", "evidences": "evidence", "outputschema": "output_schema", "output-schema": "output_schema", "smapling": "sampling",
		"file": "files", "files_require": "files_required", "juge": "judge", "nam": "name", "typ": "type", "judges": "judge",
	} {
		challenge := strings.TrimSuffix(shellChallenge, "}") + `, "` + key + `": "x"}`
		out = append(out, nearMiss{"unknown key " + key, inStep(inLanguage("json", `{"challenge": `+challenge+`}`)), []string{"error", fmt.Sprintf("did you mean %q?", meant)}, false})
	}
	for _, key := range []string{"Required", "NAME", "Evidence"} {
		challenge := strings.TrimSuffix(shellChallenge, "}") + `, "` + key + `": true}`
		out = append(out, nearMiss{"upper case " + key, inStep(inLanguage("json", `{"challenge": `+challenge+`}`)), []string{"error", strings.ToLower(key)}, false})
	}
	for inner, meant := range map[string]string{`"sampling": {"temprature": 1}`: "temperature", `"judge": {"requird": true}`: "required", `"approval": {"phrse": "x"}`: "phrase"} {
		challenge := strings.TrimSuffix(shellChallenge, "}") + `, ` + inner + `}`
		out = append(out, nearMiss{"misspelt " + inner, inStep(inLanguage("json", `{"challenge": `+challenge+`}`)), []string{"error", fmt.Sprintf("did you mean %q?", meant)}, false})
	}
	for name, challenge := range map[string]string{
		"its object misspelt": `{"type": "shell", "shel": {"cmd": "make test"}}`, "its type misspelt": `{"type": "shel", "shell": {"cmd": "make test"}}`,
	} {
		out = append(out, nearMiss{name, inStep(inLanguage("json", `{"challenge": `+challenge+`}`)), []string{"error", "both must be the same word"}, false})
	}
	for _, key := range []string{"evidence_from", "approval_phrase"} {
		challenge := strings.TrimSuffix(shellChallenge, "}") + `, "` + key + `": "server"}`
		out = append(out, nearMiss{"a longer key, " + key, inStep(inLanguage("json", `{"challenge": `+challenge+`}`)), []string{"error", "did you mean"}, false})
	}
	return append(out, nearMiss{"a misspelt key without a type", inStep(inLanguage("json", `{"challenge": {"cmd": "make", "requird": true}}`)), []string{"error", `did you mean "required"?`}, false})
}

// brokenJSON is JSON with the mistakes that people make.
func brokenJSON() (out []nearMiss) {
	for name, tc := range map[string][2]string{
		"shell quotes":         {`{"challenge": {"type": "shell", "shell": {"cmd": "echo "hi""}}}`, `a quote inside a text is written \"`},
		"single quotes":        {`{'challenge': {'type': 'shell'}}`, "JSON has double quotes only"},
		"no quotes":            {`{challenge: {type: "shell"}}`, "stand in double quotes"},
		"typographic quotes":   {"{\u201cchallenge\u201d: {\u201ctype\u201d: \u201cshell\u201d}}", "straight quotes"},
		"a comma at the end":   {`{"challenge": {"type": "shell",}}`, "remove the comma"},
		"no comma":             {"{\"challenge\": {\"type\": \"shell\"\n\"required\": true}}", "between two members stands a comma"},
		"a comment":            {"{\"challenge\": {\n// run it\n\"type\": \"shell\"}}", "JSON has no comments"},
		"a line end in a text": {"{\"challenge\": {\"type\": \"shell\", \"shell\": {\"cmd\": \"a\nb\"}}}", `a line end inside a text is written \n`},
		"a lone backslash":     {`{"challenge": {"type": "shell", "shell": {"cmd": "grep \d"}}}`, `a backslash inside a text is written \\`},
		"True":                 {`{"challenge": {"type": "shell", "required": True}}`, "true, false and null"},
		"a brace too few":      {`{"challenge": {"type": "shell"}`, "not closed"},
		"a misspelt key":       {`{chalenge: {type: "shell"}}`, `begins with "chalenge"`},
	} {
		out = append(out, nearMiss{"JSON: " + name, inStep(inLanguage("json", tc[0])), []string{"error", tc[1]}, false})
	}
	return out
}

// brokenYAML is YAML with the mistakes that people make.
func brokenYAML() (out []nearMiss) {
	for name, tc := range map[string][2]string{
		"a tab":              {"challenge:\n\ttype: shell", "spaces, not with tabs"},
		"a template":         {"challenge:\n  type: shell\n  shell:\n    cmd: {{ input.cmd }}", "in quotes"},
		"a colon in a text":  {"challenge:\n  type: shell\n  shell:\n    cmd: echo a: b", "put the text in quotes"},
		"a backslash":        {"challenge:\n  type: shell\n  shell:\n    cmd: \"grep \\d\"", "single quotes"},
		"an at sign":         {"challenge:\n  type: shell\n  shell:\n    cmd: @make", "put the text in quotes"},
		"the same key twice": {"challenge:\n  type: shell\n  type: mcp", "already defined"},
		"an anchor":          {"challenge: &x\n  type: shell", "anchors and aliases are not allowed"},
		"a tag":              {"challenge:\n  type: !!str shell", "tags"},
		"an octal number":    {"challenge:\n  type: shell\n  shell:\n    cmd: x\n    timeout_seconds: 010", "write it in decimals"},
		"infinity":           {"challenge:\n  type: shell\n  shell:\n    timeout_seconds: .inf", "not a number of JSON"},
		"yes":                {"challenge:\n  type: shell\n  required: yes", "true or false"},
		"nothing below":      {"challenge:", "must be an object"},
		"a text":             {"challenge: make test", "must be an object"},
		"a list":             {"challenge:\n  - type: shell", "must be an object"},
		"a misspelt key":     {"challenge:\n  type: shell\n  requird: true", `did you mean "required"?`},
		"two documents":      {"challenge:\n  type: shell\n---\nchallenge:\n  type: mcp", "invalid YAML"},
	} {
		out = append(out, nearMiss{"YAML: " + name, inStep(inLanguage("yaml", tc[0])), []string{"error", tc[1]}, false})
	}
	return out
}

// bareTemplates are templates of other programs, and misspelt ones.
func bareTemplates() (out []nearMiss) {
	const inputs = "# T\n\n```json\n{\"inputs\": {\"properties\": {\"primary\": {}}}}\n```\n\n## Build\n\n```json\n" +
		`{"challenge": {"type": "shell", "shell": {"cmd": "make"}}}` + "\n```\n\n## S\n\n"
	for template, meant := range map[string]string{
		"{{primary}}": "{{ input.primary }}", "{{ primary }}": "{{ input.primary }}", "{{ inputs.primary }}": "{{ input.primary }}", "{{ Input.primary }}": "{{ input.primary }}",
		"{{ .input.primary }}": "{{ input.primary }}", "{{ $input.primary }}": "{{ input.primary }}", "{{ input[\\\"primary\\\"] }}": "{{ input.primary }}",
		"{{ params.primary }}": "{{ input.primary }}", "{{ arguments.primary }}": "{{ input.primary }}", "{{ imput.primary }}": "{{ input.primary }}",
		"{{ input.primary | upper }}": "{{ input.primary }}", "{input.primary}": "{{ input.primary }}", "${input.primary}": "{{ input.primary }}",
		"${{ input.primary }}": "write {{ input.primary }} alone", "{{ step.build.out }}": "{{ steps.build.out }}", "{{ steps.build }}": "{{ steps.build.<path> }}",
		"{{ build.out }}": "{{ steps.build.out }}", "{{ build }}": "{{ steps.build.<path> }}", "{{ steps[\\\"build\\\"].out }}": "{{ steps.build.out }}",
		"{{ outputs.build.out }}": "{{ steps.build.out }}", "{{ input }}": "templates are {{ input.<path> }}", "{{ unknown }}": "{{ input.unknown }}",
	} {
		challenge := `{"challenge": {"type": "shell", "shell": {"cmd": "echo ` + template + `"}}}`
		out = append(out, nearMiss{"template " + template, inputs + inLanguage("json", challenge), []string{"warning", meant}, true})
	}
	for template, meant := range map[string]string{"{{primary}}": "{{ input.primary }}", "{{ inputs.primary }}": "{{ input.primary }}", "{{ build.out }}": "{{ steps.build.out }}"} {
		out = append(out, nearMiss{"template in a text: " + template, inputs + "Look at " + template + ".\n", []string{"warning", meant}, true})
	}
	return out
}

// framings are headings of the earlier server that are not steps.
func framings() (out []nearMiss) {
	step := "## Build\n\n" + inLanguage("json", `{"challenge": `+shellChallenge+`}`) + "\n\n"
	for _, heading := range []string{"Natural Language Triggers", "Activation Patterns", "natural language triggers"} {
		out = append(out, nearMiss{"first " + heading, "# T\n\n## " + heading + "\n\nDeploy it\n\n" + step, []string{"warning", heading, `triggers: ["Deploy it"]`}, true})
	}
	for _, heading := range []string{"Completion Rule", "Reward Signal"} {
		out = append(out, nearMiss{"last " + heading, "# T\n\n" + step + "## " + heading + "\n\nAll of it.\n", []string{"warning", heading, "part of the description"}, true})
	}
	return out
}
