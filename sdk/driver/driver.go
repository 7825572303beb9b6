// Package driver is the vocabulary of a KAIROS driver: descriptors, requests,
// results. It stands on the standard library alone and knows neither gRPC nor
// the process model; package driverrpc serves a Driver as a plugin process.
//
// A driver is a function of its request: no callbacks into the host, no memory
// between calls. Then a retry, a crash, a swap of the binary and a second
// replica of the server are all the same simple case.
package driver

import (
	"context"
	"encoding/json"
)

// Role says which of the two services a driver serves.
type Role string

// The two roles.
const (
	// RoleChallenge drivers know what a challenge type demands and judge it.
	RoleChallenge Role = "challenge"
	// RoleCapability drivers know how an input is obtained.
	RoleCapability Role = "capability"
)

// Effect is what a call may do to the world.
type Effect string

// The effect classes.
const (
	// EffectPure: same request, same answer; the host repeats calls freely.
	EffectPure Effect = "pure"
	// EffectReads: looks at the world; safe to repeat, may differ.
	EffectReads Effect = "reads"
	// EffectEffects: changes the world, in Render or Advance; acts at most once
	// for each idempotency key.
	EffectEffects Effect = "effects"
)

// Transport says how the host talks to a driver's binary.
type Transport string

// The transports.
const (
	// TransportGRPC is one process that serves gRPC for many calls. It is the
	// default, so the value is empty.
	TransportGRPC Transport = ""
	// TransportExec is one process per call, with JSON on stdin and stdout.
	TransportExec Transport = "exec"
)

// ApprovalMode says whether a person must approve before the work is done.
type ApprovalMode string

// The approval modes. The zero value means "not said".
const (
	ApprovalAuto ApprovalMode = "auto"
	ApprovalUser ApprovalMode = "user"
)

// Provenance says who vouches for an answer.
type Provenance string

// The provenances, weakest first.
const (
	AgentReported  Provenance = "agent-reported"
	ModelGenerated Provenance = "model-generated"
	// LinkHolder is the answer of a person who had the link to a page and was not
	// identified. The agent that passes the link on has it, too.
	LinkHolder Provenance = "link-holder"
	// ClientAttested is a person's answer that came through the client.
	ClientAttested Provenance = "client-attested"
	ServerObserved Provenance = "server-observed"
)

// Features a descriptor may list; the set is open.
const (
	// FeatureHuman: answers come from a person.
	FeatureHuman = "human"
	// FeatureAgent: answers come from the solution that the agent submits.
	FeatureAgent = "agent"
	// FeatureClientReview: the client shows each request to a person before
	// it acts, so its review may count as an approval.
	FeatureClientReview = "client_review"
	// FeatureModel: answers come from a language model, so that what is asked
	// counts against the budgets for models.
	FeatureModel = "model"
	// FeatureLauncher: the driver isolates what it starts itself, as bubblewrap
	// does. It keeps the capabilities of its server and gets no Landlock rules,
	// inside which nothing can be mounted.
	FeatureLauncher = "launcher"
	// FeaturePartial: there are requests that the driver cannot serve although
	// the client has all that it needs, so that routes behind it are reached.
	FeaturePartial = "partial"
	// FeatureRecover: the driver recognises an idempotency key that it was
	// called with before, also in another process, and reports what came of the
	// call when it is asked with Recover.
	FeatureRecover = "recover"
)

// Input kinds the host knows; the set is open.
const (
	KindEvidence   = "evidence"
	KindApproval   = "approval"
	KindFiles      = "files"
	KindSimilarity = "similarity"
	// KindRunInput is what a protocol declares to need before its first step.
	KindRunInput = "run_input"
	// KindJudge asks whether the result of a step satisfies its challenge; the
	// answer is a JudgeValue.
	KindJudge = "judge"
)

