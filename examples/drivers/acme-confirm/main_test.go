package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/drivertest"
)

func TestContract(t *testing.T) { drivertest.RunFile(t, definition(), "samples.json") }

func TestTheQuestionSaysWhatIsConfirmed(t *testing.T) {
	res, err := confirmer{}.Render(t.Context(), driver.RenderRequest{
		Input:       driver.Input{ID: "confirmation", Kind: kind, Description: "Release 2.4.1?"},
		Step:        driver.Step{Protocol: "Release at Acme", Label: "Release"},
		Client:      driver.Client{Capabilities: json.RawMessage(`{"experimental":{"acme/confirm":{}}}`)},
		Diagnostics: []driver.Diagnostic{driver.Problem("/by", "must be a name")},
	})
	if err != nil || res.ClientRequest == nil {
		t.Fatalf("Render = %+v, %v, want a request of the client", res, err)
	}
	const want = `{"question":"Release 2.4.1?","protocol":"Release at Acme","step":"Release","refused":["must be a name"]}`
	if got := string(res.ClientRequest.Params); res.ClientRequest.Method != method || got != want {
		t.Errorf("request = %s %s, want %s %s", res.ClientRequest.Method, got, method, want)
	}
}

func TestAnswers(t *testing.T) {
	for name, tc := range map[string]struct {
		kind, raw string
		want      string // the value; empty: it is not an answer
	}{
		"of its own kind": {kind, `{"answer":"yes","by":"alice"}`, `{"by":"alice","confirmed":true}`},
		"evidence":        {driver.KindEvidence, `{"answer":"yes","by":"alice"}`, `{"confirmation":"approved"}`},
		"an approval":     {driver.KindApproval, `{"answer":"yes","by":"alice"}`, `{"confirmation":"approved"}`},
		"another word":    {kind, `{"answer":"YES","by":"alice"}`, ""},
		"a long name":     {kind, `{"answer":"yes","by":"` + strings.Repeat("x", 201) + `"}`, ""},
		"a list":          {kind, `["yes"]`, ""},
		"no JSON":         {kind, `{`, ""},
	} {
		res, err := confirmer{}.Interpret(t.Context(), driver.InterpretRequest{Input: driver.Input{Kind: tc.kind}, Raw: json.RawMessage(tc.raw)})
		switch {
		case err != nil:
			t.Errorf("%s: Interpret: %v", name, err)
		case tc.want == "" && res.Invalid == nil:
			t.Errorf("%s: Interpret = %+v, want that it is not an answer", name, res)
		case tc.want != "" && (res.Answer == nil || string(res.Answer.Value) != tc.want || res.Answer.Provenance != driver.ClientAttested):
			t.Errorf("%s: Interpret = %+v, want %s, attested by the client", name, res, tc.want)
		}
	}
}
