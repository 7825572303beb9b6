package driver

import (
	"encoding/json"
	"time"
)

// AdvanceResult is the outcome of Advance. Exactly one of the pointers is set;
// build it with Need, Accept, Reject, Decline, CannotAdvance or AdvanceLater.
type AdvanceResult struct {
	NeedInput   []Input      `json:"need_input,omitempty"`
	Accepted    *Accepted    `json:"accepted,omitempty"`
	Rejected    *Rejected    `json:"rejected,omitempty"`
	Declined    *Declined    `json:"declined,omitempty"`
	Unavailable *Unavailable `json:"unavailable,omitempty"`
	Pending     *Pending     `json:"pending,omitempty"`
	Unknown     *Unknown     `json:"unknown,omitempty"`
	NotDone     *NotDone     `json:"not_done,omitempty"`
	// State is handed back at the next Advance of the same step.
	State State `json:"state"`
}

// Accepted means that the evidence satisfies the challenge.
type Accepted struct {
	// Proof is the object recorded as proof. Where the challenge does not require
	// a good result, "passed": false in it says that the evidence failed, and
	// "failure" why.
	Proof json.RawMessage `json:"proof"`
	// Output is what later steps see as steps.<name>. The default is Proof.
	Output json.RawMessage `json:"output,omitempty"`
	// Observed: the driver looked at the world itself instead of taking the
	// answers' word, so the proof counts as server-observed. Only drivers of
	// effect reads or changes may say so.
	Observed bool `json:"observed,omitempty"`
}

// Rejected means that the evidence does not satisfy the challenge.
type Rejected struct {
	Code      string `json:"error_code"` // [A-Z][A-Z0-9_]{0,63}; agents see it behind the driver's name
	Message   string `json:"message"`
	Retryable bool   `json:"retryable"`
}

// Declined means that a person declined.
type Declined struct {
	Reason string `json:"reason"`
}

// Unavailable means that the driver cannot serve this call and has not acted;
// the next route is tried. Where waiting helps the outcome is Pending.
type Unavailable struct {
	Reason string `json:"reason"`
	// Asked is for Render of a driver with the feature FeatureModel: a model was
	// asked before it came to nothing, so that the request counts against the budgets.
	Asked bool `json:"asked,omitempty"`
}

// Pending means that somebody was asked, or something is running, and there is
// no outcome yet. The host makes the same call again later and tries nothing
// else meanwhile. A pure driver must not answer it, and a driver with
// EffectChanges only with FeatureRecover.
type Pending struct {
	Reason string `json:"reason"` // what is waited for
	// RetryAfter is after how many seconds asking again makes sense, at most an
	// hour. If it is 0 the host decides.
	RetryAfter float64 `json:"retry_after,omitempty"`
	// Progress is how much is done, 0 to 1, or nil if that is not known.
	Progress *float64 `json:"progress,omitempty"`
	// Message is what people are told meanwhile. The default is Reason.
	Message string `json:"message,omitempty"`
}

// Unknown means that a driver with EffectChanges cannot tell whether the call
// with this idempotency key acted. The host does not repeat it: a person decides.
type Unknown struct {
	Reason string `json:"reason"`
}

// NotDone means that no call with this idempotency key acted, and that none will
// any more. Only a request with Recover may be answered with it.
type NotDone struct {
	Reason string `json:"reason"`
}

// Need says which inputs are missing.
func Need(inputs ...Input) AdvanceResult { return AdvanceResult{NeedInput: inputs} }

// Accept accepts the evidence.
func Accept(proof, output json.RawMessage) AdvanceResult {
	return AdvanceResult{Accepted: &Accepted{Proof: proof, Output: output}}
}

// Observe accepts because the driver itself looked at the world and found the
// challenge satisfied; see Accepted.Observed.
func Observe(proof, output json.RawMessage) AdvanceResult {
	return AdvanceResult{Accepted: &Accepted{Proof: proof, Output: output, Observed: true}}
}

// Reject refuses the evidence; the agent may try again.
func Reject(code, message string) AdvanceResult {
	return AdvanceResult{Rejected: &Rejected{Code: code, Message: message, Retryable: true}}
}

// Decline records that a person declined.
func Decline(reason string) AdvanceResult {
	return AdvanceResult{Declined: &Declined{Reason: reason}}
}

// CannotAdvance says that this driver cannot judge the step now.
func CannotAdvance(reason string) AdvanceResult {
	return AdvanceResult{Unavailable: &Unavailable{Reason: reason}}
}

// AdvanceLater says that the verdict is pending, and after how long asking again
// makes sense. Progress and Message can be set in the result.
func AdvanceLater(reason string, retryAfter time.Duration) AdvanceResult {
	return AdvanceResult{Pending: &Pending{Reason: reason, RetryAfter: retryAfter.Seconds()}}
}

// AdvanceUnknown says that nobody can tell whether this call acted.
func AdvanceUnknown(reason string) AdvanceResult {
	return AdvanceResult{Unknown: &Unknown{Reason: reason}}
}

// AdvanceNotDone answers Recover: this call did not act and never will.
func AdvanceNotDone(reason string) AdvanceResult {
	return AdvanceResult{NotDone: &NotDone{Reason: reason}}
}

