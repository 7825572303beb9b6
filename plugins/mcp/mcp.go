package main

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/fields"
	"github.com/kairos-mcp/kairos/sdk/plain"
	"github.com/kairos-mcp/kairos/sdk/prompt"
	"github.com/kairos-mcp/kairos/sdk/schema"
	"github.com/kairos-mcp/kairos/sdk/settings"
	"github.com/kairos-mcp/kairos/sdk/shape"
)

const (
	typeName = "mcp"
	inputID  = "evidence"
)

// Error codes of the tool contract.
const (
	codeMissing = "MISSING_FIELD"
	codeFailed  = "COMMAND_FAILED"
)

func definition() driver.Driver {
	t := tool{settings.New[prompt.Own]()}
	return driver.Driver{
		Descriptor: driver.Descriptor{
			Name: "mcp", Version: "0.1.0", Role: driver.RoleChallenge, Handles: []string{typeName}, Effect: driver.EffectPure,
			ConfigSchema: t.Schema(), ActionSchema: json.RawMessage(actionSchema), ParamsSchema: shape.Of[documented]().Schema(),
		},
		Challenge: t,
	}
}

type tool struct{ *settings.Of[prompt.Own] }

// params is what a challenge demands.
type params struct {
	Name      string          `json:"tool_name"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Expected  json.RawMessage `json:"expected_result,omitempty"`

	required bool
	observed bool                // only what KAIROS observes counts
	approval driver.ApprovalMode // as the step states it
	output   json.RawMessage     // output_schema of the step; nil: none
}

// documented is params as its schema describes them: a template may replace the arguments.
type documented struct {
	Name      string                     `json:"tool_name" required:"true" min:"1" doc:"the tool to call; prefixes that hosts add do not count"`
	Arguments map[string]json.RawMessage `json:"arguments" doc:"what the call has to contain"`
	Expected  json.RawMessage            `json:"expected_result" doc:"what the result has to contain; what is not an object is shown and not compared"`
}

func readParams(challenge json.RawMessage) (params, []driver.Diagnostic) {
	top := fields.Open(challenge, "")
	p := params{required: true}
	if required, found := top.Bool("required"); found {
		p.required = required
	}
	mode, _ := top.String("approval_mode")
	if p.approval = driver.ApprovalMode(mode); top.Has("approval") {
		p.approval = driver.ApprovalUser
	}
	from, _ := top.String("evidence")
	p.observed = from == "server"
	if top.Has("output_schema") {
		p.output = top.Raw("output_schema")
	}
	object := top.Object(typeName)
	name, found := object.String("tool_name")
	if p.Name = strings.TrimSpace(name); plain.Empty(name) && (found || !object.Has("tool_name")) {
		object.Wrong("tool_name", "an mcp challenge needs the name of the tool to call")
	}
	if object.Has("arguments") {
		p.Arguments = object.Raw("arguments")
		if !isObject(p.Arguments) && !isTemplate(p.Arguments) {
			object.Wrong("arguments", "must be an object")
		}
	}
	if object.Has("expected_result") {
		p.Expected = object.Raw("expected_result")
	}
	object.Unread()
	return p, top.Diagnostics()
}

func isObject(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '{' }

// isTemplate reports whether raw is a string that is one whole template, which
// the host replaces by the value itself.
func isTemplate(raw json.RawMessage) bool {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return false
	}
	s = strings.TrimSpace(s)
	return strings.HasPrefix(s, "{{") && strings.HasSuffix(s, "}}")
}

// Validate implements driver.Challenge.
func (tool) Validate(_ context.Context, req driver.ValidateRequest) (driver.ValidateResult, error) {
	p, diagnostics := readParams(req.Challenge)
	if p.output != nil {
		if err := usable(p.output); err != nil {
			diagnostics = append(diagnostics, driver.Problem("/output_schema", err.Error()))
		}
	}
	res := driver.ValidateResult{
		Diagnostics: diagnostics,
		Templates: []driver.Template{
			{Pointer: "/mcp/arguments", Escaping: driver.EscapeJSON},
			{Pointer: "/mcp/expected_result", Escaping: driver.EscapeJSON},
		},
	}
	if fields.AnyError(diagnostics) {
		return res, nil
	}
	var err error
	if res.Action, err = actionOf(p); err != nil {
		return res, err
	}
	res.Diagnostics = append(res.Diagnostics, openArguments(p)...)
	if p.Expected != nil && !isObject(p.Expected) && !isTemplate(p.Expected) {
		res.Diagnostics = append(res.Diagnostics, driver.Warning("/mcp/expected_result",
			"is shown but not compared: only an object is compared with the result"))
	}
	res.Challenge, err = fields.With(req.Challenge, "type", typeName)
	return res, err
}

// openArguments warns of a call whose arguments the agent chooses.
func openArguments(p params) []driver.Diagnostic {
	switch approved := p.approval == driver.ApprovalUser; {
	case p.Arguments != nil || approved && p.observed: // a person approves exactly what KAIROS calls
		return nil
	case p.observed:
		return []driver.Diagnostic{driver.Warning("/mcp", "states no arguments, so the agent chooses what KAIROS calls the tool with, and the proof holds for any: "+
			`state them ("arguments": {} if the tool takes none), or have a person approve them with "approval": {}`)}
	case approved:
		return []driver.Diagnostic{driver.Warning("/mcp", "states no arguments, so whoever approves this call does not see them, and any arguments count")}
	}
	return nil
}

// usable reports why an output schema cannot be asked for, or nil.
func usable(output json.RawMessage) error {
	evidence, err := evidenceSchema(output)
	if err != nil {
		return err
	}
	_, err = schema.Compile(evidence)
	return err
}

// Advance implements driver.Challenge.
func (t tool) Advance(_ context.Context, req driver.AdvanceRequest) (driver.AdvanceResult, error) {
	p, diagnostics := readParams(req.Challenge)
	if fields.AnyError(diagnostics) {
		return driver.CannotAdvance("the challenge is not valid: " + fields.Text(diagnostics)), nil
	}
	answer, found := req.Answer(inputID)
	if !found {
		return t.need(p, req.Step), nil
	}
	c, rejection := readCall(answer, p)
	if rejection != nil {
		return driver.AdvanceResult{Rejected: rejection}, nil
	}
	c.observed = slices.ContainsFunc(req.Answers, func(a driver.Answer) bool { return a.InputID == inputID && a.Provenance == driver.ServerObserved })
	if why := beyond(c, p); req.Approved && why != "" {
		return driver.Reject(codeFailed, why), nil
	}
	return judge(c, p)
}

func (t tool) need(p params, step driver.Step) driver.AdvanceResult {
	valueSchema, err := evidenceSchema(p.output)
	if err != nil {
		return driver.CannotAdvance("the output_schema is not usable: " + err.Error())
	}
	display, err := json.Marshal(p)
	if err != nil {
		return driver.CannotAdvance("the challenge cannot be shown: " + err.Error())
	}
	action, err := actionOf(p)
	if err != nil {
		return driver.CannotAdvance("the call cannot be encoded: " + err.Error())
	}
	in := driver.Input{
		ID: inputID, Kind: driver.KindEvidence, Type: typeName, Display: display,
		Description: description(p), System: systemPrompt(p), User: userPrompt(p, step),
		Schema: valueSchema, Action: action,
	}
	t.Now().Prompt.Apply(&in)
	return driver.Need(in)
}
