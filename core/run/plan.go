package run

import (
	"encoding/json"
	"fmt"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// Plan is what a driver said that it would do to obtain the evidence.
type Plan struct {
	Driver string `json:"driver"`
	// Grant allowed it: its id. By is who granted it, which the plans of earlier
	// versions do not say. A grant may be revoked later.
	Grant string `json:"grant"`
	By    string `json:"by,omitempty"`
	// Text is for the person who approves it, Data for the driver.
	Text   string          `json:"text"`
	Data   json.RawMessage `json:"data"`
	Effect driver.Effect   `json:"effect"`
	// Proposed is what the agent chose of it, or empty.
	Proposed json.RawMessage `json:"proposed,omitempty"`
	// Action is what the driver adds to the action of the input.
	Action json.RawMessage `json:"action,omitempty"`
}

// Permission says under which grant a driver did a step itself, and what it was to do.
type Permission struct {
	Grant  string        `json:"grant"`        // its id
	By     string        `json:"by,omitempty"` // who granted it
	Driver string        `json:"driver"`
	Effect driver.Effect `json:"effect"`
	// Plan is the digest of what the driver said that it would do.
	Plan string `json:"plan"`
}

// Permission to do what is planned.
func (p Plan) Permission() (Permission, error) {
	b, err := json.Marshal(struct {
		Driver string          `json:"driver"`
		Effect driver.Effect   `json:"effect"`
		Text   string          `json:"text"`
		Data   json.RawMessage `json:"data"`
	}{p.Driver, p.Effect, p.Text, p.Data})
	if err != nil {
		return Permission{}, fmt.Errorf("encode the plan: %w", err)
	}
	digest, err := Digest(b)
	return Permission{Grant: p.Grant, By: p.By, Driver: p.Driver, Effect: p.Effect, Plan: digest}, err
}

// String tells it to people.
func (p Permission) String() string { return allowed(p.By, p.Grant) }

// Allowed tells people who allowed what is planned.
func (p Plan) Allowed() string { return allowed(p.By, p.Grant) }

func allowed(by, grant string) string {
	if by == "" {
		by = "a person"
	}
	return fmt.Sprintf("allowed by %s (grant %s)", by, grant)
}

// redacted is what is left of a plan: who allowed it, not what it was.
func (p Plan) redacted() *Plan {
	return &Plan{Driver: p.Driver, Grant: p.Grant, By: p.By, Effect: p.Effect}
}
