package drivertest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/schema"
)

// fitsParams compares what Validate takes with the params_schema.
func fitsParams(ctx context.Context, s Subject) error {
	compiled, err := declared(s.Descriptor.ParamsSchema, "params_schema")
	if err != nil {
		return err
	}
	return eachRequest(ctx, s, `a Validate sample with "want": "valid"`, func(req driver.ValidateRequest) error {
		params, ok := paramsOf(s.Descriptor, req.Challenge)
		if !ok || strings.Contains(string(params), "{{") { // a template may replace a value of any type
			return errPassedOver
		}
		result, err := s.Challenge.Validate(ctx, req)
		if err != nil || !slices.Equal(outcomes(result), []Outcome{Valid}) {
			return errPassedOver
		}
		if found := compiled.Validate(params); len(found) > 0 {
			return fmt.Errorf("it takes %s, which its params_schema refuses: %s", cut(string(params)), strings.Join(messages(found), "; "))
		}
		return nil
	})
}

// fitsOutput compares the output of accepted evidence with the output_schema.
func fitsOutput(ctx context.Context, s Subject) error {
	compiled, err := declared(s.Descriptor.OutputSchema, "output_schema")
	if err != nil {
		return err
	}
	return advances(ctx, s, `an Advance sample with "want": "accepted"`, func(req driver.AdvanceRequest, r driver.AdvanceResult) error {
		var step struct {
			Own json.RawMessage `json:"output_schema"`
		}
		if r.Accepted == nil || json.Unmarshal(req.Challenge, &step) != nil || step.Own != nil {
			return errPassedOver
		}
		output := r.Accepted.Output
		if len(output) == 0 {
			output = json.RawMessage("null")
		}
		if found := compiled.Validate(output); len(found) > 0 {
			return fmt.Errorf("its output %s does not fit its output_schema: %s", cut(string(output)), strings.Join(messages(found), "; "))
		}
		return nil
	})
}

// declared compiles a schema of the descriptor; a driver without it is not concerned.
func declared(text json.RawMessage, name string) (*schema.Schema, error) {
	if len(text) == 0 {
		return nil, unconcerned("its descriptor has no " + name)
	}
	compiled, err := schema.Compile(text)
	if err != nil {
		return nil, fmt.Errorf("its %s cannot be used: %w", name, err)
	}
	return compiled, nil
}

// paramsOf are the parameters in a challenge; false: it has none.
func paramsOf(d driver.Descriptor, challenge json.RawMessage) (json.RawMessage, bool) {
	var members map[string]json.RawMessage
	if json.Unmarshal(challenge, &members) != nil {
		return nil, false
	}
	for _, handled := range d.Handles {
		if params, ok := members[handled]; ok {
			return params, true
		}
	}
	return nil, false
}
