// Command kairos-driver-acme_release is a challenge driver: a release is confirmed
// by a person, through whatever driver obtains Acme's confirmations.
package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/driverrpc"
	"github.com/kairos-mcp/kairos/sdk/fields"
	"github.com/kairos-mcp/kairos/sdk/schema"
)

const (
	typeName = "acme_release"
	inputID  = "confirmation"
)

// confirmation is the form of the answer.
const confirmation = `{"type":"object","additionalProperties":false,"required":["confirmed","by"],"properties":{` +
	`"confirmed":{"const":true},"by":{"type":"string","minLength":1,"maxLength":200}}}`

// parameters are what a challenge demands, for the manual page, lint and editors.
const parameters = `{"type":"object","additionalProperties":false,"required":["version"],"properties":{` +
	`"version":{"type":"string","minLength":1,"description":"what is released"}}}`

func main() { driverrpc.Main(definition()) }

func definition() driver.Driver {
	return driver.Driver{
		Descriptor: driver.Descriptor{
			Name: typeName, Version: "0.1.0", Role: driver.RoleChallenge, Handles: []string{typeName}, Effect: driver.EffectPure,
			ParamsSchema: json.RawMessage(parameters), OutputSchema: json.RawMessage(confirmation),
		},
		Challenge: release{},
	}
}

type release struct{}

// version reads the one parameter: which version is released.
func version(challenge json.RawMessage) (string, []driver.Diagnostic) {
	top := fields.Open(challenge, "")
	params := top.Object(typeName)
	v, ok := params.String("version")
	if ok && v == "" || !ok && len(top.Problems()) == 0 {
		params.Wrong("version", "must name what is released")
	}
	params.Unread()
	return v, top.Diagnostics()
}

// Validate implements driver.Challenge.
func (release) Validate(_ context.Context, req driver.ValidateRequest) (driver.ValidateResult, error) {
	_, found := version(req.Challenge)
	return driver.ValidateResult{
		Diagnostics: found,
		Templates:   []driver.Template{{Pointer: "/" + typeName + "/version", Escaping: driver.EscapeQuote}},
	}, nil
}

// Advance implements driver.Challenge. Acme's confirmations are a kind of input of
// their own: the decision tree says which driver obtains them.
func (release) Advance(_ context.Context, req driver.AdvanceRequest) (driver.AdvanceResult, error) {
	v, found := version(req.Challenge)
	if fields.AnyError(found) {
		return driver.CannotAdvance("the challenge is not valid: " + fields.Text(found)), nil
	}
	answer, ok := req.Answer(inputID)
	if !ok {
		display, err := json.Marshal(map[string]string{"version": v})
		if err != nil {
			return driver.AdvanceResult{}, err
		}
		return driver.Need(driver.Input{
			ID: inputID, Kind: "acme.confirmation", Type: typeName, Person: true,
			Description: fmt.Sprintf("Release %s?", v), Schema: json.RawMessage(confirmation),
			Display: display,
		}), nil
	}
	if problems := schema.Validate(json.RawMessage(confirmation), answer.Value); len(problems) > 0 {
		return driver.Reject("NOT_CONFIRMED", "The confirmation is not one: "+fields.Text(problems)), nil
	}
	return driver.Accept(answer.Value, answer.Value), nil
}
