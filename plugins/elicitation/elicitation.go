package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/fields"
)

const method = "elicitation/create"

func definition() driver.Driver {
	return driver.Driver{
		Descriptor: driver.Descriptor{
			Name: "elicitation", Version: "0.1.0", Role: driver.RoleCapability,
			Handles: handles(), Effect: driver.EffectPure, Features: []string{driver.FeatureHuman},
			Needs: []string{driver.NeedElicitation}, Sends: []driver.ClientMethod{{Method: method}},
			AnswersBy: []string{driver.ByForm, driver.ByPage},
		},
		Capability: elicitation{},
	}
}

func handles() []string {
	return []string{driver.KindEvidence, driver.KindApproval, driver.KindRunInput, driver.KindAcceptance}
}

// elicitation is the driver. It is safe for concurrent use.
type elicitation struct{}

// formParams are the params of elicitation/create in form mode. The mode is
// left out: that means form, and older clients do not know the key.
type formParams struct {
	Message         string `json:"message"`
	RequestedSchema form   `json:"requestedSchema"`
}

// form is a requestedSchema with the keys that every client knows. Its
// properties stay as written: clients show them in that order.
type form struct {
	Type       string          `json:"type"`
	Properties json.RawMessage `json:"properties"`
	Required   []string        `json:"required,omitempty"`
}

// urlParams are the params of elicitation/create in url mode.
type urlParams struct {
	Mode    string `json:"mode"`
	Message string `json:"message"`
	URL     string `json:"url"`
	ID      string `json:"elicitationId"`
}

// Render implements driver.Capability.
func (elicitation) Render(_ context.Context, req driver.RenderRequest) (driver.RenderResult, error) {
	if !slices.Contains(handles(), req.Input.Kind) {
		return driver.CannotRender("elicitation does not obtain inputs of kind " + req.Input.Kind), nil
	}
	if byURL(req) {
		return renderURL(req)
	}
	switch {
	case req.Input.Kind == driver.KindApproval && !slices.Contains(req.How, driver.ByForm):
		return driver.CannotRender("a form does not count for this approval, and the client cannot open addresses"), nil
	case !req.Client.ElicitationForm:
		return driver.CannotRender("the client has no elicitation forms"), nil
	case req.Input.Sensitive:
		return driver.CannotRender("a form must not ask for secrets"), nil
	}
	return renderForm(req)
}

// byURL reports whether the person is sent to an address: for approvals, the
// only inputs that have a page, where it counts and the client cannot show a form
// that counts.
func byURL(req driver.RenderRequest) bool {
	form := req.Client.ElicitationForm && slices.Contains(req.How, driver.ByForm)
	return req.Input.Kind == driver.KindApproval && req.Client.ElicitationURL && slices.Contains(req.How, driver.ByPage) && !form
}

func renderURL(req driver.RenderRequest) (driver.RenderResult, error) {
	if req.Links.Approval == "" {
		return driver.CannotRender("the server has no approval page, or its link does not count for this"), nil
	}
	// The same question has the same id, as a driver keeps nothing between calls.
	id := sha256.Sum256([]byte(req.Links.Approval))
	return ask(driver.ByPage, urlParams{Mode: "url", Message: message(req), URL: req.Links.Approval, ID: hex.EncodeToString(id[:16])})
}

func renderForm(req driver.RenderRequest) (driver.RenderResult, error) {
	shown, err := formOf(req.Input, req.Client)
	if err != nil {
		return driver.CannotRender("the input is not a flat form: " + err.Error()), nil //nolint:nilerr // it is the outcome of the call
	}
	var f form
	if err := json.Unmarshal(shown.Schema, &f); err != nil {
		return driver.RenderResult{}, err
	}
	var properties map[string]json.RawMessage
	if err := json.Unmarshal(f.Properties, &properties); err != nil {
		return driver.RenderResult{}, err
	}
	if !optional(req.Input.Schema) {
		f.Required = slices.Sorted(maps.Keys(properties))
	}
	f.Properties, err = withoutDefaults(f.Properties, properties, req.Input)
	if err != nil {
		return driver.RenderResult{}, err
	}
	way := ""
	if req.Input.Kind == driver.KindApproval {
		way = driver.ByForm
	}
	return ask(way, formParams{Message: message(req) + titles(shown, req.Input.Description), RequestedSchema: f})
}

// withoutDefaults takes the default off approval fields: nothing is approved by
// accepting what is filled in.
func withoutDefaults(written json.RawMessage, properties map[string]json.RawMessage, in driver.Input) (json.RawMessage, error) {
	changed := false
	for name, field := range properties {
		if in.Kind != driver.KindApproval && (!in.Person || name != "confirmation") {
			continue
		}
		bare, err := fields.Without(field, "default")
		if err != nil {
			return nil, err
		}
		properties[name], changed = bare, true
	}
	if !changed {
		return written, nil
	}
	return json.Marshal(properties)
}

// optional reports whether the schema says itself what is required, even if
// that is nothing.
func optional(s json.RawMessage) bool {
	return fields.Open(s, "").Has("required")
}

func ask(way string, params any) (driver.RenderResult, error) {
	raw, err := json.Marshal(params)
	asked := driver.AskClient(method, raw)
	asked.How = way
	return asked, err
}

func message(req driver.RenderRequest) string {
	text := strings.TrimSpace(req.Input.Description)
	if text == "" {
		text = "Please answer for the step " + req.Step.Label + "."
	}
	if len(req.Diagnostics) > 0 {
		text += "\n\nThe answer before could not be taken: " + fields.Text(req.Diagnostics)
	}
	return text
}
