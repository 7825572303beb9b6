package input

import "encoding/json"

// The answers to the question which steps drivers may do themselves in this run.
const (
	AcceptsOnce = "once"
	AcceptsNone = "no"
)

// AcceptanceForm has no default: a client that fills in defaults must not allow anything.
// It offers nothing beyond this run: any client can fill a form without a person.
var AcceptanceForm = json.RawMessage(`{"type":"object","properties":{"allow":{"type":"string","title":"Allow this?",` +
	`"description":"no: KAIROS does none of it; once: in this run",` +
	`"enum":["no","once"]}},"required":["allow"],"additionalProperties":false}`)

// Accepts is what a person answered; AcceptsNone: anything but a clear yes.
func Accepts(value json.RawMessage) string {
	var v struct {
		Allow string `json:"allow"`
	}
	if json.Unmarshal(value, &v) != nil || v.Allow != AcceptsOnce {
		return AcceptsNone
	}
	return v.Allow
}
