package decision

import "github.com/kairos-mcp/kairos/sdk/driver"

// Outcome is how a route that was tried ended, other than with an answer.
type Outcome string

// The outcomes. All but Declined may lead to the next route.
const (
	// Unavailable: the driver or the client cannot serve the input.
	Unavailable Outcome = "unavailable"
	// Errored: the driver failed.
	Errored Outcome = "error"
	// Invalid: the reply was not an answer.
	Invalid Outcome = "invalid"
	// Declined: a person said no.
	Declined Outcome = "declined"
	// TimedOut: no reply in the time the route allows.
	TimedOut Outcome = "timeout"
	// Abandoned: asked twice, never answered.
	Abandoned Outcome = "abandoned"
	// Exhausted: a budget for language models is used up.
	Exhausted Outcome = "exhausted"
)

// Facts is all that a condition may look at. The JSON names are the names in
// CEL: `client.elicitation.form`. A fact that is not known is its zero value;
// the params and the input are free-form, so their keys need has(). In JSON
// what is zero is left out.
type Facts struct {
	Challenge ChallengeFacts  `json:"challenge,omitzero"`
	Step      StepFacts       `json:"step,omitzero"`
	Run       RunFacts        `json:"run,omitzero"`
	Client    ClientFacts     `json:"client,omitzero"`
	Solution  SolutionFacts   `json:"solution,omitzero"`
	Previous  []PreviousFacts `json:"previous,omitzero"`
	Config    ConfigFacts     `json:"config,omitzero"`
}

// ChallengeFacts describes what the step demands.
type ChallengeFacts struct {
	Type            string `json:"type,omitzero"`
	Name            string `json:"name,omitzero"`
	Required        bool   `json:"required,omitzero"`
	HasSampling     bool   `json:"has_sampling,omitzero"`
	HasOutputSchema bool   `json:"has_output_schema,omitzero"`
	FilesRequired   bool   `json:"files_required,omitzero"`
	// Params is the object named like the type, as decoded by encoding/json.
	Params map[string]any `json:"params,omitzero"`
}

// StepFacts says where in the protocol the run stands.
type StepFacts struct {
	Index int    `json:"index,omitzero"` // 1-based
	Count int    `json:"count,omitzero"`
	Name  string `json:"name,omitzero"`
	// Approval is the mode the step itself asks for; empty: it does not say.
	Approval driver.ApprovalMode `json:"approval,omitzero"`
}

// RunFacts describes the execution.
type RunFacts struct {
	Attempt int            `json:"attempt,omitzero"` // 1-based, of this challenge instance
	Input   map[string]any `json:"input,omitzero"`
}

// ClientFacts says who is connected and what it can do.
type ClientFacts struct {
	Name        string           `json:"name,omitzero"`
	Version     string           `json:"version,omitzero"`
	Era         string           `json:"era,omitzero"` // MCP protocol version
	Transport   string           `json:"transport,omitzero"`
	Elicitation ElicitationFacts `json:"elicitation,omitzero"`
	Sampling    bool             `json:"sampling,omitzero"`
	Roots       bool             `json:"roots,omitzero"`
	// Capabilities is all that the client declared, as decoded by encoding/json.
	Capabilities map[string]any `json:"capabilities,omitzero"`
}

// ElicitationFacts are the two ways in which a client asks a person.
type ElicitationFacts struct {
	Form bool `json:"form,omitzero"`
	URL  bool `json:"url,omitzero"`
}

// SolutionFacts describes what the agent submitted.
type SolutionFacts struct {
	// Supplied: there is a solution, and it is more than a placeholder.
	Supplied bool           `json:"supplied,omitzero"`
	Type     string         `json:"type,omitzero"`
	Params   map[string]any `json:"params,omitzero"`
}

// PreviousFacts is a route that was tried for this input and is finished.
type PreviousFacts struct {
	Via     string  `json:"via,omitzero"`
	Outcome Outcome `json:"outcome,omitzero"` // empty: not finished, the route stays open
	Route   int     `json:"route,omitzero"`   // Route.Index
}

// ConfigFacts are the settings that choose between routes.
type ConfigFacts struct {
	UserInput UserInputFacts `json:"user_input,omitzero"`
	Approval  ApprovalFacts  `json:"approval,omitzero"`
}

// UserInputFacts say whether the server obtains a person's input itself, and
// with which capability driver first.
type UserInputFacts struct {
	Enabled bool   `json:"enabled,omitzero"`
	Driver  string `json:"driver,omitzero"`
}

// ApprovalFacts says who besides a person may answer an approval.
type ApprovalFacts struct {
	// DelegateToClient: the client's own review of a request may stand for a yes.
	DelegateToClient bool `json:"delegate_to_client,omitzero"`
	// TrustAgent: the agent's word may stand for a person's.
	TrustAgent bool `json:"trust_agent,omitzero"`
	// Page: the server has a page on which people answer approvals.
	Page bool `json:"page,omitzero"`
	// Typed: who approves has to type the step's name, where the step demands no
	// phrase of its own.
	Typed bool `json:"typed,omitzero"`
}

// lacks says why a route is closed that needs something as named in
// driver.Descriptor.Needs; empty: it is there.
func (f *Facts) lacks(need string) string {
	if need == driver.NeedApprovalPage {
		if f.Config.Approval.Page {
			return ""
		}
		return "the server has no approval page"
	}
	if f.Client.has(need) {
		return ""
	}
	return "client lacks " + need
}

// has reports whether the client has a capability named as in
// driver.Descriptor.Needs. Records of older versions hold the typed facts alone.
func (c ClientFacts) has(need string) bool {
	pointer, ok := driver.CapabilityPointer(need)
	typed := driver.Client{ElicitationForm: c.Elicitation.Form, ElicitationURL: c.Elicitation.URL, Sampling: c.Sampling, Roots: c.Roots}
	return ok && (typed.Declares(pointer) || driver.Declared(c.Capabilities, pointer))
}
