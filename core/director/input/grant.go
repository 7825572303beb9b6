package input

import "encoding/json"

// The answers to the question which steps drivers may do themselves.
const (
	AllowsOnce   = "once"
	AllowsAlways = "always"
	AllowsNone   = "no"
)

// GrantForm has no default: a client that fills in defaults must not allow anything.
var GrantForm = json.RawMessage(`{"type":"object","properties":{"allow":{"type":"string","title":"Allow this?",` +
	`"description":"no: KAIROS does none of it; once: in this run; always: in every run of this version of the protocol",` +
	`"enum":["no","once","always"]}},"required":["allow"],"additionalProperties":false}`)

// Allows is what a person answered; AllowsNone: anything but a clear yes.
func Allows(value json.RawMessage) string {
	var v struct {
		Allow string `json:"allow"`
	}
	if json.Unmarshal(value, &v) != nil || (v.Allow != AllowsOnce && v.Allow != AllowsAlways) {
		return AllowsNone
	}
	return v.Allow
}
