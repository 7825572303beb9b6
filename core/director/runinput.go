package director

import (
	"context"
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

// runInput says what the run still needs before its first step: the input that
// asks for it and the names of the missing keys; nil when nothing is missing.
func (ob *obtaining) runInput() (driver.Input, []string) {
	if ob.t.Run.Step.Index != 1 || len(ob.t.Chain.Inputs) == 0 || len(ob.t.Run.Step.Answers) > 0 {
		return driver.Input{}, nil
	}
	missing := missingKeys(ob.t.Chain.Inputs, ob.t.Run.Input)
	if len(missing) == 0 {
		return driver.Input{}, nil
	}
	return driver.Input{
		ID: driver.KindRunInput, Kind: driver.KindRunInput, Schema: only(ob.t.Chain.Inputs, missing), Person: true,
		Description: fmt.Sprintf("The protocol %q needs to know before it starts: %s.", ob.t.Chain.Title, strings.Join(missing, ", ")),
		Approval:    driver.ApprovalUser,
	}, missing
}

// obtainRunInput asks the person, where the tree and the client allow it.
func (ob *obtaining) obtainRunInput(ctx context.Context, in driver.Input, missing []string) (Round, error) {
	k := ob.inputTask()
	d := ob.decide(k, in)
	if d.Route == nil || ob.t.caller.Detached {
		return Round{}, ob.missingInput(missing)
	}
	if why := ob.t.trust.barred(in, d.Route.Via); why != "" {
		return Round{}, ob.passOver(ctx, in.ID, *d.Route, why)
	}
	desc, _, ok := ob.t.e.Drivers.Describe(d.Route.Via)
	if !ok || !desc.Has(driver.FeatureHuman) {
		return Round{}, ob.passOver(ctx, in.ID, *d.Route, "only a person can be asked for a run's input")
	}
	return ob.t.questions.viaClient(ctx, k, in, *d.Route, desc)
}

// inputTask is the task of the run's input.
func (ob *obtaining) inputTask() task {
	return task{step: ob.t.step(), where: driver.Step{Protocol: ob.t.Chain.Title, Label: "Input", Index: 1, Count: len(ob.t.Chain.Steps)}}
}

func (ob *obtaining) missingInput(missing []string) *fault.Error {
	uri := protocol.URI(ob.t.Chain.Steps[0].UUID)
	form := inputForm(ob.t.Chain.Inputs, missing)
	example, _ := api.Encode(form, "") // was decoded from JSON
	maps.Copy(form, decision.Object(ob.t.Run.Input))
	return fault.New(fault.MissingInput, "the protocol %q needs an input with %s", ob.t.Chain.Title, strings.Join(missing, ", ")).
		With("missing", missing).
		WithNext("call kairos_begin with %s and input %s", uri, example).
		WithCall(api.ToolBegin, map[string]any{"uri": uri, "input": form})
}

// inputForm has a placeholder for each of the keys: the same whatever other keys
// there are, so that it is known again when it comes back.
func inputForm(inputs json.RawMessage, keys []string) map[string]any {
	form := make(map[string]any, len(keys))
	for _, key := range keys {
		alone, _ := formOf(only(inputs, []string{key})).(map[string]any)
		if form[key] = alone[key]; form[key] == nil {
			form[key] = blank{name: key}.of(nil)
		}
	}
	return form
}

// takeRunInput merges what a person filled in into the run's input.
func (ob *obtaining) takeRunInput(value json.RawMessage) (json.RawMessage, error) {
	merged := decision.Object(ob.t.Run.Input)
	if merged == nil {
		merged = map[string]any{}
	}
	maps.Copy(merged, decision.Object(value))
	b, err := json.Marshal(merged)
	if err != nil {
		return nil, err
	}
	return b, checkInput(ob.t.Chain, b)
}

// checkInput refuses an input that the protocol's schema does not allow;
// missing keys are another matter, they can be asked for.
func checkInput(chain protocol.Chain, input json.RawMessage) error {
	if given := decision.Object(input); mayBeForm(input) {
		left := untouched(inputForm(chain.Inputs, slices.Collect(maps.Keys(given))), given, "/input")
		if len(left) > 0 {
			return placeholdersLeft(left)
		}
	}
	if len(chain.Inputs) == 0 {
		return nil
	}
	loose := without(chain.Inputs, "required")
	if problems := schema.Validate(loose, orObject(input)); len(problems) > 0 {
		return fault.New(fault.InvalidArgument, "input does not fit the protocol %q: %s", chain.Title, describe(problems)).
			With("inputs", chain.Inputs)
	}
	return nil
}

func placeholdersLeft(left []string) error {
	return fault.New(fault.InvalidArgument, "input: %s still hold the placeholders of next_call", plain.Clip(strings.Join(left, ", "), 500)).
		WithNext("replace each by its value, which you may have to ask the user for, and call kairos_begin again")
}

func (ob *obtaining) inputAnswer(a driver.Answer) (run.Event, error) {
	merged, err := ob.takeRunInput(a.Value)
	if err != nil {
		return run.Event{}, err
	}
	a.Value = merged
	return run.Event{Answer: &a}, nil
}

func orObject(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("{}")
	}
	return raw
}

// missingKeys lists the required keys that the input lacks, in the schema's order.
func missingKeys(inputs, input json.RawMessage) []string {
	var s struct {
		Required []string `json:"required"`
	}
	if json.Unmarshal(inputs, &s) != nil {
		return nil
	}
	have := decision.Object(input)
	return slices.DeleteFunc(s.Required, func(k string) bool { _, ok := have[k]; return ok })
}

// only is the schema for just these keys.
func only(inputs json.RawMessage, keys []string) json.RawMessage {
	var s struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	_ = json.Unmarshal(inputs, &s) // was an object when the protocol was stored
	maps.DeleteFunc(s.Properties, func(k string, _ json.RawMessage) bool { return !slices.Contains(keys, k) })
	b, _ := json.Marshal(map[string]any{
		"type": "object", "properties": s.Properties, "required": keys, "additionalProperties": false,
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
