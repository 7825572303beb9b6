package protocol_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

func fenced(json string) string { return "```json\n" + json + "\n```\n" }

func document(json string) string {
	return "# T\n\n## S\n\nx\n\n" + fenced(`{"challenge":`+json+`}`)
}

func numbered(n int, part string) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = strings.ReplaceAll(part, "#", fmt.Sprint(i))
	}
	return strings.Join(parts, ",")
}

// The values and templates of all blocks of a document are counted together, and
// the finding names the limit.
func TestWhatTheBlocksOfADocumentHoldIsBounded(t *testing.T) {
	steps := func(n int, challenge string) string {
		return "# T\n" + strings.Repeat("\n## S\n\n"+fenced(`{"challenge":`+challenge+`}`), n)
	}
	pattern := "(ab?c){999}"
	for name, tc := range map[string]struct{ document, want string }{
		"a challenge of 2 MiB":      {document(`{"type":"a","a":"` + strings.Repeat("x", 2<<20) + `"}`), "a challenge or inputs may have at most 1048576"},
		"inputs of 2 MiB":           {"# T\n\n" + fenced(`{"inputs":{"title":"`+strings.Repeat("x", 2<<20)+`"}}`) + "\n## S\n\nx\n", "a challenge or inputs may have at most 1048576"},
		"a text of 2 MiB":           {"# T\n\n## S\n\n" + strings.Repeat("x", 2<<20), "the text of the step has 2097153 bytes; at most 1048576"},
		"a text without a step":     {"# T\n\n" + strings.Repeat("x", 2<<20), "the text of the step has 2097157 bytes; at most 1048576"},
		"a description of 2 MiB":    {"# T\n\n" + strings.Repeat("x", 2<<20) + "\n\n## S\n\nx\n", "the description has"},
		"five challenges of 1 MB":   {steps(5, `{"type":"a","a":"`+strings.Repeat("x", 1_000_000)+`"}`), "more than 4194304 bytes"},
		"400,000 values":            {steps(4, `{"type":"a","a":[`+strings.Repeat("1,", 100_000)+`1]}`), "more than 200000 JSON values"},
		"20,000 templates":          {steps(4, `{"type":"a","a":"`+strings.Repeat("{{ input.a }}", 5_000)+`"}`), "more than 10000 templates"},
		"many patterns":             {steps(90, `{"type":"a","a":{"pattern":"`+pattern+`"}}`), "more than 250000 steps of patterns"},
		"expressions for files":     {steps(4, `{"type":"a","files":[`+numbered(30, `{"path":"a","regex":"#`+pattern+`"}`)+`]}`), "more than 250000 steps of patterns"},
		"names of properties":       {steps(90, `{"type":"a","output_schema":{"patternProperties":{"`+pattern+`":true}}}`), "more than 250000 steps of patterns"},
		"large schemas":             {steps(9, `{"type":"a","output_schema":{"properties":{`+numbered(2_500, `"a#":{}`)+`}}}`), "more than 100000 parts of schemas"},
		"a key of 2000 bytes":       {document(`{"type":"a","` + strings.Repeat("k", 2000) + `":1}`), "the keys that lead to a value have more than 1024 bytes together"},
		"keys beside the challenge": {"# T\n\n## S\n\n" + fenced(`{`+numbered(1000, `"k#":1`)+`,"challenge":{"type":"a"}}`), `1000 keys beside "challenge" are dropped`},
	} {
		t.Run(name, func(t *testing.T) {
			_, found := protocol.Parse([]byte(tc.document))
			if len(found) > 20 || !strings.Contains(fmt.Sprint(found), tc.want) || len(fmt.Sprint(found)) > 10_000 {
				t.Errorf("Parse finds %d: %.500v, want %q", len(found), found, tc.want)
			}
		})
	}
}

// A template costs no more because much stands before it.
func TestTemplatesAreReadOnceFromOneToTheNext(t *testing.T) {
	const n = 9_000
	command := strings.Repeat("{{ input.a }}"+strings.Repeat(" x", 45), n)
	chains, found := protocol.Parse([]byte("# T\n\n" + fenced(`{"inputs":{"properties":{"a":{"type":"string"}}}}`) +
		"\n## S\n\n" + fenced(`{"challenge":{"type":"shell","shell":{"cmd":"`+command+`"}}}`)))
	if len(chains) != 1 || len(found) != 0 {
		t.Fatalf("Parse = %d chains, %.300v", len(chains), found)
	}
	began := time.Now()
	c := chains[0]
	c.Steps[0].Templates = []driver.Template{{Pointer: "/shell/cmd", Escaping: driver.EscapeShell}}
	if found := protocol.CheckReferences(c); len(found) != 0 {
		t.Errorf("CheckReferences = %.300v, want nothing", found)
	}
	filled, missing, err := protocol.Fill(c.Steps[0].Challenge, c.Steps[0].Templates, protocol.Scope{Input: json.RawMessage(`{"a":"it's"}`)})
	if err != nil || len(missing) != 0 || strings.Count(string(filled), `'it'\\''s'`) != n {
		t.Errorf("Fill = %d bytes, %v, %v, want every template filled", len(filled), missing, err)
	}
	if took := time.Since(began); took > 10*time.Second { // it took a minute
		t.Errorf("checking and filling %d templates took %s", n, took)
	}
}

// The place of a second template is the same as if the command were read from its
// start.
func TestThePlaceOfATemplateDependsOnTheWholeCommand(t *testing.T) {
	for command, want := range map[string]string{
		`echo {{ input.a }} {{ input.a }}`:              "",
		`echo {{ input.a }} '{{ input.a }}'`:            "inside quotes",
		`echo '{{ input.a }}' {{ input.a }}`:            "inside quotes",
		`echo {{ input.a }}<<{{ input.a }}`:             "behind a here-document",
		`echo {{ input.a }}<<<{{ input.a }}`:            "",
		`echo {{ input.a }} # {{ input.a }}`:            "in a comment",
		`echo {{ input.a }} \{{ input.a }}`:             "behind a backslash",
		"echo {{ input.a }} \\\\{{ input.a }}":          "",
		`x="$(echo {{ input.a }})"; {{ input.a }}`:      "behind a substitution",
		`echo {{ input.a }} $'{{ input.a }}'`:           "behind $'...'",
		"echo {{ input.a }} # it's\necho {{ input.a }}": "",
		`echo "a" {{ input.a }} "b" {{ input.a }}`:      "",
		`echo {{ input.a }}(({{ input.a }}`:             "behind ((...))",
	} {
		raw, err := json.Marshal(map[string]any{"type": "shell", "shell": map[string]any{"cmd": command}})
		if err != nil {
			t.Fatal(err)
		}
		c := protocol.Chain{Title: "T", Steps: []protocol.Step{{
			Label: "S", Name: "s", Challenge: raw, Templates: []driver.Template{{Pointer: "/shell/cmd", Escaping: driver.EscapeShell}},
		}}}
		found := fmt.Sprint(protocol.CheckReferences(c))
		_, _, err = protocol.Fill(raw, c.Steps[0].Templates, protocol.Scope{Input: json.RawMessage(`{"a":"v"}`)})
		if strings.Contains(found, "cannot stand "+want) != (want != "") || (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: CheckReferences = %s, Fill = %v, want %q", command, found, err, want)
		}
	}
}
