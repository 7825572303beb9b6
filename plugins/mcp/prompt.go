package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/prompt/untrusted"
	"github.com/kairos-mcp/kairos/sdk/schema"
)

// maxStepText is how many bytes of a step's text go into a prompt.
const maxStepText = 8000

// outputID names an output schema inside the evidence schema, where pointers
// "#/..." would otherwise lead to the wrong place.
const outputID = "urn:kairos:output-schema"

const envelopeSchema = `{"type":"object","properties":{"tool_name":{"type":"string"},"result":true,` +
	`"success":{"type":"boolean"},"arguments":{"type":"object"}},` +
	`"required":["tool_name","result","success"],"additionalProperties":false}`

// An honest failure must be sayable, or a model is pushed to invent a success.
const failureSchema = `{"type":"object","properties":{"success":{"const":false},"error":{"type":"string"}},` +
	`"required":["success","error"],"additionalProperties":false}`

// evidenceSchema is the JSON Schema of the evidence: the envelope, or with an
// output schema the bare result, the envelope around it, or a failure. Agents
// report the envelope, so it is marked as what they are to fill in.
func evidenceSchema(output json.RawMessage) (json.RawMessage, error) {
	if output == nil {
		return json.RawMessage(envelopeSchema), nil
	}
	strict, err := schema.Strict(output)
	if err != nil {
		return nil, err
	}
	bare, again, err := embedded(strict)
	if err != nil {
		return nil, err
	}
	return json.RawMessage(fmt.Sprintf(`{"anyOf":[%s,{"x-kairos-agent":true,"type":"object","properties":{"tool_name":{"type":"string"},"result":%s,`+
		`"success":{"const":true},"arguments":{"type":"object"}},`+
		`"required":["tool_name","result","success"],"additionalProperties":false},%s]}`, bare, again, failureSchema)), nil
}

// embedded returns a schema for use inside another one, twice: the first place
// holds it, the second may only refer to the first.
func embedded(s json.RawMessage) (first, second json.RawMessage, err error) {
	if !strings.Contains(string(s), `"$ref"`) && !strings.Contains(string(s), `"$schema"`) && !strings.Contains(string(s), `"$id"`) {
		return s, s, nil
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(s, &object); err != nil {
		return nil, nil, fmt.Errorf("output schema: %w", err)
	}
	id := object["$id"]
	if id == nil {
		id = json.RawMessage(`"` + outputID + `"`)
		object["$id"] = id
	}
	first, err = json.Marshal(object)
	return first, json.RawMessage(`{"$ref":` + string(id) + `}`), err
}

// systemPrompt is for a model that is asked for the evidence. It may have no tools, and
// then it must be able to say so: an order that it cannot follow makes it invent.
func systemPrompt(p params) string {
	const honest = " Report what the tool really returned; never invent a result."
	asked := fmt.Sprintf("You are solving a KAIROS challenge. Its evidence is the result of the MCP tool %s. If you can call tools here, call it with the arguments given. ", p.Name)
	if p.output != nil {
		return asked + "Return its bare result as one JSON object that matches the given JSON Schema." + honest +
			` If you have no tools, or the call fails, return {"success": false, "error": "<why>"}.`
	}
	return asked + `Return JSON: {"tool_name": "<tool called>", "arguments": {<arguments used>}, "result": <what the tool returned>, "success": true}.` + honest +
		` If you have no tools, or the call fails, set "success" to false and put the reason into "result".`
}

func userPrompt(p params, step driver.Step) string {
	var b strings.Builder
	fmt.Fprintf(&b, "The MCP tool %s", p.Name)
	if p.Arguments != nil {
		fmt.Fprintf(&b, " with these arguments:\n%s", untrusted.Block(string(p.Arguments)))
	} else {
		b.WriteString(".")
	}
	if p.Expected != nil {
		fmt.Fprintf(&b, "\n\nExpected result:\n%s", untrusted.Block(string(p.Expected)))
	}
	if text := strings.TrimSpace(step.Text); text != "" {
		fmt.Fprintf(&b, "\n\nThe step:\n%s", cut(text, maxStepText))
	}
	return b.String()
}

func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "..."
}

func description(p params) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Call the MCP tool %s", p.Name)
	if p.Arguments != nil {
		fmt.Fprintf(&b, " with the arguments %s", p.Arguments)
	}
	b.WriteString(" and report its result.")
	if p.Expected != nil {
		fmt.Fprintf(&b, " Expected result: %s.", p.Expected)
	}
	b.WriteString(" Really call it; do not fabricate the result.")
	return b.String()
}
