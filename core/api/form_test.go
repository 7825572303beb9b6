package api_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/api"
)

func TestFormsAskForWhatTheSchemaSays(t *testing.T) {
	for name, tc := range map[string]struct{ schema, want string }{
		"numbers": {`{"type":"object","properties":{"exit_code":{"type":"integer","description":"exit code\n of the command"},"n":{"type":"number"}},"required":["exit_code"]}`,
			`{"exit_code":"<integer: exit code of the command>","n":"<number, optional>"}`},
		"choices": {`{"type":"object","properties":{"c":{"enum":["a",1]},"k":{"const":true}},"required":["c","k"]}`, `{"c":"<one of \"a\", 1>","k":"<exactly true>"}`},
		"titled": {`{"type":"object","properties":{"room":{"type":"string","oneOf":[{"const":"r1","title":"Large"},{"const":"r2"}]},
			"days":{"type":"array","items":{"anyOf":[{"const":"mo","title":"Monday"}]}}},"required":["room","days"]}`,
			`{"days":["<one of \"mo\">"],"room":"<one of \"r1\", \"r2\">"}`},
		"length":       {`{"type":"object","properties":{"t":{"type":"string","minLength":10,"title":"Text"}},"required":["t"]}`, `{"t":"<string of at least 10 characters: Text>"}`},
		"several":      {`{"type":"object","properties":{"t":{"type":["string","null"]}},"required":["t"]}`, `{"t":"<string or null>"}`},
		"nested":       {`{"type":"object","properties":{"o":{"type":"object","properties":{"a":{"type":"array","items":{"type":"string"}}},"required":["a"]}},"required":["o"]}`, `{"o":{"a":["<string>"]}}`},
		"free object":  {`{"type":"object","properties":{"o":{"type":"object","additionalProperties":{}}},"required":["o"]}`, `{"o":"<object>"}`},
		"first":        {`{"anyOf":[{"type":"object","properties":{"a":{}},"required":["a"]},{"type":"string"}]}`, `{"a":"<anything>"}`},
		"reported":     {`{"oneOf":[{"type":"string"},{"x-kairos-agent":true,"type":"object","properties":{"b":{"type":"boolean"}},"required":["b"]}]}`, `{"b":"<boolean>"}`},
		"plain":        {`{"type":"string"}`, `"<string: what challenge.description demands>"`},
		"says nothing": {``, `"<anything: what challenge.description demands>"`},
		"true":         {`true`, `"<anything: what challenge.description demands>"`},
		"nonsense":     {`{"type":7,"enum":{},"anyOf":[],"properties":[]}`, `"<anything: what challenge.description demands>"`},
		"endless":      {strings.Repeat(`{"type":"array","items":`, 40) + `{}` + strings.Repeat(`}`, 40), `[[[[[["<array: what challenge.description demands>"]]]]]]`},
		"huge":         {`{"type":"object","properties":{"a":{"enum":["` + strings.Repeat("x", 70) + strings.Repeat(`","`+strings.Repeat("x", 70), 18) + `"]},"b":{}}}`, ``},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := api.Encode(api.Form(json.RawMessage(tc.schema)), "") // as an agent reads it
			got := string(b)
			if err != nil {
				t.Fatal(err)
			}
			if tc.want != "" && got != tc.want {
				t.Errorf("form = %s, want %s", got, tc.want)
			}
			if len(got) > 9<<10 {
				t.Errorf("the form has %d bytes", len(got))
			}
		})
	}
}
