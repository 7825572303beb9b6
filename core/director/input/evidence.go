package input

import (
	"cmp"
	"encoding/json"

	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
	"github.com/kairos-mcp/kairos/sdk/schema"
)

// Prompted applies the challenge's `sampling` block and approval mode.
func Prompted(in driver.Input, k *Task) driver.Input {
	if in.Type == "" {
		in.Type = k.Common.Type
	}
	if k.Approval.Mode != "" {
		in.Approval = k.Approval.Mode
	}
	s := k.Common.Sampling.Sound()
	if s == nil {
		return in
	}
	in.System = cmp.Or(plain.Text(s.System), in.System)
	in.User = cmp.Or(plain.Text(s.User), in.User)
	if s.MaxTokens != nil {
		in.MaxTokens = *s.MaxTokens
	}
	in.Temperature = cmp.Or(s.Temperature, in.Temperature)
	in.TopP = cmp.Or(s.TopP, in.TopP)
	return in
}

// ApprovedDigest is of what a person approves: the inputs, and what they have to
// type for it, if anything.
func ApprovedDigest(inputs []driver.Input, phrase string) (string, error) {
	if phrase == "" {
		return Digest(inputs)
	}
	b, err := json.Marshal(struct {
		Inputs []driver.Input `json:"inputs"`
		Phrase string         `json:"phrase"`
	}{inputs, phrase})
	if err != nil {
		return "", err
	}
	return run.Digest(b)
}

// PlannedDigest is ApprovedDigest where a driver does what is approved.
func PlannedDigest(inputs []driver.Input, phrase string, p run.Plan) (string, error) {
	approved, err := ApprovedDigest(inputs, phrase)
	if err != nil {
		return "", err
	}
	b, err := json.Marshal(struct {
		Approved string          `json:"approved"`
		Driver   string          `json:"driver"`
		Effect   driver.Effect   `json:"effect"`
		Text     string          `json:"text"`
		Data     json.RawMessage `json:"data"`
	}{approved, p.Driver, p.Effect, p.Text, p.Data})
	if err != nil {
		return "", err
	}
	return run.Digest(b)
}

// Digest is of the inputs as they are asked for.
func Digest(inputs []driver.Input) (string, error) {
	b, err := json.Marshal(inputs)
	if err != nil {
		return "", err
	}
	return run.Digest(b)
}

// YesOrNo reports whether the input asks for exactly what an approval says.
func YesOrNo(in driver.Input) bool {
	strict, err := schema.Strict(in.Schema)
	if err != nil {
		return false
	}
	takes := func(word string) bool {
		return len(schema.Validate(strict, json.RawMessage(`{"confirmation":"`+word+`"}`))) == 0
	}
	return takes(SaidApproved) && takes(SaidRejected) && !takes("another word")
}
