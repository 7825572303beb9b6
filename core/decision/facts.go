package decision

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// Outcome is how a route ended that gave no answer.
type Outcome string

// The outcomes. All but Declined may lead to the next route.
const (
	// Unavailable: the driver or the client cannot serve the input.
	Unavailable Outcome = "unavailable"
	// Errored: the driver failed.
	Errored Outcome = "error"
	// Invalid: the reply was not an answer.
	Invalid Outcome = "invalid"
	// Declined: a person declined.
	Declined Outcome = "declined"
	// TimedOut: no reply in the time the route allows.
	TimedOut Outcome = "timeout"
	// Abandoned: asked twice, never answered.
	Abandoned Outcome = "abandoned"
	// Exhausted: a budget for language models is used up.
	Exhausted Outcome = "exhausted"
)

// Facts are the values that conditions can read. The JSON names are the names in
// CEL: `client.elicitation.form`. An unknown fact has its zero value. Params and
// input are free-form, so conditions test their keys with has(). JSON omits zero
// values.
type Facts struct {
	Challenge ChallengeFacts  `json:"challenge,omitzero"`
	Step      StepFacts       `json:"step,omitzero"`
	Protocol  ProtocolFacts   `json:"protocol,omitzero"`
	Run       RunFacts        `json:"run,omitzero"`
	Client    ClientFacts     `json:"client,omitzero"`
	Caller    CallerFacts     `json:"caller,omitzero"`
	Solution  SolutionFacts   `json:"solution,omitzero"`
	Previous  []PreviousFacts `json:"previous,omitzero"`
	Config    ConfigFacts     `json:"config,omitzero"`
	// Approval is read by no condition: the tree orders the routes of an approval, and
	// does not say which of them count.
	Approval ApprovalFacts `json:"approval,omitzero"`
}

// ChallengeFacts describes the step's challenge.
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
	// Approval is the step's own mode; empty if it sets none.
	Approval driver.ApprovalMode `json:"approval,omitzero"`
	// Accepted: the operator, or a person in this run, accepted that a driver does this step.
	Accepted bool `json:"accepted,omitzero"`
}

// ProtocolFacts describes the protocol as this run has it.
type ProtocolFacts struct {
	// Space is the name of its space (protocol.SpaceName), not the id.
	Space string   `json:"space,omitzero"`
	Title string   `json:"title,omitzero"`
	Slug  string   `json:"slug,omitzero"`
	URI   string   `json:"uri,omitzero"` // of its first step
	Tags  []string `json:"tags,omitzero"`
	// Digest is protocol.Chain.ContentDigest; set only where a route of the tree
	// leads to a driver that needs an acceptance.
	Digest string `json:"digest,omitzero"`
}

// RunFacts describes the execution.
type RunFacts struct {
	Attempt int            `json:"attempt,omitzero"` // 1-based, of this challenge instance
	Input   map[string]any `json:"input,omitzero"`
}

// ClientFacts describes the connected client and its capabilities.
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

// CallerFacts say who continues the run, as far as they are identified. A person who answers on a page
// is not the caller of the run.
type CallerFacts struct {
	Name   string   `json:"name,omitzero"`
	Groups []string `json:"groups,omitzero"` // ids: group:REALM:NAME
	// Method is how they have shown who they are: token or oidc; empty: not at all.
	Method string `json:"method,omitzero"`
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

// PreviousFacts is a finished route for this input.
type PreviousFacts struct {
	Via     string  `json:"via,omitzero"`
	Outcome Outcome `json:"outcome,omitzero"` // empty: not finished, the route stays open
	Route   int     `json:"route,omitzero"`   // Route.Index
}

// ConfigFacts are the settings that choose between routes.
type ConfigFacts struct {
	UserInput UserInputFacts `json:"user_input,omitzero"`
}

// UserInputFacts hold whether the server obtains a person's input itself, and
// the capability driver that it tries first.
type UserInputFacts struct {
	Enabled bool   `json:"enabled,omitzero"`
	Driver  string `json:"driver,omitzero"`
}

// ApprovalFacts say which routes of an approval are open.
type ApprovalFacts struct {
	// How are the ways of approving that count for the step, as drivers name them.
	How []string `json:"how,omitzero"`
	// Page: the server has a page on which people answer this approval.
	Page bool `json:"page,omitzero"`
}

// counts explains why none of a driver's ways of approving counts; empty if one does.
func (f ApprovalFacts) counts(ways []string) string {
	if slices.ContainsFunc(ways, func(way string) bool { return slices.Contains(f.How, way) }) {
		return ""
	}
	if len(f.How) == 0 {
		return "no way of approving counts"
	}
	return fmt.Sprintf("it answers by %s, and only %s counts", strings.Join(ways, " or "), strings.Join(f.How, " or "))
}

// lacks explains why a need of driver.Descriptor.Needs closes a route; empty if
// the need is met.
func (f *Facts) lacks(need string) string {
	if need == driver.NeedApprovalPage {
		if f.Approval.Page {
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
