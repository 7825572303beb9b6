package input

import "encoding/json"

// The answers to the question which steps drivers may do themselves in this run.
const (
	AllowsOnce = "once"
	AllowsNone = "no"
)

// GrantForm has no default: a client that fills in defaults must not allow anything.
// It offers nothing beyond this run: any client can fill a form without a person.
var GrantForm = json.RawMessage(`{"type":"object","properties":{"allow":{"type":"string","title":"Allow this?",` +
	`"description":"no: KAIROS does none of it; once: in this run",` +
	`"enum":["no","once"]}},"required":["allow"],"additionalProperties":false}`)

// Allows is what a person answered; AllowsNone: anything but a clear yes.
func Allows(value json.RawMessage) string {
	var v struct {
		Allow string `json:"allow"`
	}
	if json.Unmarshal(value, &v) != nil || v.Allow != AllowsOnce {
		return AllowsNone
	}
	return v.Allow
}
