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
	"fmt"
	"slices"
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
	// EffectChanges: changes the world, in Render or in an Advance with answers; acts
	// at most once for each idempotency key.
	EffectChanges Effect = "changes"
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

// Provenances lists them, the weakest first.
func Provenances() []Provenance {
	return []Provenance{AgentReported, ModelGenerated, LinkHolder, ClientAttested, ServerObserved}
}

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
	// FeatureRoots: the driver looks into the folders that a client of this machine,
	// or the run, names. The host lets it read them, for which it may start it anew.
	FeatureRoots = "roots"
	// FeaturePartial: there are requests that the driver cannot serve although
	// the client has all that it needs, so that routes behind it are reached.
	FeaturePartial = "partial"
	// FeatureRecover: the driver recognises an idempotency key that it was
	// called with before, also in another process, and reports what came of the
	// call when it is asked with Recover.
	FeatureRecover = "recover"
	// FeatureCancel: the driver ends what a call started when it is asked with
	// Recover and Cancel. It has FeatureRecover as well.
	FeatureCancel = "cancel"
)

// Descriptor is what a driver says of itself. Static: same binary, same descriptor.
type Descriptor struct {
	Name    string `json:"name"`    // unique, [a-z][a-z0-9_-]*
	Version string `json:"version"` // semantic version
	Role    Role   `json:"role"`
	// Handles lists challenge types (challenge role) or input kinds (capability role).
	Handles []string `json:"handles"`
	Effect  Effect   `json:"effect"`
	// ConfigSchema is the JSON Schema of the configuration. A driver without one takes no configuration.
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
	// AnswersBy names the ways in which an approval is answered through the driver:
	// ByForm, ByPage, ByReview, ByAgent, or a word of its own. Operators and authors
	// name those that count. Set if, and only if, it handles KindApproval.
	AnswersBy []string `json:"answers_by,omitempty"`
	// Approval is the mode of this type's challenges where neither the step
	// nor the tree says; empty means auto.
	Approval ApprovalMode `json:"approval,omitempty"`
	// Transport is how the host has to call the binary. The default is gRPC.
	Transport Transport `json:"transport,omitempty"`
	// ActionSchema is the JSON Schema of the actions that the driver states, in
	// Input.Action, Plan.Action and ValidateResult.Action: an object with a property for
	// each member. The operator's rules may match those members that are a text, or a
	// list. Empty: it states none.
	ActionSchema json.RawMessage `json:"action_schema,omitempty"`
	// ParamsSchema is the JSON Schema of a challenge's parameters: the object that is
	// named like the type. Where a driver handles several types it covers them all. A
	// text may hold a template instead of a value. Manual page, lint and editors read it; Validate
	// stays the judge. Only for the challenge role.
	ParamsSchema json.RawMessage `json:"params_schema,omitempty"`
	// OutputSchema is the JSON Schema of Accepted.Output, which later steps refer to,
	// where the step has no output_schema. Only for the challenge role; empty: anything.
	OutputSchema json.RawMessage `json:"output_schema,omitempty"`
}

// Schemas are the descriptor's documents, by their names in JSON.
func (d *Descriptor) Schemas() map[string]*json.RawMessage {
	return map[string]*json.RawMessage{"config_schema": &d.ConfigSchema, "action_schema": &d.ActionSchema, "params_schema": &d.ParamsSchema, "output_schema": &d.OutputSchema}
}

// The ways in which an approval is answered that are shipped, as Descriptor.AnswersBy
// has them. A way of a driver's own needs FeatureHuman.
const (
	// ByForm: a person answers in a form that the client shows. Needs FeatureHuman.
	ByForm = "form"
	// ByPage: whoever has the link answers on the server's approval page. Needs FeatureHuman.
	ByPage = "page"
	// ByReview: a person reviews a request in the client. Needs FeatureClientReview.
	ByReview = "review"
	// ByAgent: the agent says what a person answered. Needs FeatureAgent.
	ByAgent = "agent"
)

// Answers is the way in which Render answers an approval: the one that the result states, or
// the only one of the driver. It is an error if it is not one of those that were asked for.
func (d Descriptor) Answers(asked []string, r RenderResult) (string, error) {
	way := r.How
	if way == "" && len(d.AnswersBy) == 1 {
		way = d.AnswersBy[0]
	}
	switch {
	case way == "":
		return "", fmt.Errorf("driver %s has several ways to answer an approval and did not say which one it took", d.Name)
	case !slices.Contains(d.AnswersBy, way) || !slices.Contains(asked, way):
		return "", fmt.Errorf("driver %s answers an approval by %.80q, which was not asked for", d.Name, way)
	}
	return way, nil
}

// Has reports whether the descriptor lists the feature.
func (d Descriptor) Has(feature string) bool { return slices.Contains(d.Features, feature) }

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
