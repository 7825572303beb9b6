package input

import (
	"encoding/json"

	"github.com/kairos-mcp/kairos/core/drivers"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/rules"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/fields"
	"github.com/kairos-mcp/kairos/sdk/plain"
	"github.com/kairos-mcp/kairos/sdk/schema"
)

// Task is what the open step demands: its challenge with templates filled, as
// the core and the challenge driver read it.
type Task struct {
	Step      protocol.Step
	Challenge json.RawMessage
	Common    protocol.Common
	Where     driver.Step
	// Use is the challenge driver; empty for a step without a challenge.
	Use string
	// Approval is how this step is approved.
	Approval drivers.Approval
	// Demand is what the rules of the operator demand of the step, and what it demands of its
	// evidence itself. ByAction is what rules demand because of what the step does.
	Demand, ByAction rules.Demand
}

// OutputProblems checks an output: one that the server obtained against the strict
// form of the schema, one that an agent reports against the schema as written.
func OutputProblems(k *Task, reported bool, output json.RawMessage) []driver.Diagnostic {
	if len(k.Common.OutputSchema) == 0 {
		return nil
	}
	s := k.Common.OutputSchema
	if !reported {
		strict, err := schema.Strict(s)
		if err != nil {
			return []driver.Diagnostic{driver.Problem("/output_schema", err.Error())}
		}
		s = strict
	}
	return schema.Validate(s, output)
}

// Describe lists findings for a message.
func Describe(ds []driver.Diagnostic) string { return plain.Clip(fields.Text(ds), 2000) }

// Free reports whether the step has no challenge, so that any solution passes it.
func (k *Task) Free() bool { return k.Step.Challenge == nil }
