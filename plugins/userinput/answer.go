package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/fields"
	"github.com/kairos-mcp/kairos/sdk/plain"
	"github.com/kairos-mcp/kairos/sdk/schema"
)

const declinedReason = "the user answered: rejected"

// proof is recorded for a finished step.
type proof struct {
	Type         string          `json:"type"`
	Prompt       string          `json:"prompt"`
	Confirmation string          `json:"confirmation,omitempty"`
	Timestamp    string          `json:"timestamp,omitempty"`
	Form         json.RawMessage `json:"form,omitempty"`
}

// output is what later steps see of an answer without a form.
type output struct {
	Confirmation string `json:"confirmation" doc:"approved, or what the agent reports"`
}

// judgeConfirmation judges an answer without a form. An answer that the server
// obtained itself is exactly "approved" or "rejected"; what the agent reports may be any
// text, as agents have always sent it.
func judgeConfirmation(answer driver.Answer, p params) (driver.AdvanceResult, error) {
	if answer.Provenance != driver.AgentReported {
		if found := schema.Validate(json.RawMessage(confirmationSchema), answer.Value); found != nil {
			return incomplete(fields.Text(found), p), nil
		}
	}
	o := fields.Open(answer.Value, "/user_input")
	text, found := o.String("confirmation")
	if plain.Empty(text) && (found || !o.Has("confirmation")) {
		o.Wrong("confirmation", "is missing, or nothing in it can be seen")
	}
	timestamp, _ := o.String("timestamp")
	timestamp = cmp.Or(answer.ObtainedAt, timestamp)
	if problems := o.Problems(); problems != nil {
		return incomplete(fields.Text(problems), p), nil
	}
	text = strings.TrimSpace(text)
	switch {
	case plain.Rejected(text):
		return driver.Decline(declinedReason), nil
	case p.approves && refusals[plain.Word(text)]:
		return unclear(text, p), nil
	}
	recorded, err := json.Marshal(proof{Type: typeName, Prompt: p.Prompt, Confirmation: text, Timestamp: timestamp})
	if err != nil {
		return driver.AdvanceResult{}, err
	}
	output, err := json.Marshal(output{text})
	return driver.Accept(recorded, output), err
}

// refusals are words that mean "rejected" as the whole answer to a question for an
// approval. As the answer to another question they are an answer: "Any blockers?" "No".
var refusals = func() map[string]bool {
	words := make(map[string]bool)
	for _, w := range []string{
		"no", "nope", "nay", "never", "no thanks", "no thank you", "not approved", "disapproved", "reject", "decline", "declined", "refuse", "refused",
		"deny", "denied", "cancel", "cancelled", "canceled", "stop", "abort", "don't", "do not", "false", "n",
		"nein", "nicht", "ablehnen", "abgelehnt", "abbrechen", "non", "nie", "nej", "nee", "não", "nao", "нет", "いいえ", "不",
	} {
		words[plain.Word(w)] = true
	}
	return words
}()

// unclear asks for one of the two words. A guess would either advance a step that the
// user refused or remember a decline that was not one.
func unclear(text string, p params) driver.AdvanceResult {
	return driver.Reject(codeMissing, fmt.Sprintf(
		"The answer %q does not say clearly whether the user approves. Show the user this prompt again and submit exactly %q or %q as confirmation: %q. Do not infer or invent the answer.",
		plain.LineWithin(text, maxSaid), approved, rejected, p.Prompt))
}

// maxSaid is how many bytes of an answer a message repeats.
const maxSaid = 100

func incomplete(problem string, p params) driver.AdvanceResult {
	return driver.Reject(codeMissing, fmt.Sprintf(
		"Solution incomplete: %s. Show the user this prompt and pass on the user's own answer: %q. Do not infer or invent the answer.",
		problem, p.Prompt))
}

