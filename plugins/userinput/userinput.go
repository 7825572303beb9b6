package main

import (
	"context"
	"encoding/json"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/fields"
	"github.com/kairos-mcp/kairos/sdk/plain"
	"github.com/kairos-mcp/kairos/sdk/prompt"
	"github.com/kairos-mcp/kairos/sdk/schema"
	"github.com/kairos-mcp/kairos/sdk/settings"
	"github.com/kairos-mcp/kairos/sdk/shape"
)

const (
	typeName = "user_input"
	inputID  = "evidence"
)

// codeMissing is the contract's code for an answer that is not there or not complete.
const codeMissing = "MISSING_FIELD"

func definition() driver.Driver {
	u := userInput{settings.New[prompt.Own]()}
	return driver.Driver{
		Descriptor: driver.Descriptor{
			Name: "user_input", Version: "0.1.0", Role: driver.RoleChallenge, Handles: []string{typeName},
			Effect: driver.EffectPure, Approval: driver.ApprovalUser, ConfigSchema: u.Schema(),
			ParamsSchema: shape.Of[params]().Schema(), OutputSchema: shape.ClosedSchemaOf(output{}).JSON(),
		},
		Challenge: u,
	}
}

type userInput struct{ *settings.Of[prompt.Own] }

// params is what a challenge demands.
type params struct {
	Prompt   string          `json:"prompt" doc:"the question to the person; empty: whether to continue"`
	form     json.RawMessage // JSON Schema of a form; nil: approved or rejected
	approves bool            // the step says that the answer is an approval
}

func readParams(challenge json.RawMessage) (params, []driver.Diagnostic) {
	top := fields.Open(challenge, "")
	object := top.Object(typeName)
	p := params{Prompt: defaultPrompt}
	if prompt, _ := object.String("prompt"); !plain.Empty(prompt) {
		p.Prompt = prompt
	}
	mode, _ := top.String("approval_mode")
	p.approves = driver.ApprovalMode(mode) == driver.ApprovalUser || top.Has("approval")
	object.Unread()
	if top.Has("output_schema") {
		p.form = top.Raw("output_schema")
		if _, err := schema.FormOf(p.form, true); err != nil {
			top.Wrong("output_schema", "a person cannot fill this form: "+err.Error())
		}
		if approval := top.Object("approval"); approval.Has("phrase") {
			approval.Wrong("phrase", "cannot be typed into the form of output_schema: leave out one of them")
		}
	}
	return p, top.Diagnostics()
}

// Validate implements driver.Challenge.
func (userInput) Validate(_ context.Context, req driver.ValidateRequest) (driver.ValidateResult, error) {
	p, diagnostics := readParams(req.Challenge)
	res := driver.ValidateResult{
		Diagnostics: diagnostics,
		Templates:   []driver.Template{{Pointer: "/user_input/prompt", Escaping: driver.EscapeQuote}},
	}
	if fields.AnyError(diagnostics) {
		return res, nil
	}
	var err error
	res.Challenge, err = fields.WithParam(req.Challenge, typeName, "prompt", p.Prompt)
	return res, err
}

// Advance implements driver.Challenge.
func (u userInput) Advance(_ context.Context, req driver.AdvanceRequest) (driver.AdvanceResult, error) {
	p, diagnostics := readParams(req.Challenge)
	if fields.AnyError(diagnostics) {
		return driver.CannotAdvance("the challenge is not valid: " + fields.Text(diagnostics)), nil
	}
	answer, found := req.Answer(inputID)
	if !found {
		return u.need(p)
	}
	if p.form != nil {
		return judgeForm(answer, p)
	}
	return judgeConfirmation(answer, p)
}

func (u userInput) need(p params) (driver.AdvanceResult, error) {
	display, err := json.Marshal(p)
	if err != nil {
		return driver.AdvanceResult{}, err
	}
	input := driver.Input{
		ID: inputID, Kind: driver.KindEvidence, Type: typeName, Display: display,
		Description: p.Prompt, System: systemPrompt, User: p.Prompt, Schema: json.RawMessage(confirmationSchema),
		Approval: driver.ApprovalUser, Person: true,
	}
	if p.form != nil {
		input.Schema, input.System, input.Description = p.form, formSystemPrompt, formDescription(p)
	}
	u.Now().Prompt.Apply(&input)
	return driver.Need(input), nil
}
