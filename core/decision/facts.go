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
)

// Facts is all that a condition may look at. The JSON names are the names in
// CEL: `client.elicitation.form`. A fact that is not known is its zero value;
// the params and the input are free-form, so their keys need has().
type Facts struct {
	Challenge ChallengeFacts  `json:"challenge"`
	Step      StepFacts       `json:"step"`
	Run       RunFacts        `json:"run"`
	Client    ClientFacts     `json:"client"`
	Solution  SolutionFacts   `json:"solution"`
	Previous  []PreviousFacts `json:"previous"`
	Config    ConfigFacts     `json:"config"`
}

// ChallengeFacts describes what the step demands.
type ChallengeFacts struct {
	Type            string `json:"type"`
	Name            string `json:"name"`
	Required        bool   `json:"required"`
	HasSampling     bool   `json:"has_sampling"`
	HasOutputSchema bool   `json:"has_output_schema"`
	FilesRequired   bool   `json:"files_required"`
	// Params is the object named like the type, as decoded by encoding/json.
	Params map[string]any `json:"params"`
}

// StepFacts says where in the protocol the run stands.
type StepFacts struct {
	Index int    `json:"index"` // 1-based
	Count int    `json:"count"`
	Name  string `json:"name"`
	// Approval is the mode the step itself asks for; empty: it does not say.
	Approval driver.ApprovalMode `json:"approval"`
}

// RunFacts describes the execution.
type RunFacts struct {
	Attempt int            `json:"attempt"` // 1-based, of this challenge instance
	Input   map[string]any `json:"input"`
}

// ClientFacts says who is connected and what it can do.
type ClientFacts struct {
	Name        string           `json:"name"`
	Version     string           `json:"version"`
	Era         string           `json:"era"` // MCP protocol version
	Transport   string           `json:"transport"`
	Elicitation ElicitationFacts `json:"elicitation"`
	Sampling    bool             `json:"sampling"`
	Roots       bool             `json:"roots"`
}

// ElicitationFacts are the two ways in which a client asks a person.
type ElicitationFacts struct {
	Form bool `json:"form"`
	URL  bool `json:"url"`
}

// SolutionFacts describes what the agent submitted.
type SolutionFacts struct {
	// Supplied: there is a solution, and it is more than a placeholder.
	Supplied bool           `json:"supplied"`
	Type     string         `json:"type"`
	Params   map[string]any `json:"params"`
}

// PreviousFacts is a route that was tried for this input and is finished.
type PreviousFacts struct {
	Via     string  `json:"via"`
	Outcome Outcome `json:"outcome"` // empty: not finished, the route stays open
	Route   int     `json:"route"`   // Route.Index
}

// ConfigFacts are the settings that choose between routes.
type ConfigFacts struct {
	UserInput UserInputFacts `json:"user_input"`
	Approval  ApprovalFacts  `json:"approval"`
}

// UserInputFacts say whether the server obtains a person's input itself, and
// with which capability driver first.
type UserInputFacts struct {
	Enabled bool   `json:"enabled"`
	Driver  string `json:"driver"`
}

// ApprovalFacts says who besides a person may answer an approval.
type ApprovalFacts struct {
	// DelegateToClient: the client's own review of a request may stand for a yes.
	DelegateToClient bool `json:"delegate_to_client"`
	// TrustAgent: the agent's word may stand for a person's.
	TrustAgent bool `json:"trust_agent"`
}

// has reports whether the client has a capability named as in driver.Descriptor.Needs.
func (c ClientFacts) has(need string) bool {
	switch need {
	case driver.NeedElicitationForm:
		return c.Elicitation.Form
	case driver.NeedElicitationURL:
		return c.Elicitation.URL
	case driver.NeedSampling:
		return c.Sampling
	case driver.NeedRoots:
		return c.Roots
	}
	return false
}
