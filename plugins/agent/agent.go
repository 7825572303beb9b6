package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/fields"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// approvalType is the challenge type under which an agent reports a person's
// yes or no: every client knows it.
const approvalType = "user_input"

func definition() driver.Driver {
	return driver.Driver{
		Descriptor: driver.Descriptor{
			Name: "agent", Version: "0.1.0", Role: driver.RoleCapability,
			Handles: []string{driver.KindEvidence, driver.KindApproval, driver.KindFiles},
			Effect:  driver.EffectPure, Features: []string{driver.FeatureAgent}, AnswersBy: []string{driver.ByAgent},
		},
		Capability: agent{},
	}
}

type agent struct{}

// Render implements driver.Capability.
func (agent) Render(_ context.Context, req driver.RenderRequest) (driver.RenderResult, error) {
	in := req.Input
	description := in.Description
	switch in.Kind {
	case driver.KindEvidence:
		if in.Person {
			description = joined(description, askThePerson)
		}
	case driver.KindApproval:
		return renderApproval(req)
	case driver.KindFiles:
		description = joined(description, reportFiles)
	default:
		return driver.CannotRender("the agent does not supply inputs of kind " + in.Kind), nil
	}
	if len(req.Diagnostics) > 0 {
		description = joined(description, "The answer before could not be taken: "+fields.Text(req.Diagnostics)+".")
	}
	return driver.AskAgent(driver.AgentChallenge{Type: in.Type, Description: description, Display: in.Display}), nil
}

// renderApproval shows the agent what a person has to be asked.
func renderApproval(req driver.RenderRequest) (driver.RenderResult, error) {
	action := strings.TrimSpace(req.Input.Description)
	var display bytes.Buffer
	if len(req.Input.Display) > 0 && json.Compact(&display, req.Input.Display) == nil && !strings.Contains(action, display.String()) {
		action = strings.TrimSpace(action + "\n" + req.Input.Type + ": " + display.String())
	}
	shown, err := json.Marshal(map[string]string{"prompt": action})
	if err != nil {
		return driver.RenderResult{}, err
	}
	return driver.AskAgent(driver.AgentChallenge{
		Type: approvalType, Description: joined(askForApproval, action), Display: shown,
	}), nil
}

func joined(parts ...string) string {
	parts = slices.DeleteFunc(parts, plain.Empty)
	return strings.Join(parts, "\n\n")
}

// Interpret implements driver.Capability.
func (agent) Interpret(_ context.Context, req driver.InterpretRequest) (driver.InterpretResult, error) {
	if e := req.ClientError; e != nil {
		return driver.CannotInterpret(fmt.Sprintf("the agent did not answer: %s (%d)", e.Message, e.Code)), nil
	}
	solution := fields.Open(req.Raw, "")
	if problems := solution.Problems(); problems != nil {
		return driver.NotAnAnswer(problems...), nil
	}
	if req.Input.Kind == driver.KindApproval {
		return approval(solution), nil
	}
	value := valueOf(solution, req.Input)
	if value == nil {
		return driver.LeftOut("the solution holds no answer: neither " + req.Input.Type + " nor evidence says anything"), nil
	}
	return driver.Answered(value, driver.AgentReported), nil
}

// valueOf is what the solution says: the object named like the type, else
// evidence; nil if neither says anything. A person's form stands in evidence,
// while the object of the type is often a placeholder that the client insists
// on, so there evidence comes first. Files are only ever in evidence.
func valueOf(solution *fields.Object, in driver.Input) json.RawMessage {
	order := []string{in.Type, "evidence"}
	switch {
	case in.Kind == driver.KindFiles:
		order = []string{"evidence"}
	case in.Person:
		order = []string{"evidence", in.Type}
	}
	for _, key := range order {
		if value := solution.Raw(key); says(value) {
			return value
		}
	}
	return nil
}

// says reports whether a value holds anything but emptiness.
func says(value json.RawMessage) bool {
	var v any
	return len(value) > 0 && json.Unmarshal(value, &v) == nil && holds(v)
}

func holds(v any) bool {
	switch v := v.(type) {
	case nil:
		return false
	case string:
		return !plain.Empty(v)
	case []any:
		return slices.ContainsFunc(v, holds)
	case map[string]any:
		for _, member := range v {
			if holds(member) {
				return true
			}
		}
		return false
	}
	return true // numbers and booleans, 0 and false too
}

// approval reads a person's yes or no as the agent reports it.
func approval(solution *fields.Object) driver.InterpretResult {
	said := solution.Raw(approvalType)
	if !says(said) {
		said = solution.Raw("evidence")
	}
	if !says(said) {
		return driver.LeftOut("the solution holds no approval")
	}
	o := fields.Open(said, "/"+approvalType)
	text, found := o.String("confirmation")
	switch {
	case plain.Approved(text):
		return driver.Answered(json.RawMessage(`{"confirmation":"approved"}`), driver.AgentReported)
	case plain.Rejected(text):
		return driver.PersonDeclined("the agent reports that the user answered: rejected")
	}
	if len(o.Problems()) == 0 {
		message := "is missing"
		if found {
			message = "must be approved or rejected, the user's own answer"
		}
		o.Wrong("confirmation", message)
	}
	return driver.NotAnAnswer(o.Problems()...)
}