// Descriptor is what a driver says of itself. Static: same binary, same descriptor.
type Descriptor struct {
	Name    string `json:"name"`    // unique, [a-z][a-z0-9_-]*
	Version string `json:"version"` // semantic version
	Role    Role   `json:"role"`
	// Handles lists challenge types (challenge role) or input kinds (capability role).
	Handles []string `json:"handles"`
	Effect  Effect   `json:"effect"`
	// ConfigSchema is the JSON Schema of the configuration; empty: takes none.
	ConfigSchema json.RawMessage `json:"config_schema,omitempty"`
	Features     []string        `json:"features,omitempty"`
	// StateVersions lists the State versions Advance reads, oldest first.
	StateVersions []int `json:"state_versions,omitempty"`
	// Needs lists what Render cannot work without: a capability of the client, by
	// one of the Need names or as an RFC 6901 pointer into what the client
	// declared, such as "/experimental/acme~1confirm". Empty: the driver serves any
	// client.
	Needs []string `json:"needs,omitempty"`
	// Sends lists the requests that Render may make of the client. The host sends
	// no other. Empty: those that MCP itself defines.
	Sends []ClientMethod `json:"sends,omitempty"`
	// Approval is the mode of this type's challenges where neither the step
	// nor the tree says; empty means auto.
	Approval ApprovalMode `json:"approval,omitempty"`
	// Transport is how the host has to call the binary; empty: gRPC.
	Transport Transport `json:"transport,omitempty"`
}

// Has reports whether the descriptor lists the feature.
func (d Descriptor) Has(feature string) bool {
	for _, f := range d.Features {
		if f == feature {
			return true
		}
	}
	return false
}

// Configurer is implemented by drivers that take configuration or can be
// unhealthy; a driver without it takes none and is always healthy.
type Configurer interface {
	// Configure sets the configuration. With dryRun it only judges it. It is
	// called once before the first call of the role, never concurrently.
	Configure(ctx context.Context, config json.RawMessage, dryRun bool) ([]Diagnostic, error)
	// CheckHealth returns nil when calls can be served now.
	CheckHealth(ctx context.Context) error
}

// Challenge is the challenge role. Methods are called concurrently.
type Challenge interface {
	// Validate judges a challenge when its protocol is stored or linted.
	Validate(ctx context.Context, req ValidateRequest) (ValidateResult, error)
	// Advance judges the answers so far or says which inputs are missing. An
	// error means the driver failed, not that the evidence is wrong: wrong
	// evidence is Reject.
	Advance(ctx context.Context, req AdvanceRequest) (AdvanceResult, error)
}

// Capability is the capability role. Methods are called concurrently.
type Capability interface {
	// Render turns an input into a question.
	Render(ctx context.Context, req RenderRequest) (RenderResult, error)
	// Interpret turns the raw reply to the question into an answer. It has to
	// expect anything in Raw: it is what a stranger sent.
	Interpret(ctx context.Context, req InterpretRequest) (InterpretResult, error)
}

// Driver is one driver to serve: its descriptor and exactly one role. If the
// role's value also implements Configurer, it is configured.
type Driver struct {
	Descriptor Descriptor
	Challenge  Challenge  // set when the role is RoleChallenge
	Capability Capability // set when the role is RoleCapability
}

// Severity of a Diagnostic.
type Severity string

// The severities.
const (
	SeverityError   Severity = "error"
	SeverityWarning Severity = "warning"
)

// Diagnostic is one finding about a JSON document.
type Diagnostic struct {
	Severity Severity `json:"severity"`
	// Pointer is the RFC 6901 pointer into the document judged.
	Pointer string `json:"pointer,omitempty"`
	Message string `json:"message"`
}

// Problem is an error diagnostic at a JSON pointer.
func Problem(pointer, message string) Diagnostic {
	return Diagnostic{Severity: SeverityError, Pointer: pointer, Message: message}
}

// Warning is a warning diagnostic at a JSON pointer.
func Warning(pointer, message string) Diagnostic {
	return Diagnostic{Severity: SeverityWarning, Pointer: pointer, Message: message}
}

// Escaping says how a template's value is put into a challenge.
type Escaping string

// The escapings.
const (
	// EscapeText puts strings in as they are, anything else as JSON.
	EscapeText Escaping = "text"
	// EscapeJSON replaces a string that is one whole template by the value
	// itself; inside longer strings it works as EscapeText.
	EscapeJSON Escaping = "json"
	// EscapeShell puts the value in as one quoted POSIX shell word.
	EscapeShell Escaping = "shell"
	// EscapeQuote puts the value in as JSON on one line, so a string in quotation
	// marks, for texts that people read: a value cannot pass for the text
	// around it. Hidden characters stand as JSON escapes.
	EscapeQuote Escaping = "quote"
)

