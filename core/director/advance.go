package director

import (
	"cmp"
	"encoding/json"

	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/schema"
)

// maxRounds bounds how often a challenge driver may ask for more about one step.
const maxRounds = 32

// withStepPrompt applies the challenge's `sampling` block and approval mode.
func withStepPrompt(in driver.Input, k task) driver.Input {
	if in.Type == "" {
		in.Type = k.common.Type
	}
	if k.approval != "" {
		in.Approval = k.approval
	}
	s := k.common.Sampling.Sound()
	if s == nil {
		return in
	}
	in.System = cmp.Or(s.System, in.System)
	in.User = cmp.Or(s.User, in.User)
	if s.MaxTokens != nil {
		in.MaxTokens = *s.MaxTokens
	}
	in.Temperature = cmp.Or(s.Temperature, in.Temperature)
	in.TopP = cmp.Or(s.TopP, in.TopP)
	return in
}

// approvedDigest is of what a person approves: the inputs, and what they have to
// type for it, if anything.
func approvedDigest(inputs []driver.Input, phrase string) (string, error) {
	if phrase == "" {
		return inputDigest(inputs)
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

func inputDigest(inputs []driver.Input) (string, error) {
	b, err := json.Marshal(inputs)
	if err != nil {
		return "", err
	}
	return run.Digest(b)
}

// maxOutput bounds what later steps see of a step, in bytes.
const maxOutput = 256 << 10

// evidenceOf is the answer that came from outside, which a verdict has to rest on.
func evidenceOf(s run.Step) (driver.Answer, bool) {
	for _, a := range s.Answers {
		if a.Via != runs.CoreDriver && a.InputID != driver.KindJudge {
			return a, true
		}
	}
	return driver.Answer{}, false
}

// outputProblems: what the server obtained itself is held to the strict form
// of the schema, what an agent reports to the schema as written.
func outputProblems(k task, reported bool, output json.RawMessage) []driver.Diagnostic {
	if len(k.common.OutputSchema) == 0 {
		return nil
	}
	s := k.common.OutputSchema
	if !reported {
		strict, err := schema.Strict(s)
		if err != nil {
			return []driver.Diagnostic{driver.Problem("/output_schema", err.Error())}
		}
		s = strict
	}
	return schema.Validate(s, output)
}

func orNull(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("null")
	}
	return raw
}
