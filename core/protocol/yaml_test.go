package protocol_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/protocol"
)

// A challenge in YAML is kept as its JSON, whatever the form of its texts.
func TestChallengesInYAML(t *testing.T) {
	for name, tc := range map[string]struct{ yaml, want string }{
		"quotes in a text": {
			"challenge:\n  type: shell\n  shell:\n    cmd: |\n      echo \"it's\" | grep '\\d'\n      exit 1\n    timeout_seconds: 60\n  required: false",
			`{"type":"shell","shell":{"cmd":"echo \"it's\" | grep '\\d'\nexit 1\n","timeout_seconds":60},"required":false}`,
		},
		"a folded text":   {"challenge:\n  type: x\n  x:\n    a: >-\n      one\n      two\n    b: plain\n      text", `{"type":"x","x":{"a":"one two","b":"plain text"}}`},
		"flow":            {`challenge: {type: x, x: {list: [1, -2.50, "a", true, null, []], "a b": {}}}`, `{"type":"x","x":{"list":[1,-2.5,"a",true,null,[]],"a b":{}}}`},
		"lists":           {"challenge:\n  type: x\n  files:\n    - path: a\n      exists: true\n    - path: b", `{"type":"x","files":[{"path":"a","exists":true},{"path":"b"}]}`},
		"words that are":  {"# why\n---\nchallenge: # here\n  type: x\n  x:\n    a: no\n    b: 2024-01-01\n    c: 12:30\n    d: ~\n    1: 2\n", `{"type":"x","x":{"a":"no","b":"2024-01-01","c":"12:30","d":null,"1":2}}`},
		"a contract":      {"contract:\n  type: x\n  required: true", `{"type":"x","required":true}`},
		"without a type":  {"challenge:\n  mcp:\n    tool_name: t\n  name: n", `{"type":"mcp","mcp":{"tool_name":"t"},"name":"n"}`},
		"JSON in yaml":    {"{\"challenge\": {\"type\": \"x\"}}", `{"type":"x"}`},
		"a template":      {"challenge:\n  type: x\n  x:\n    cmd: echo {{ input.a }}\n    b: '{{ input.b }}'", `{"type":"x","x":{"cmd":"echo {{ input.a }}","b":"{{ input.b }}"}}`},
		"other keys":      {"challenge:\n  type: x\nnote: y", `{"type":"x"}`},
		"in upper case":   {"challenge:\n  type: \"\\u00e9\"", `{"type":"é"}`},
		"a large integer": {"challenge:\n  type: x\n  x: {n: 12345678901234567890, s: 1_000}", `{"type":"x","x":{"n":12345678901234567890,"s":1000}}`},
	} {
		t.Run(name, func(t *testing.T) {
			for _, language := range []string{"yaml", "yml", "YAML"} {
				s := parseOne(t, "# T\n## S\nbody\n"+inLanguage(language, tc.yaml)+"\n## next\n").Steps[0]
				var got, want any
				if json.Unmarshal(s.Challenge, &got) != nil || json.Unmarshal([]byte(tc.want), &want) != nil {
					t.Fatalf("challenge = %s", s.Challenge)
				}
				if diff := cmp.Diff(want, got); diff != "" || s.Text != "## S\nbody" {
					t.Errorf("text %q, challenge (-want +got):\n%s", s.Text, diff)
				}
			}
		})
	}
}

// Findings of drivers are reported at their places in the YAML.
func TestPlacesInYAML(t *testing.T) {
	doc := "# T\n## S\n\n1. é\n\n   " + strings.ReplaceAll(inLanguage("yaml", `challenge:
  type: shell
  shell:
    cmd: echo {{ input.a }} "{{ input.b }}"
    env: {A: "x"}
    long: |
      first {{ input.c }}
  files:
    - path: a
    - {path: b}`), "\n", "\n   ")
	s := parseOne(t, doc).Steps[0]
	got := map[string]protocol.Place{}
	for _, pointer := range []string{"", "/type", "/shell", "/shell/cmd", "/shell/env/A", "/shell/lacking", "/shell/long", "/files/0/path", "/files/1/path"} {
		got[pointer] = s.Position(pointer)
	}
	want := map[string]protocol.Place{
		"": {8, 6}, "/type": {8, 12}, "/shell": {10, 8}, "/shell/cmd": {10, 13}, "/shell/env/A": {11, 17}, "/shell/lacking": {10, 8},
		"/shell/long": {12, 14}, "/files/0/path": {15, 16}, "/files/1/path": {16, 17},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("places (-want +got):\n%s", diff)
	}
	var at []protocol.Place
	for _, d := range protocol.CheckReferences(protocol.Chain{Steps: []protocol.Step{s}, Inputs: json.RawMessage(`{"properties":{}}`)}) {
		at = append(at, protocol.Place{Line: d.Line, Column: d.Column})
	}
	if diff := cmp.Diff([]protocol.Place{{10, 18}, {10, 13}, {13, 16}}, at); diff != "" {
		t.Errorf("templates (-want +got):\n%s", diff)
	}
}

// A challenge without a type has the type that its only key names.
func TestTypeByOnlyKey(t *testing.T) {
	for challenge, want := range map[string]string{
		`{"mcp": {"tool_name": "t"}}`:                              `{"type": "mcp", "mcp": {"tool_name": "t"}}`,
		"{\n  \"mcp\": {},\n  \"required\": false\n}":              "{\n  \"type\": \"mcp\",\n  \"mcp\": {},\n  \"required\": false\n}",
		`{"cmd": "make"}`:                                          `{"cmd": "make"}`,
		`{"a": {}, "b": {}}`:                                       `{"a": {}, "b": {}}`,
		`{"sampling": {"system": "x"}, "judge": {}}`:               `{"sampling": {"system": "x"}, "judge": {}}`,
		`{"type": "x", "y": {}}`:                                   `{"type": "x", "y": {}}`,
		`{"name": "n", "files": [{"path":"a"}], "user_input": {}}`: `{"type": "user_input", "name": "n", "files": [{"path":"a"}], "user_input": {}}`,
		`{}`: `{}`,
	} {
		s := parseOne(t, "# T\n## S\n"+block(challenge)).Steps[0]
		if got := string(s.Challenge); got != want {
			t.Errorf("challenge %s is kept as %s, want %s", challenge, got, want)
		}
	}
	_, found := protocol.Parse([]byte("# T\n## S\n" + block(`{"mcp": {}, "name": "2", "Required": true}`)))
	if len(found) != 2 || found[0].Column != 35 || found[1].Column != 40 || found[0].Line != 4 {
		t.Errorf("Parse found %v, want the name at 4:35 and the key at 4:40", found)
	}
}