// Template allows templates below a pointer of the challenge, with an escaping.
type Template struct {
	Pointer  string   `json:"pointer"`
	Escaping Escaping `json:"escaping"`
}

// Step says where in a protocol a challenge stands.
type Step struct {
	Protocol string `json:"protocol"` // title
	Label    string `json:"label"`
	Text     string `json:"text"`  // Markdown body, challenge block removed
	Index    int    `json:"index"` // 1-based
	Count    int    `json:"count"`
}

// Similarity asks the host how close two texts are. The host answers it with
// a SimilarityValue.
type Similarity struct {
	Text      string `json:"text"`
	Reference string `json:"reference"`
}

// SimilarityValue is the value of a similarity input.
type SimilarityValue struct {
	Score  float64 `json:"score"`  // 0..1
	Method string  `json:"method"` // "embedding" or "lexical"
}

// JudgeValue is the value of a judge input.
type JudgeValue struct {
	// Satisfied: the result satisfies the challenge; nil: nobody could judge it.
	Satisfied *bool  `json:"satisfied"`
	Reason    string `json:"reason"`
}

// DefaultMaxTokens is how long an answer of a model may be where nobody says.
const DefaultMaxTokens = 1024

// Input is one thing a challenge needs.
type Input struct {
	ID   string `json:"id"`
	Kind string `json:"kind"`
	// Description tells people and agents what is asked.
	Description string `json:"description,omitempty"`
	// System and User are the prompt, should a model be asked.
	System string `json:"system,omitempty"`
	User   string `json:"user,omitempty"`
	// Schema is the JSON Schema of the value. Agents are shown a form made from
	// it: of anyOf and oneOf the alternative with "x-kairos-agent": true, else
	// the first.
	Schema json.RawMessage `json:"schema,omitempty"`
	// Type is the challenge type; Display is shown to agents as challenge.<type>.
	Type        string          `json:"type,omitempty"`
	Display     json.RawMessage `json:"display,omitempty"`
	Temperature *float64        `json:"temperature,omitempty"`
	TopP        *float64        `json:"top_p,omitempty"`
	MaxTokens   int             `json:"max_tokens,omitempty"`
	Approval    ApprovalMode    `json:"approval,omitempty"`
	// Person: the value is meant to be a person's own, so that no approval
	// stands in front of it.
	Person     bool        `json:"person,omitempty"`
	Sensitive  bool        `json:"sensitive,omitempty"`
	Similarity *Similarity `json:"similarity,omitempty"`
}

// Answer is the value of an input and who vouches for it.
type Answer struct {
	InputID    string          `json:"input_id"`
	Value      json.RawMessage `json:"value"`
	Provenance Provenance      `json:"provenance"`
	// Via names the capability driver that obtained it; set by the host.
	Via        string `json:"via,omitempty"`
	Model      string `json:"model,omitempty"`
	StopReason string `json:"stop_reason,omitempty"`
	// Usage is what generating it cost, where somebody said.
	Usage *Usage `json:"usage,omitempty"`
}

// Usage counts the tokens of a model.
type Usage struct {
	InputTokens  int `json:"input_tokens"`
	OutputTokens int `json:"output_tokens"`
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
	// Challenge is the challenge with defaults filled in; empty: as sent.
	Challenge json.RawMessage `json:"challenge,omitempty"`
	Templates []Template      `json:"templates,omitempty"`
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
	// IdempotencyKey, Attempt and Recover are as in AdvanceRequest, of the input
	// instead of the round.
	IdempotencyKey string `json:"idempotency_key,omitempty"`
	Attempt        int    `json:"attempt,omitempty"`
	Recover        bool   `json:"recover,omitempty"`
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
	// IdempotencyKey and Attempt are those of the Render whose question this
	// replies to.
	IdempotencyKey string `json:"idempotency_key,omitempty"`
	Attempt        int    `json:"attempt,omitempty"`
}

// ClientError is a JSON-RPC error of the client.
type ClientError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}
