package run

import (
	"encoding/json"
	"fmt"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// Plan is what a driver said that it would do to obtain the evidence.
type Plan struct {
	Driver string `json:"driver"`
	// Acceptance is the id of the acceptance under which the driver may act, and By is who
	// accepted it. The acceptance may be revoked later.
	Acceptance string `json:"acceptance"`
	By         string `json:"by"`
	// Text is for the person who approves it, Data for the driver.
	Text   string          `json:"text"`
	Data   json.RawMessage `json:"data"`
	Effect driver.Effect   `json:"effect"`
	// Proposed is what the agent chose of it, or empty.
	Proposed json.RawMessage `json:"proposed,omitempty"`
	// Action is what the driver adds to the action of the input.
	Action json.RawMessage `json:"action,omitempty"`
}

// Permission says under which acceptance a driver did a step itself, and what it was to do.
type Permission struct {
	Acceptance string        `json:"acceptance"` // its id
	By         string        `json:"by"`         // who accepted it
	Driver     string        `json:"driver"`
	Effect     driver.Effect `json:"effect"`
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
	return Permission{Acceptance: p.Acceptance, By: p.By, Driver: p.Driver, Effect: p.Effect, Plan: digest}, err
}

// String tells it to people.
func (p Permission) String() string { return acceptedBy(p.By, p.Acceptance) }

// Accepted tells people who accepted what is planned.
func (p Plan) Accepted() string { return acceptedBy(p.By, p.Acceptance) }

func acceptedBy(by, id string) string {
	return fmt.Sprintf("accepted by %s (acceptance %s)", by, id)
}

// redacted is what is left of a plan: who accepted it, not what it was.
func (p Plan) redacted() *Plan {
	return &Plan{Driver: p.Driver, Acceptance: p.Acceptance, By: p.By, Effect: p.Effect}
}
