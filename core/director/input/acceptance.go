package input

import "encoding/json"

// The answers to the question whether the person accepts that drivers do steps of this run.
const (
	AcceptsOnce = "once"
	AcceptsNone = "no"
)

// AcceptanceForm has no default: a client that fills in defaults must not accept anything.
// It offers nothing beyond this run: any client can fill a form without a person.
var AcceptanceForm = json.RawMessage(`{"type":"object","properties":{"accept":{"type":"string","title":"Accept this?",` +
	`"description":"no: KAIROS does none of it; once: in this run",` +
	`"enum":["no","once"]}},"required":["accept"],"additionalProperties":false}`)

// Accepts is what a person answered; AcceptsNone: anything but a clear yes.
func Accepts(value json.RawMessage) string {
	var v struct {
		Accept string `json:"accept"`
	}
	if json.Unmarshal(value, &v) != nil || v.Accept != AcceptsOnce {
		return AcceptsNone
	}
	return v.Accept
}
