package driver

import (
	"encoding/json"
)

// Step says where in a protocol a challenge stands.
type Step struct {
	Protocol string `json:"protocol"` // title
	Label    string `json:"label"`
	Text     string `json:"text"`  // Markdown body, challenge block removed
	Index    int    `json:"index"` // 1-based
	Count    int    `json:"count"`
}

// State is what a challenge driver wants back at its next Advance of a step.
type State struct {
	Version int             `json:"version,omitempty"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// ValidateRequest carries the whole challenge object of a step.
type ValidateRequest struct {
	Challenge json.RawMessage `json:"challenge"`
}

// ValidateResult says what is wrong with a challenge and where templates may stand.
type ValidateResult struct {
	Diagnostics []Diagnostic `json:"diagnostics,omitempty"`
	// Challenge is the challenge with defaults filled in. If it is empty the challenge stays as sent.
	Challenge json.RawMessage `json:"challenge,omitempty"`
	Templates []Template      `json:"templates,omitempty"`
	// Action is the action as the challenge has it before its templates are filled in,
	// as in Input.Action. The operator's rules are checked against it when a protocol is
	// stored or linted. Templates are Unparsed.
	Action json.RawMessage `json:"action,omitempty"`
}

// AdvanceRequest carries everything a challenge driver may know.
type AdvanceRequest struct {
	Challenge json.RawMessage `json:"challenge"`
	Step      Step            `json:"step"`
	Client    Client          `json:"client"`
	Answers   []Answer        `json:"answers,omitempty"`
	State     State           `json:"state"`
	Round     int             `json:"round"`
	// Approved: an approval stands in front of the evidence, for exactly what the
	// evidence input shows. Evidence of anything more or anything else must be
	// rejected.
	Approved bool `json:"approved,omitempty"`
	// IdempotencyKey identifies this call: the same whenever the call is
	// repeated, different for every other run, step, round and attempt. It
	// is opaque, and empty for a pure driver.
	IdempotencyKey string `json:"idempotency_key,omitempty"`
	// Attempt at the step, from 1. Another attempt exists only after the one
	// before came to a known outcome.
	Attempt int `json:"attempt,omitempty"`
	// Recover: a call with this key was made before, and its reply was lost or
	// was pending. Report what came of it and do not act. Only drivers with
	// FeatureRecover are asked.
	Recover bool `json:"recover,omitempty"`
	// Cancel, only with Recover: end what the call started, and report what came of
	// it: NotDone if nothing did, its outcome if it had ended before, Unknown if
	// nobody can tell. Only drivers with FeatureCancel are asked.
	Cancel bool `json:"cancel,omitempty"`
}

// Answer returns the answer to the input with the id.
func (r AdvanceRequest) Answer(id string) (Answer, bool) {
	for _, a := range r.Answers {
		if a.InputID == id {
			return a, true
		}
	}
	return Answer{}, false
}

// RenderRequest asks how an input is to be obtained from this client.
type RenderRequest struct {
	Input  Input  `json:"input"`
	Step   Step   `json:"step"`
	Client Client `json:"client"`
	Links  Links  `json:"links"`
	// Diagnostics say why the last answer to this input was refused, in this
	// call or an earlier one.
	Diagnostics []Diagnostic `json:"diagnostics,omitempty"`
	// IdempotencyKey, Attempt, Recover and Cancel are as in AdvanceRequest, of the
	// input instead of the round.
	IdempotencyKey string `json:"idempotency_key,omitempty"`
	Attempt        int    `json:"attempt,omitempty"`
	Recover        bool   `json:"recover,omitempty"`
	Cancel         bool   `json:"cancel,omitempty"`
	// How lists those of Descriptor.AnswersBy that count for an approval, at least one;
	// empty for other inputs.
	How []string `json:"how,omitempty"`
	// Plan is Plan.Data of the driver's own Preview: Render does exactly this, or
	// is unavailable. Empty for drivers without FeaturePreview.
	Plan json.RawMessage `json:"plan,omitempty"`
}

// Links are made by the host; an empty one does not exist.
type Links struct {
	// Approval is the page on which a person answers the approval input that is
	// rendered. Anyone with the link may answer, so it belongs to that person only.
	Approval string `json:"approval,omitempty"`
}

// InterpretRequest carries the raw reply to a rendered question.
type InterpretRequest struct {
	Input  Input  `json:"input"`
	Step   Step   `json:"step"`
	Client Client `json:"client"`
	// Raw is the client's result or the agent's solution; empty when the
	// client replied with an error.
	Raw         json.RawMessage `json:"raw,omitempty"`
	ClientError *ClientError    `json:"client_error,omitempty"`
	// IdempotencyKey, Attempt and How are those of the Render whose question this
	// replies to.
	IdempotencyKey string `json:"idempotency_key,omitempty"`
	Attempt        int    `json:"attempt,omitempty"`
	How            string `json:"how,omitempty"`
}

// ClientError is a JSON-RPC error of the client.
type ClientError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}