// judgeForm judges the answer to a form: strictly what the server obtained
// itself, as the schema says it what the agent reports.
func judgeForm(answer driver.Answer, p params) (driver.AdvanceResult, error) {
	shown, err := schema.FormOf(p.form, true)
	if err != nil {
		return driver.AdvanceResult{}, fmt.Errorf("output schema: %w", err)
	}
	form, against := answer.Value, p.form
	if answer.Provenance == driver.AgentReported {
		var no bool
		if form, no = reportedForm(answer.Value, p.form, shown); no {
			return driver.Decline(declinedReason), nil
		}
		if form == nil {
			return incomplete("the answer holds no value of the form ("+names(p.form)+")", p), nil
		}
	} else {
		strict, err := schema.Strict(p.form)
		if err != nil {
			return driver.AdvanceResult{}, fmt.Errorf("output schema: %w", err)
		}
		against = strict
	}
	form, found := shown.Value(form)
	if found == nil {
		found = schema.Validate(against, form)
	}
	if found != nil {
		return incomplete(fields.Text(found), p), nil
	}
	if name := unseen(form); name != "" {
		return incomplete(fmt.Sprintf("nothing in the value of %q can be seen", name), p), nil
	}
	form, err = fields.DecodeOne(form)
	if err != nil {
		return driver.AdvanceResult{}, err
	}
	recorded, err := json.Marshal(proof{Type: typeName, Prompt: p.Prompt, Timestamp: answer.ObtainedAt, Form: form})
	return driver.Accept(recorded, form), err
}

// unseen is the first field, in the order of their names, whose text holds characters
// and nothing that can be seen; empty if no field does. An empty text says openly that
// nothing was filled in, which the form may allow.
func unseen(form json.RawMessage) string {
	var values map[string]any
	if json.Unmarshal(form, &values) != nil {
		return ""
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		all, isList := values[name].([]any)
		if !isList {
			all = []any{values[name]}
		}
		for _, value := range all {
			if text, isText := value.(string); isText && text != "" && plain.Empty(text) {
				return name
			}
		}
	}
	return ""
}

// reportedForm finds the form in what the agent reports: the form itself, or a
// confirmation that holds it as JSON text, or one plain value for a form of one
// field; nil if there is none. no: the agent reports that the user rejected it.
func reportedForm(value, form json.RawMessage, shown schema.Form) (filled json.RawMessage, no bool) {
	properties := propertiesOf(form)
	if fills(value, properties) {
		return value, false
	}
	text, _ := fields.Open(value, "").String("confirmation")
	text = strings.TrimSpace(text)
	if fills(json.RawMessage(text), properties) {
		return json.RawMessage(text), false
	}
	filled = coerced(text, properties)
	if plain.Rejected(text) && (!choice(properties) || !valid(filled, form, shown)) {
		return nil, true
	}
	return filled, false
}

// valid reports whether the schema of a form takes what was filled in.
func valid(filled, form json.RawMessage, shown schema.Form) bool {
	read, found := shown.Value(filled)
	return found == nil && schema.Validate(form, read) == nil
}

// fills reports whether the value is an object with at least one of the fields.
func fills(value json.RawMessage, properties map[string]json.RawMessage) bool {
	o := fields.Open(value, "")
	for name := range properties {
		if o.Has(name) {
			return true
		}
	}
	return false
}

func names(form json.RawMessage) string {
	return strings.Join(slices.Sorted(maps.Keys(propertiesOf(form))), ", ")
}

func propertiesOf(form json.RawMessage) map[string]json.RawMessage {
	var s struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if json.Unmarshal(form, &s) != nil {
		return nil
	}
	return s.Properties
}

// choice reports whether the form's only field lists its values. Only then can
// "rejected" be meant as a value; in free text it is a decline.
func choice(properties map[string]json.RawMessage) bool {
	for _, p := range properties {
		return len(properties) == 1 && schema.Choices(p) != ""
	}
	return false
}

// coerced makes the form of one field from plain text, nil if that cannot be.
func coerced(text string, properties map[string]json.RawMessage) json.RawMessage {
	if len(properties) != 1 || plain.Empty(text) {
		return nil
	}
	name := slices.Collect(maps.Keys(properties))[0]
	value := json.RawMessage(strings.ToLower(text))
	switch kind, _ := fields.Open(properties[name], "").String("type"); kind {
	case "array":
		if value = json.RawMessage(text); !strings.HasPrefix(text, "[") {
			value = quoted(text)
		}
	case "string":
		value = quoted(text)
	case "boolean":
		if said, known := map[string]string{"yes": "true", "no": "false"}[string(value)]; known {
			value = json.RawMessage(said)
		}
	}
	if _, err := fields.DecodeOne(value); err != nil {
		return nil
	}
	filled, err := fields.With(nil, name, value)
	if err != nil {
		return nil
	}
	return filled
}

// quoted is a text in JSON.
func quoted(text string) json.RawMessage {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(text) // a text always is
	return bytes.TrimSpace(b.Bytes())
}
