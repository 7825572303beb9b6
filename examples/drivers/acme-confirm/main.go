// Command kairos-driver-acme_confirm is a capability driver: it has the clients of
// Acme ask a person for a confirmation, with a method that only they know.
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
	// method is what Acme's clients understand besides MCP.
	method = "acme/confirm"
	// capability is where they declare it: {"experimental": {"acme/confirm": {}}}.
	capability = "/experimental/acme~1confirm"
	// kind is an input that acme_release needs and no shipped driver obtains.
	kind = "acme.confirmation"
	// way is the word for approvals through this driver, which rules and steps name in "how".
	way = "acme"
)

func main() { driverrpc.Main(definition()) }

func definition() driver.Driver {
	return driver.Driver{
		Descriptor: driver.Descriptor{
			Name: "acme_confirm", Version: "0.1.0", Role: driver.RoleCapability, Handles: []string{kind, driver.KindEvidence, driver.KindApproval}, AnswersBy: []string{way},
			Effect: driver.EffectPure, Features: []string{driver.FeatureHuman},
			// The server takes no route to this driver from another client, and sends
			// for it nothing but this method.
			Needs: []string{capability},
			Sends: []driver.ClientMethod{{Method: method, Needs: []string{capability}}},
		},
		Capability: confirmer{},
	}
}

type confirmer struct{}

// question is what the client is sent.
type question struct {
	Question string `json:"question"`
	Protocol string `json:"protocol"`
	Step     string `json:"step"`
	// Refused says what was wrong with the last reply.
	Refused []string `json:"refused,omitempty"`
}

// Render asks what can be answered with yes or no.
func (confirmer) Render(_ context.Context, req driver.RenderRequest) (driver.RenderResult, error) {
	switch {
	case !req.Client.Declares(capability):
		return driver.CannotRender("the client does not declare " + capability), nil
	case req.Input.Kind != kind && req.Input.Kind != driver.KindEvidence && req.Input.Kind != driver.KindApproval:
		return driver.CannotRender("it asks for a confirmation, not for " + req.Input.Kind), nil
	case req.Input.Sensitive:
		return driver.CannotRender("a secret is not a confirmation"), nil
	}
	if req.Input.Kind != kind && len(schema.Validate(req.Input.Schema, value(req.Input, ""))) > 0 {
		return driver.CannotRender("the question cannot be answered with yes or no"), nil
	}
	q := question{Question: req.Input.Description, Protocol: req.Step.Protocol, Step: req.Step.Label}
	for _, d := range req.Diagnostics {
		q.Refused = append(q.Refused, d.Message)
	}
	params, err := json.Marshal(q)
	if err != nil {
		return driver.RenderResult{}, fmt.Errorf("encode the question: %w", err)
	}
	return driver.AskClient(method, params), nil
}

// maxBy is how long a name may be.
const maxBy = 200

// Interpret reads {"answer": "yes" | "no" | "later", "by": NAME}. It is what a
// stranger sent, so anything else is not an answer.
func (confirmer) Interpret(_ context.Context, req driver.InterpretRequest) (driver.InterpretResult, error) {
	if req.ClientError != nil {
		return driver.CannotInterpret("the client could not ask: " + req.ClientError.Message), nil
	}
	reply := fields.Open(req.Raw, "")
	answer, _ := reply.String("answer")
	by, _ := reply.String("by")
	if by == "" || len(by) > maxBy {
		reply.Wrong("by", fmt.Sprintf("must be a name of at most %d bytes", maxBy))
	}
	if problems := reply.Problems(); len(problems) > 0 {
		return driver.NotAnAnswer(problems...), nil
	}
	switch answer {
	case "yes":
		return driver.Answered(value(req.Input, by), driver.ClientAttested), nil
	case "no":
		return driver.PersonDeclined(by + " declined"), nil
	case "later":
		return driver.PersonDismissed(by + " will answer later"), nil
	}
	return driver.NotAnAnswer(driver.Problem("/answer", "must be yes, no or later")), nil
}

// value is the confirmation in the form of the input: evidence and approvals have that of user_input.
func value(in driver.Input, by string) json.RawMessage {
	if in.Kind != kind {
		return json.RawMessage(`{"confirmation":"approved"}`)
	}
	raw, err := json.Marshal(map[string]any{"confirmed": true, "by": by})
	if err != nil {
		panic(err) // strings and booleans have a JSON form
	}
	return raw
}
