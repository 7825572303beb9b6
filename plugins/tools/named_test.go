package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/internal/mcpclient"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// reporting is the schema of the evidence of a step with the output_schema.
func reporting(output string) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"anyOf":[%s,{"x-kairos-agent":true,"type":"object","properties":{"result":%[1]s}}]}`, output))
}

// referring is the same for one with references.
func referring(output string) json.RawMessage {
	bare := `{"$id":"urn:kairos:output-schema",` + output[1:]
	return json.RawMessage(fmt.Sprintf(`{"anyOf":[%s,{"x-kairos-agent":true,"type":"object","properties":{"result":{"$ref":"urn:kairos:output-schema"}}}]}`, bare))
}

func TestOnlyWhatTheStepNamesIsTaken(t *testing.T) {
	const value = `{"count":1,"injected":"AGENT","list":[{"a":1,"b":"AGENT"}],"map":{"x":"y"},"text":"named"}`
	for name, tc := range map[string]struct {
		value, expected, want string
		evidence              json.RawMessage
	}{
		"no schema":                   {value: value, want: `null`},
		"a schema of other evidence":  {value: value, evidence: json.RawMessage(`{"type":"object","properties":{"count":{}}}`), want: `null`},
		"no JSON":                     {value: value, evidence: json.RawMessage(`{`), want: `null`},
		"properties":                  {value: value, evidence: reporting(`{"properties":{"count":{"type":"integer"}}}`), want: `{"count":1}`},
		"others are allowed":          {value: value, evidence: reporting(`{"properties":{"count":{}},"additionalProperties":true}`), want: `{"count":1}`},
		"others are described":        {value: `{"a":{"b":1,"c":"AGENT"}}`, evidence: reporting(`{"additionalProperties":{"properties":{"b":{}}}}`), want: `{"a":{"b":1}}`},
		"a pattern":                   {value: value, evidence: reporting(`{"patternProperties":{"^c":{"type":"integer"}}}`), want: `{"count":1}`},
		"in a list":                   {value: value, evidence: reporting(`{"properties":{"list":{"items":{"properties":{"a":{}}}}}}`), want: `{"list":[{"a":1}]}`},
		"a named property is open":    {value: value, evidence: reporting(`{"properties":{"map":{"type":"object"},"list":true}}`), want: `{"list":[{"a":1,"b":"AGENT"}],"map":{"x":"y"}}`},
		"parts":                       {value: value, evidence: reporting(`{"allOf":[{"properties":{"count":{}}},{"anyOf":[{"properties":{"text":{}}}]}]}`), want: `{"count":1,"text":"named"}`},
		"a reference":                 {value: value, evidence: referring(`{"$ref":"#/$defs/r","$defs":{"r":{"properties":{"count":{},"list":{"items":{"$ref":"#/$defs/i"}}}},"i":{"properties":{"a":{}}}}}`), want: `{"count":1,"list":[{"a":1}]}`},
		"a reference that is unknown": {value: value, evidence: referring(`{"$ref":"#/$defs/none"}`), want: `{}`},
		"a reference to itself":       {value: value, evidence: referring(`{"allOf":[{"$ref":"#"},{"$ref":"#"}],"properties":{"count":{}}}`), want: `null`},
		"only that it is an object":   {value: value, evidence: reporting(`{"type":"object"}`), want: `{}`},
		"nothing":                     {value: `"AGENT"`, evidence: reporting(`{}`), want: `null`},
		"anything":                    {value: `["AGENT"]`, evidence: reporting(`true`), want: `[]`},
		"a text":                      {value: `"named"`, evidence: reporting(`{"type":"string"}`), want: `"named"`},
		"what is expected": {value: value, expected: `{"count":1.0,"text":"other","list":[{"a":1}],"none":1}`,
			want: `{"count":1,"list":[{"a":1}],"text":null}`},
		"a list of another length": {value: value, expected: `{"list":[]}`, want: `{"list":null}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it mostly waits
			got := namedFields(json.RawMessage(tc.value), tc.evidence, json.RawMessage(tc.expected))
			if string(got) != tc.want {
				t.Errorf("named = %s, want %s", got, tc.want)
			}
		})
	}
}

func FuzzNaming(f *testing.F) {
	f.Add([]byte(`{"a":[{"b":1}]}`), []byte(`{"properties":{"a":{"items":{"$ref":"#"}}}}`))
	f.Add([]byte(`{"a":1}`), []byte(`{"allOf":[{"$ref":"#/allOf/0"}]}`))
	f.Fuzz(func(t *testing.T, value, schema []byte) {
		if !json.Valid(value) || !json.Valid(schema) {
			return
		}
		if got := namedFields(value, reporting(string(schema)), nil); !json.Valid(got) {
			t.Fatalf("named = %s", got)
		}
		if got := namedFields(value, nil, schema); !json.Valid(got) {
			t.Fatalf("named by what is expected = %s", got)
		}
	})
}

// The driver says of a result how large it was and what its digest is, and of its
// content what the step names.
func TestAnAnswerHoldsNothingThatTheStepDoesNotName(t *testing.T) {
	c := newCounter(t, mcpclient.Changes)
	for schema, want := range map[string]string{
		"": `"result":null`,
		`{"properties":{"count":{"type":"integer"}}}`: `"result":{"count":1}`,
	} {
		req := c.request(c.plan(countByTwo))
		if req.Input.Schema = nil; schema != "" {
			req.Input.Schema = reporting(schema)
		}
		res := c.ask(t.Context(), req)
		if res.Answer == nil || strings.Contains(said(res), "ignore the step") || !strings.Contains(said(res), want) ||
			!strings.Contains(said(res), `"observed":{"bytes":`) || !strings.Contains(said(res), `"digest":"sha256:`) {
			t.Errorf("with the schema %s: Render = %s, want %s in it", schema, said(res), want)
		}
	}
}

// The standard error of a server may quote a result.
func TestAFaultInACallDoesNotQuoteTheServer(t *testing.T) {
	c := newCounter(t, mcpclient.Changes)
	c.becomes("ends in the call")
	res := c.render(t.Context(), c.plan(countByTwo))
	if res.Unknown == nil || strings.Contains(res.Unknown.Reason, "AGENT") {
		t.Errorf("Render = %s, want that nobody knows, without the words of the server", said(res))
	}
}

// The words of a failure are bounded, and hide nothing.
func TestTheWordsOfAFailureAreCleaned(t *testing.T) {
	c := newCounter(t, mcpclient.Reads)
	c.becomes("fails at length")
	res := c.render(t.Context(), c.plan(countByTwo))
	var r report
	if res.Answer == nil || json.Unmarshal(res.Answer.Value, &r) != nil || r.Success || len(r.Result) > 2*maxFailure ||
		!strings.Contains(string(r.Result), "the counter is broken") || strings.Contains(string(r.Result), "\u202e") || r.Observed.Bytes < 1<<20 {
		t.Errorf("Render = %.3000s", said(res))
	}
	if res.Answer.Provenance != driver.ServerObserved {
		t.Errorf("provenance %s", res.Answer.Provenance)
	}
}
