package input

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
	"github.com/kairos-mcp/kairos/sdk/schema"
)

// CheckOfRun refuses an input that the protocol's schema does not allow;
// missing keys are another matter, they can be asked for.
func CheckOfRun(chain protocol.Chain, input json.RawMessage) error {
	if given := decision.Object(input); api.MayBeForm(input) {
		left := api.Untouched(api.InputForm(chain.Inputs, slices.Collect(maps.Keys(given))), given, "/input")
		if len(left) > 0 {
			return placeholdersLeft(left)
		}
	}
	if len(chain.Inputs) == 0 {
		return nil
	}
	loose := without(chain.Inputs, "required")
	if problems := schema.Validate(loose, orObject(input)); len(problems) > 0 {
		return fault.New(fault.InvalidArgument, "input does not fit the protocol %q: %s", chain.Title, Describe(problems)).
			With("inputs", chain.Inputs)
	}
	return nil
}

// InputsFault refuses a protocol whose inputs are beyond the limits of schemas, or
// are not a schema. None is minted, but a store may hold one from elsewhere.
func InputsFault(chain protocol.Chain) error {
	if len(chain.Inputs) == 0 {
		return nil
	}
	return schemaFault(chain.Title, "inputs", chain.Inputs)
}

// OutputSchemaFault is InputsFault for the output_schema of the open step.
func OutputSchemaFault(k *Task) error {
	if len(k.Common.OutputSchema) == 0 {
		return nil
	}
	return schemaFault(k.Where.Protocol, fmt.Sprintf("output_schema of step %d", k.Where.Index), k.Common.OutputSchema)
}

func schemaFault(title, what string, raw json.RawMessage) error {
	_, err := schema.Compile(raw)
	if err == nil {
		return nil
	}
	return fault.Wrap(err, fault.InvalidArgument, "The protocol %q is at fault: its %s cannot be used: %s.", title, what, plain.Clip(err.Error(), 500)).
		WithNext("call kairos_mint with force_update and a smaller schema, or use another protocol")
}

func placeholdersLeft(left []string) error {
	return fault.New(fault.InvalidArgument, "input: %s still hold the placeholders of next_call", plain.Clip(strings.Join(left, ", "), 500)).
		WithNext("replace each by its value, which you may have to ask the user for, and call kairos_begin again")
}

func orObject(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("{}")
	}
	return raw
}

// missingKeys lists the required keys that the input lacks, in the schema's order.
func missingKeys(inputs, input json.RawMessage) []string {
	have := decision.Object(input)
	return slices.DeleteFunc(api.RequiredInputs(inputs), func(k string) bool { _, ok := have[k]; return ok })
}

func propertiesOf(inputs json.RawMessage) map[string]json.RawMessage {
	var s struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	_ = json.Unmarshal(inputs, &s) // was an object when the protocol was stored
	return s.Properties
}

// only is the schema for just these keys.
func only(properties map[string]json.RawMessage, keys ...string) json.RawMessage {
	kept := make(map[string]json.RawMessage, len(keys))
	for _, key := range keys {
		if property, ok := properties[key]; ok {
			kept[key] = property
		}
	}
	b, _ := json.Marshal(map[string]any{
		"type": "object", "properties": kept, "required": keys, "additionalProperties": false,
	})
	return b
}

func without(inputs json.RawMessage, key string) json.RawMessage {
	var s map[string]json.RawMessage
	if json.Unmarshal(inputs, &s) != nil {
		return inputs
	}
	delete(s, key)
	b, _ := json.Marshal(s) // was decoded from JSON
	return b
}

// OfRun says what the run still needs before its first step: the input that
// asks for it and the names of the missing keys; nil when nothing is missing.
func OfRun(r run.Run, chain protocol.Chain) (driver.Input, []string) {
	if r.Step.Index != 1 || len(chain.Inputs) == 0 || len(r.Step.Answers) > 0 {
		return driver.Input{}, nil
	}
	missing := missingKeys(chain.Inputs, r.Input)
	if len(missing) == 0 {
		return driver.Input{}, nil
	}
	return driver.Input{
		ID: driver.KindRunInput, Kind: driver.KindRunInput, Schema: only(propertiesOf(chain.Inputs), missing...), Person: true,
		Description: fmt.Sprintf("The protocol %q needs to know before it starts: %s.", chain.Title, strings.Join(missing, ", ")),
		Approval:    driver.ApprovalUser,
	}, missing
}

// RunTask is the task of the run's input.
func RunTask(chain protocol.Chain) *Task {
	return &Task{Step: chain.Steps[0], Where: driver.Step{Protocol: chain.Title, Label: "Input", Index: 1, Count: len(chain.Steps)}}
}

// MissingOfRun refuses to begin without the keys.
func MissingOfRun(r run.Run, chain protocol.Chain, missing []string) *fault.Error {
	uri := protocol.URI(chain.Steps[0].UUID)
	form := api.InputForm(chain.Inputs, missing)
	example, _ := api.Encode(form, "") // was decoded from JSON
	maps.Copy(form, decision.Object(r.Input))
	return fault.New(fault.MissingInput, "the protocol %q needs an input with %s", chain.Title, strings.Join(missing, ", ")).
		With("missing", missing).
		WithNext("call kairos_begin with %s and input %s", uri, example).
		WithCall(api.ToolBegin, map[string]any{"uri": uri, "input": form})
}

// MergeOfRun adds what a person filled in to the run's input.
func MergeOfRun(r run.Run, chain protocol.Chain, value json.RawMessage) (json.RawMessage, error) {
	merged := decision.Object(r.Input)
	if merged == nil {
		merged = map[string]any{}
	}
	maps.Copy(merged, decision.Object(value))
	b, err := json.Marshal(merged)
	if err != nil {
		return nil, err
	}
	return b, CheckOfRun(chain, b)
}

// settleRun adds what a person filled in to the run's input.
func settleRun(_ *Task, c Setting, a driver.Answer) (Settlement, error) {
	if !c.Asked {
		return Settlement{}, nil
	}
	merged, err := MergeOfRun(c.Run, c.Chain, a.Value)
	if err != nil {
		return Settlement{Again: []driver.Diagnostic{driver.Problem("", err.Error())}}, nil
	}
	return Settlement{Value: merged}, nil
}