// RenderResult is the outcome of Render. Exactly one of the pointers is set.
type RenderResult struct {
	ClientRequest  *ClientRequest  `json:"client_request,omitempty"`
	AgentChallenge *AgentChallenge `json:"agent_challenge,omitempty"`
	Answer         *Answer         `json:"answer,omitempty"`
	Unavailable    *Unavailable    `json:"unavailable,omitempty"`
	// ClientReview answers an approval input: the client's own review of the
	// evidence request is the approval, if the evidence comes through this
	// same driver.
	ClientReview *ClientReview `json:"client_review,omitempty"`
	// Invalid: the value that the driver obtained itself is not an answer. The host renders
	// again with the diagnostics, as often as the route allows, then takes the
	// next route. Of a call that may have acted it means that the outcome is not known.
	Invalid *Invalid `json:"invalid,omitempty"`
	// Elsewhere leaves an approval input to a person at RenderRequest.Links.Approval.
	// The host asks nobody: it gives the link to the agent, and takes the answer
	// from the page behind it.
	Elsewhere *Elsewhere `json:"elsewhere,omitempty"`
	Pending   *Pending   `json:"pending,omitempty"`
	Unknown   *Unknown   `json:"unknown,omitempty"`
	NotDone   *NotDone   `json:"not_done,omitempty"`
	// How is the way of RenderRequest.How in which an approval is answered. A driver with one
	// way may leave it out.
	How string `json:"how,omitempty"`
}

// ClientRequest is an MCP request for the client.
type ClientRequest struct {
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// AgentChallenge is what the agent is shown as challenge.
type AgentChallenge struct {
	Type        string          `json:"type"`
	Description string          `json:"description"`
	Display     json.RawMessage `json:"display,omitempty"` // challenge.<type>
}

// ClientReview is explained at RenderResult.ClientReview.
type ClientReview struct {
	Reason string `json:"reason,omitempty"`
}

// Elsewhere is explained at RenderResult.Elsewhere.
type Elsewhere struct {
	// Message tells the agent what to tell the person; the host adds the link.
	Message string `json:"message,omitempty"`
}

// AskClient asks the client with an MCP request.
func AskClient(method string, params json.RawMessage) RenderResult {
	return RenderResult{ClientRequest: &ClientRequest{Method: method, Params: params}}
}

// AskAgent shows the agent a challenge.
func AskAgent(c AgentChallenge) RenderResult { return RenderResult{AgentChallenge: &c} }

// CannotRender says that this driver cannot obtain the input from this client.
func CannotRender(reason string) RenderResult {
	return RenderResult{Unavailable: &Unavailable{Reason: reason}}
}

// RenderLater says that the answer is pending, and after how long asking again
// makes sense. Progress and Message can be set in the result.
func RenderLater(reason string, retryAfter time.Duration) RenderResult {
	return RenderResult{Pending: &Pending{Reason: reason, RetryAfter: retryAfter.Seconds()}}
}

// RenderUnknown says that nobody can tell whether this call acted.
func RenderUnknown(reason string) RenderResult {
	return RenderResult{Unknown: &Unknown{Reason: reason}}
}

// RenderNotDone answers Recover: this call did not act and never will.
func RenderNotDone(reason string) RenderResult {
	return RenderResult{NotDone: &NotDone{Reason: reason}}
}

// AskedInVain is CannotRender after a model was asked, which counts.
func AskedInVain(reason string) RenderResult {
	return RenderResult{Unavailable: &Unavailable{Reason: reason, Asked: true}}
}

// ReviewedByClient leaves an approval to the client's review of the evidence request.
func ReviewedByClient(reason string) RenderResult {
	return RenderResult{ClientReview: &ClientReview{Reason: reason}}
}

// RenderedInvalid says why a value that this driver obtained itself is not an answer.
func RenderedInvalid(diagnostics ...Diagnostic) RenderResult {
	return RenderResult{Invalid: &Invalid{Diagnostics: diagnostics}}
}

// AnswerElsewhere leaves an approval to a person at the approval link.
func AnswerElsewhere(message string) RenderResult {
	return RenderResult{Elsewhere: &Elsewhere{Message: message}}
}

// InterpretResult is the outcome of Interpret. Exactly one of the pointers is set.
type InterpretResult struct {
	Answer      *Answer      `json:"answer,omitempty"`
	Declined    *Declined    `json:"declined,omitempty"`
	Invalid     *Invalid     `json:"invalid,omitempty"`
	Unavailable *Unavailable `json:"unavailable,omitempty"`
	Missing     *Missing     `json:"missing,omitempty"`
	Dismissed   *Dismissed   `json:"dismissed,omitempty"`
}

// Invalid means that the reply is not an answer; the host asks again, bounded.
type Invalid struct {
	Diagnostics []Diagnostic `json:"diagnostics"`
}

// Missing means that the reply leaves the answer out, as a placeholder solution does.
type Missing struct {
	Reason string `json:"reason"`
}

// Dismissed means that the person closed the question without an answer. It is
// neither an approval nor a decline: the question stays open.
type Dismissed struct {
	Reason string `json:"reason"`
}

// Answered gives the value of an input and who vouches for it.
func Answered(value json.RawMessage, p Provenance) InterpretResult {
	return InterpretResult{Answer: &Answer{Value: value, Provenance: p}}
}

// PersonDeclined records that a person declined.
func PersonDeclined(reason string) InterpretResult {
	return InterpretResult{Declined: &Declined{Reason: reason}}
}

// PersonDismissed records that the person closed the question without an answer.
func PersonDismissed(reason string) InterpretResult {
	return InterpretResult{Dismissed: &Dismissed{Reason: reason}}
}

// NotAnAnswer says why the reply cannot be taken; it is asked again, bounded.
func NotAnAnswer(diagnostics ...Diagnostic) InterpretResult {
	return InterpretResult{Invalid: &Invalid{Diagnostics: diagnostics}}
}

// CannotInterpret says that the client could not answer; the next route is tried.
func CannotInterpret(reason string) InterpretResult {
	return InterpretResult{Unavailable: &Unavailable{Reason: reason}}
}

// LeftOut says that the reply is a placeholder without an answer.
func LeftOut(reason string) InterpretResult {
	return InterpretResult{Missing: &Missing{Reason: reason}}
}
