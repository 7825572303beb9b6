package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/fields"
	"github.com/kairos-mcp/kairos/sdk/plain"
	"github.com/kairos-mcp/kairos/sdk/shape"
)

const (
	typeName    = "comment"
	inputID     = "evidence"
	relevanceID = "relevance"

	defaultMinLength = 10
	// maxMinLength is more than anybody means; it keeps the number a count.
	maxMinLength = 100_000
)

// Error codes of the tool contract.
const (
	codeMissing    = "MISSING_FIELD"
	codeTooShort   = "COMMENT_TOO_SHORT"
	codeIrrelevant = "COMMENT_IRRELEVANT"
)

func definition() driver.Driver {
	c := newComment()
	return driver.Driver{
		Descriptor: driver.Descriptor{
			Name: "comment", Version: "0.1.0", Role: driver.RoleChallenge, Handles: []string{typeName},
			Effect: driver.EffectPure, ConfigSchema: c.Schema(),
			ParamsSchema: shape.Of[params]().Schema(), OutputSchema: shape.ClosedSchemaOf(output{}).JSON(),
		},
		Challenge: c,
	}
}

// params is what a challenge demands.
type params struct {
	MinLength int `json:"min_length" default:"10" min:"0" max:"100000" doc:"characters that the comment has to have; 0: the default"`
}

func readParams(challenge json.RawMessage) (params, []driver.Diagnostic) {
	top := fields.Open(challenge, "")
	object := top.Object(typeName)
	p := params{MinLength: defaultMinLength}
	length, found := object.Number("min_length")
	switch {
	case found && (length < 0 || length > maxMinLength || length != math.Trunc(length)):
		object.Wrong("min_length", fmt.Sprintf("must be a whole number from 0 (the default of %d) to %d", defaultMinLength, maxMinLength))
	case found && length == 0:
		object.Doubt("min_length", fmt.Sprintf("0 is read as the default of %d", defaultMinLength))
	case found:
		p.MinLength = int(length)
	}
	object.Unread()
	return p, top.Diagnostics()
}

// Validate implements driver.Challenge.
func (comment) Validate(_ context.Context, req driver.ValidateRequest) (driver.ValidateResult, error) {
	p, diagnostics := readParams(req.Challenge)
	res := driver.ValidateResult{Diagnostics: diagnostics}
	if fields.AnyError(diagnostics) {
		return res, nil
	}
	var err error
	res.Challenge, err = fields.WithParam(req.Challenge, typeName, "min_length", p.MinLength)
	return res, err
}

// Advance implements driver.Challenge. It asks for the comment first and, when
// the comment holds so far, for its similarity to the step.
func (c comment) Advance(_ context.Context, req driver.AdvanceRequest) (driver.AdvanceResult, error) {
	p, diagnostics := readParams(req.Challenge)
	if fields.AnyError(diagnostics) {
		return driver.CannotAdvance("the challenge is not valid: " + fields.Text(diagnostics)), nil
	}
	answer, found := req.Answer(inputID)
	if !found {
		return c.need(p, req.Step)
	}
	text, rejection := readText(answer.Value, p)
	if rejection != nil {
		return driver.AdvanceResult{Rejected: rejection}, nil
	}
	if copied(text, req.Step.Text) {
		return driver.Reject(codeIrrelevant, "The comment says nothing that the text of the step does not say already. "+
			"Say in your own words what was really done in this step and what came of it."), nil
	}
	return c.judge(text, p, req)
}

func (c comment) need(p params, step driver.Step) (driver.AdvanceResult, error) {
	display, err := json.Marshal(p)
	if err != nil {
		return driver.AdvanceResult{}, err
	}
	in := driver.Input{
		ID: inputID, Kind: driver.KindEvidence, Type: typeName, Display: display,
		Description: description(p), System: systemPrompt(p), User: userPrompt(step),
		Schema: json.RawMessage(fmt.Sprintf(evidenceSchema, p.MinLength)),
	}
	c.Now().Prompt.Apply(&in)
	return driver.Need(in), nil
}

// readText reads the comment. A rejection says what is missing in it.
func readText(value json.RawMessage, p params) (string, *driver.Rejected) {
	o := fields.Open(value, "/comment")
	text, found := o.String("text")
	if !found && !o.Has("text") {
		o.Wrong("text", "is missing")
	}
	if problems := o.Problems(); problems != nil {
		return "", &driver.Rejected{Code: codeMissing, Retryable: true, Message: fmt.Sprintf(
			"Solution incomplete: %s. Submit comment with a text of at least %d characters about what was really done.",
			fields.Text(problems), p.MinLength)}
	}
	text = strings.TrimSpace(text)
	short := func(format string, n int) *driver.Rejected {
		return &driver.Rejected{Code: codeTooShort, Retryable: true, Message: fmt.Sprintf(
			format+", at least %d are needed. Say what was really done in this step and what came of it; do not fill it up.", n, p.MinLength)}
	}
	if n := plain.Length(text); n < p.MinLength {
		return "", short("The comment has %d characters", n)
	}
	if n, repeats := once(letters(text), p.MinLength); repeats {
		return "", short("The comment repeats itself: without that it has %d letters", n)
	}
	return text, nil
}
