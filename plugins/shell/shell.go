package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/fields"
	"github.com/kairos-mcp/kairos/sdk/plain"
	"github.com/kairos-mcp/kairos/sdk/prompt"
	"github.com/kairos-mcp/kairos/sdk/settings"
	"github.com/kairos-mcp/kairos/sdk/shape"
)

const (
	typeName = "shell"
	inputID  = "evidence"

	defaultTimeout = 30 // seconds
	legacyTimeout  = 60 // seconds, for challenges stored without a type
)

// Error codes of the tool contract.
const (
	codeMissing = "MISSING_FIELD"
	codeFailed  = "COMMAND_FAILED"
)

func definition() driver.Driver {
	s := shell{settings.New[prompt.Own]()}
	return driver.Driver{
		Descriptor: driver.Descriptor{
			Name: "shell", Version: "0.1.0", Role: driver.RoleChallenge, Handles: []string{typeName}, Effect: driver.EffectPure,
			ConfigSchema: s.Schema(), ActionSchema: json.RawMessage(actionSchema), ParamsSchema: shape.Of[params]().Schema(), OutputSchema: shape.ClosedSchemaOf(report{}).JSON(),
		},
		Challenge: s,
	}
}

type shell struct{ *settings.Of[prompt.Own] }

// params is what a challenge demands.
type params struct {
	Command  string  `json:"cmd" required:"true" min:"1" doc:"the command to run"`
	Timeout  float64 `json:"timeout_seconds" default:"30" min:"0" doc:"how long it may take, if a duration is reported"`
	required bool
	legacy   bool // the stored shape {cmd, timeout_seconds, required}
}

func readParams(challenge json.RawMessage) (params, []driver.Diagnostic) {
	top := fields.Open(challenge, "")
	p := params{required: true, Timeout: defaultTimeout}
	object := top.Object(typeName)
	if !top.Has(typeName) && top.Has("cmd") {
		p.legacy, p.Timeout = true, legacyTimeout
		object = top
	}
	if required, found := top.Bool("required"); found {
		p.required = required
	}
	command, found := object.String("cmd")
	if p.Command = command; plain.Empty(command) && (found || !object.Has("cmd")) {
		object.Wrong("cmd", "a shell challenge needs the command to run")
	}
	p.Timeout = readTimeout(object, p.Timeout)
	if !p.legacy {
		object.Unread()
	}
	return p, top.Diagnostics()
}

func readTimeout(object *fields.Object, fallback float64) float64 {
	seconds, found := object.Number("timeout_seconds")
	switch {
	case found && seconds < 0:
		object.Wrong("timeout_seconds", "must be more than 0")
	case found && seconds == 0:
		object.Doubt("timeout_seconds", fmt.Sprintf("0 is read as the default of %v seconds", fallback))
	case found:
		return seconds
	}
	return fallback
}

// Validate implements driver.Challenge.
func (shell) Validate(_ context.Context, req driver.ValidateRequest) (driver.ValidateResult, error) {
	p, diagnostics := readParams(req.Challenge)
	if who, _ := fields.Open(req.Challenge, "").String("evidence"); who == "person" {
		diagnostics = append(diagnostics, driver.Problem("/evidence",
			`no person can vouch for the exit code of a command: write "server", so that KAIROS runs it, or ask the person in a step of type user_input`))
	}
	res := driver.ValidateResult{
		Diagnostics: diagnostics,
		Templates:   []driver.Template{{Pointer: "/shell/cmd", Escaping: driver.EscapeShell}},
	}
	if p.legacy {
		res.Templates = append(res.Templates, driver.Template{Pointer: "/cmd", Escaping: driver.EscapeShell})
	}
	if fields.AnyError(diagnostics) {
		return res, nil
	}
	pointer := "/shell/cmd"
	if p.legacy {
		pointer = "/cmd"
	}
	res.Diagnostics = append(res.Diagnostics, optionsInValues(pointer, p.Command)...)
	var err error
	// A value becomes one quoted word, or a part of one.
	if res.Action, err = actionOf(reference.ReplaceAllString(p.Command, `"${value}"`)); err != nil {
		return res, err
	}
	res.Challenge, err = normalised(req.Challenge, p)
	return res, err
}

// normalised is the challenge in its present shape with its defaults.
func normalised(challenge json.RawMessage, p params) (json.RawMessage, error) {
	var err error
	if p.legacy {
		if challenge, err = fields.Without(challenge, "cmd", "timeout_seconds"); err != nil {
			return nil, err
		}
	}
	inner, err := fields.With(fields.Open(challenge, "").Raw(typeName), "cmd", p.Command)
	if err != nil {
		return nil, err
	}
	if inner, err = fields.With(inner, "timeout_seconds", p.Timeout); err != nil {
		return nil, err
	}
	if challenge, err = fields.With(challenge, typeName, inner); err != nil {
		return nil, err
	}
	return fields.With(challenge, "type", typeName)
}

// Advance implements driver.Challenge.
func (s shell) Advance(_ context.Context, req driver.AdvanceRequest) (driver.AdvanceResult, error) {
	p, diagnostics := readParams(req.Challenge)
	if fields.AnyError(diagnostics) {
		return driver.CannotAdvance("the challenge is not valid: " + fields.Text(diagnostics)), nil
	}
	answer, found := req.Answer(inputID)
	if !found {
		return s.need(p)
	}
	r, rejection := readReport(answer.Value, p)
	if rejection != nil {
		return driver.AdvanceResult{Rejected: rejection}, nil
	}
	return judge(r, p, answer.Provenance)
}

func (s shell) need(p params) (driver.AdvanceResult, error) {
	display, err := json.Marshal(p)
	if err != nil {
		return driver.AdvanceResult{}, err
	}
	action, err := actionOf(p.Command)
	if err != nil {
		return driver.AdvanceResult{}, err
	}
	in := driver.Input{
		ID: inputID, Kind: driver.KindEvidence, Type: typeName, Display: display,
		Description: description(p), System: systemPrompt, User: userPrompt(p),
		Schema: json.RawMessage(reportSchema), Action: action,
	}
	s.Now().Prompt.Apply(&in)
	return driver.Need(in), nil
}
