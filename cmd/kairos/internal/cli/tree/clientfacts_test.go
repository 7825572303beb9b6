package tree

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/decision"
)

func TestClientFactsAreReadByTheirNames(t *testing.T) {
	want := decision.ClientFacts{
		Name: "n", Version: "1", Era: "2025-11-25", Transport: "stdio", Sampling: true, Roots: true,
		Elicitation:  decision.ElicitationFacts{Form: true, URL: true},
		Capabilities: map[string]any{"experimental": map[string]any{"acme/confirm": map[string]any{}}},
	}
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := readClient(text)
	if err != nil {
		t.Fatalf("readClient(%s): %v", text, err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("readClient(%s) (-want +got):\n%s", text, diff)
	}
	for name, tc := range map[string]struct{ text, want string }{
		"a key of no fact":  {`{"samplign": true}`, `/samplign: is not a fact of a client; did you mean "sampling"? there are name, version, era, transport, elicitation, sampling, roots, capabilities`},
		"nothing close":     {`{"colour": true}`, `/colour: is not a fact of a client; there are`},
		"a key further in":  {`{"elicitation": {"forms": true}}`, `/elicitation/forms: is not a fact of a client; did you mean "form"? there are form, url`},
		"as MCP has it":     {`{"elicitation": {"form": {}}}`, `/elicitation/form: must be true or false, not an object`},
		"another case":      {`{"Sampling": true}`, `did you mean "sampling"?`},
		"capabilities":      {`{"capabilities": ["sampling"]}`, `/capabilities: must be an object, as the client declares it in MCP`},
		"no object":         {`[]`, "must be an object, not a list"},
		"twice":             {`{"roots": true, "roots": false}`, "occurs twice"},
		"two at once":       {`{"x": 1, "era": 2025}`, "/era: must be a string, not a number"},
		"not what it seems": {`client: me`, "not JSON"},
		"nothing":           {``, "empty"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := readClient([]byte(tc.text)); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("readClient(%s) = %v, want %s", tc.text, err, tc.want)
			}
		})
	}
}
