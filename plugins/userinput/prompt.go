package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/sdk/schema"
)

// defaultPrompt stands in for a prompt that the challenge leaves out.
const defaultPrompt = "Please confirm that this step is completed as described."

const (
	approved = "approved"
	rejected = "rejected"
)

// confirmationSchema is the JSON Schema of the evidence without a form. It has
// no default, so that nothing is approved by accepting what is filled in.
const confirmationSchema = `{"type":"object","properties":{"confirmation":{"type":"string","title":"Confirmation",` +
	`"enum":["approved","rejected"]}},"required":["confirmation"],"additionalProperties":false}`

// systemPrompt is for a model whose client lets a person answer.
const systemPrompt = `Show the following prompt to the user. Return only JSON: { "confirmation": "approved" | "rejected" }. ` +
	`Show it exactly as it is written and wait for the user's own reply; never answer in the user's place and never guess. ` +
	`"approved" if the user agreed, "rejected" if the user did not agree or did not answer.`

// formSystemPrompt is the same for a form.
const formSystemPrompt = `Show the following prompt to the user, exactly as it is written, ask for each of the values that the JSON Schema ` +
	`describes, and wait for the user's own reply. Never answer in the user's place, never guess and never fill in a value that the ` +
	`user did not give. Then return the user's values as one JSON object that matches the JSON Schema, and nothing else.`

// field is what a description tells of a form's field.
type field struct {
	Type        string `json:"type"`
	Title       string `json:"title"`
	Description string `json:"description"`
	Items       struct {
		Type string `json:"type"`
	} `json:"items"`
}

// formDescription is the prompt with a list of the fields: who answers without
// a form on the screen has to know their names.
func formDescription(p params) string {
	var form struct {
		Properties map[string]json.RawMessage `json:"properties"`
		Required   []string                   `json:"required"`
	}
	if json.Unmarshal(p.form, &form) != nil {
		return p.Prompt
	}
	var b strings.Builder
	b.WriteString(strings.TrimSpace(p.Prompt))
	for _, name := range slices.Sorted(maps.Keys(form.Properties)) {
		fmt.Fprintf(&b, "\n- %s", describe(name, form.Properties[name]))
		if len(form.Required) > 0 && !slices.Contains(form.Required, name) {
			b.WriteString(", optional")
		}
	}
	return b.String()
}

func describe(name string, raw json.RawMessage) string {
	var f field
	_ = json.Unmarshal(raw, &f) // says nothing then
	kind, choices := f.Type, schema.Choices(raw)
	switch {
	case kind == "array" && choices != "":
		kind = "any of " + choices
	case kind == "array":
		kind = "a list of " + f.Items.Type + "s"
	case choices != "":
		kind = "one of " + choices
	}
	text := fmt.Sprintf("%s (%s)", name, kind)
	for _, more := range []string{f.Title, f.Description} {
		if more != "" {
			text += ": " + more
		}
	}
	return text
}
