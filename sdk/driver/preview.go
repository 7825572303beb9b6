package driver

import (
	"context"
	"encoding/json"
)

// FeaturePreview marks a driver that acts on what a protocol says, which is never a
// permission. The host calls Render only for a step that a person accepted, and
// with the plan of Preview. The driver implements Previewer.
const FeaturePreview = "preview"

// Previewer is implemented by capability drivers with FeaturePreview. Its methods
// are called concurrently.
type Previewer interface {
	// Preview says what Render would do, and does nothing.
	Preview(ctx context.Context, req PreviewRequest) (PreviewResult, error)
}

// PreviewRequest asks what Render would do for an input.
type PreviewRequest struct {
	Input  Input  `json:"input"`
	Step   Step   `json:"step"`
	Client Client `json:"client"`
	// Proposal is the agent's, of the schema that the driver asked for; empty:
	// none yet.
	Proposal json.RawMessage `json:"proposal,omitempty"`
}

// PreviewResult is the outcome of Preview. Exactly one of the pointers is set;
// build it with Planned, ProposalNeeded, ProposalInvalid or CannotPreview.
type PreviewResult struct {
	Plan        *Plan        `json:"plan,omitempty"`
	Propose     *Propose     `json:"propose,omitempty"`
	Invalid     *Invalid     `json:"invalid,omitempty"`
	Unavailable *Unavailable `json:"unavailable,omitempty"`
}

// Plan is what Render would do.
type Plan struct {
	// Text says what exactly will be done, for the person who approves it.
	Text string `json:"text"`
	// Data is JSON that Render gets back as its plan. What is approved is its digest.
	Data json.RawMessage `json:"data"`
	// Effect is EffectReads, or EffectChanges: something changes, so a person
	// approves each time and Render acts at most once.
	Effect Effect `json:"effect"`
	// Action is a JSON object: members that the plan adds to Input.Action, or fills
	// in, such as arguments that were proposed. Empty: the proposal counts as one.
	Action json.RawMessage `json:"action,omitempty"`
}

// Propose asks the agent for what the input leaves open.
type Propose struct {
	Schema      json.RawMessage `json:"schema"`
	Description string          `json:"description,omitempty"`
}

// Planned says what Render would do.
func Planned(p Plan) PreviewResult { return PreviewResult{Plan: &p} }

// ProposalNeeded asks the agent to propose a value of the schema.
func ProposalNeeded(schema json.RawMessage, description string) PreviewResult {
	return PreviewResult{Propose: &Propose{Schema: schema, Description: description}}
}

// ProposalInvalid says why the proposal does not fit.
func ProposalInvalid(diagnostics ...Diagnostic) PreviewResult {
	return PreviewResult{Invalid: &Invalid{Diagnostics: diagnostics}}
}

// CannotPreview says that this driver cannot obtain the input.
func CannotPreview(reason string) PreviewResult {
	return PreviewResult{Unavailable: &Unavailable{Reason: reason}}
}
