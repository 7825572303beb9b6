package terminal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/kairos-mcp/kairos/internal/openai"
)

// KeyEnv names the environment variable that holds the key of the model's
// endpoint. It is removed from the environment of every process started here.
const KeyEnv = "KAIROS_LLM_API_KEY"

// The capabilities a host can be told not to have. Form and URL are the two
// modes of Elicitation.
const (
	Elicitation = "elicitation"
	Form        = "form"
	URL         = "url"
	Sampling    = "sampling"
	Roots       = "roots"
)

var capabilities = []string{Elicitation, Form, URL, Sampling, Roots}

// Era is which generation of MCP the client speaks.
type Era string

// The eras. The zero value means EraAuto.
const (
	EraAuto Era = "auto" // the newest that the server speaks
	Era2025 Era = "2025" // 2025-11-25: sessions, server-initiated requests
	Era2026 Era = "2026" // 2026-07-28: stateless, input_required
)

func (e Era) version() string {
	switch e {
	case Era2025:
		return "2025-11-25"
	case Era2026:
		return "2026-07-28"
	}
	return ""
}

// Model is an OpenAI-compatible endpoint. The zero value means there is none:
// then the person pastes what a model would have said.
type Model struct {
	// URL of the endpoint, with or without /v1; /chat/completions is added.
	URL  string
	Name string
	Key  openai.Secret
}

// Config says what to play and with what. Server and exactly one of URI, Query
// and Document are required; every other zero value works.
type Config struct {
	// Server is the command line of the MCP server to start.
	Server []string
	// ServerEnv is added to this process's environment for the server ("KEY=value").
	ServerEnv []string
	// ServerLog receives the standard error of the server and of the servers
	// in Servers; nil drops it.
	ServerLog io.Writer

	URI      string // of a protocol or one of its steps
	Session  string // id of the run of URI to resume; "": a new one begins
	Query    string // words to search a protocol by
	Document string // Markdown of a protocol, stored before it is played

	// Input of the run; must be a JSON object.
	Input json.RawMessage
	Era   Era
	// Without lists capabilities not to declare.
	Without []string

	// Servers are the MCP servers whose tools the agent may call.
	Servers Servers
	// StartTimeout is how long one of Servers may take to start, CallTimeout how
	// long one call; 0 means 20 seconds and 5 minutes.
	StartTimeout, CallTimeout time.Duration
	// AllowAutoSampling lists the servers, by the name the person gave them,
	// whose requests marked "auto" go to the model unseen. Case, blanks and an ending
	// such as -mcp do not count.
	AllowAutoSampling []string
	Model             Model
	// Script answers every question. Without it a person does, through In and Out.
	Script *Script
	// Dir is where commands run and the one root that is declared; "" means
	// the current directory.
	Dir string

	// The person reads provenances of replies as this function words them, by default as they are.
	Who func(provenance string) string
	// Open shows the person an address, as a browser does. Without it they open it
	// themselves. It is called after they have said so.
	Open func(ctx context.Context, address string) error

	In  io.Reader // answers of the person; nil if there are none
	Out io.Writer // what the person sees; nil drops it
	// Signs: Out is a terminal, so ✓ and ✗ say what became of a step, and how long
	// the run has taken is shown. Colours: it shows colours, too.
	Signs, Colours bool
	// Forms: In and Out are the same terminal, so questions are forms.
	Forms bool
}

// Validate reports every wrong field.
func (c Config) Validate() error {
	var errs []error
	if len(c.Server) == 0 || c.Server[0] == "" {
		errs = append(errs, errors.New("server: no command line"))
	}
	given := 0
	for _, s := range []string{c.URI, c.Query, c.Document} {
		if s != "" {
			given++
		}
	}
	if given != 1 {
		errs = append(errs, fmt.Errorf("exactly one of uri, query and document is needed, got %d", given))
	}
	if c.URI != "" && !uriPattern.MatchString(c.URI) {
		errs = append(errs, fmt.Errorf("uri: %q is not of the form kairos://mem/<uuid>", c.URI))
	}
	if len(c.Input) > 0 {
		var object map[string]any
		if err := json.Unmarshal(c.Input, &object); err != nil || object == nil {
			errs = append(errs, errors.New("input: not a JSON object"))
		}
	}
	if !slices.Contains([]Era{"", EraAuto, Era2025, Era2026}, c.Era) {
		errs = append(errs, fmt.Errorf("era: %q is none of auto, 2025, 2026", c.Era))
	}
	for _, name := range c.Without {
		if !slices.Contains(capabilities, name) {
			errs = append(errs, fmt.Errorf("without: %q is none of %s", name, strings.Join(capabilities, ", ")))
		}
	}
	if err := openai.CheckURL(c.Model.URL); c.Model.URL != "" && err != nil {
		errs = append(errs, fmt.Errorf("llm-url: %w", err))
	}
	if c.Model.URL != "" && c.Model.Name == "" {
		errs = append(errs, errors.New("llm-model: needed with llm-url"))
	}
	return errors.Join(errs...)
}

// serverName is what the person calls the server.
const serverName = "KAIROS"

// allowsAuto reports whether the person trusts this server with automatic requests.
// Hosts name a server in their own way: case, blanks and an ending such as -mcp do not count.
func (c Config) allowsAuto() bool {
	own := bareServer(serverName)
	return slices.ContainsFunc(c.AllowAutoSampling, func(name string) bool { return bareServer(name) == own })
}

func bareServer(name string) string {
	name = strings.ToLower(strings.Join(strings.Fields(name), ""))
	for _, ending := range []string{"-mcp", "_mcp"} {
		name = strings.TrimSuffix(name, ending)
	}
	return name
}

func (c Config) declares(capability string) bool { return !slices.Contains(c.Without, capability) }

// elicits is the elicitation capability to declare, or nil.
func (c Config) elicits() *mcp.ElicitationCapability {
	if !c.declares(Elicitation) {
		return nil
	}
	var e mcp.ElicitationCapability
	if c.declares(Form) {
		e.Form = &struct{}{}
	}
	if c.declares(URL) && c.visits() {
		e.URL = &struct{}{}
	}
	if e.Form == nil && e.URL == nil {
		return nil
	}
	return &e
}

// visits: there is somebody who can open an address.
func (c Config) visits() bool {
	if c.Script != nil {
		return c.Script.answers(KindVisit)
	}
	return c.In != nil
}

// Result is what became of a run. It is filled as far as the run came, also
// when Play returns an error.
type Result struct {
	RunID string
	Chain string // URI that was begun
	// Version of MCP that was spoken.
	Version string
	// Solved steps, in order.
	Solved   []Solved
	Attested bool
	// Verified: the server says every step's evidence was accepted.
	Verified bool
	// Stopped says why the run did not reach its attestation.
	Stopped string
}

// Solved is a step that was accepted.
type Solved struct {
	StepIndex  int             `json:"step_index"`
	URI        string          `json:"uri"`
	Label      string          `json:"label"`
	Driver     string          `json:"driver"`
	Via        string          `json:"via"`
	Provenance string          `json:"provenance"`
	Output     json.RawMessage `json:"output,omitempty"`
	// ProofHash is empty for a step of the agent's if the same call solved later ones.
	ProofHash string `json:"proof_hash"`
	// Verdict is set where the evidence failed, which the challenge does not forbid.
	Verdict string `json:"verdict,omitempty"`
	// Files says who vouches for the files that the step demanded. It is nil if
	// it demanded none.
	Files *Files `json:"files,omitempty"`
}

// Files is who vouches for the files of a step, and how they were obtained.
type Files struct {
	Via        string `json:"via"`
	Provenance string `json:"provenance"`
}

// who words a provenance for the person.
func (c Config) who(provenance string) string {
	if c.Who == nil {
		return provenance
	}
	return c.Who(provenance)
}

// line says how the step was proved in so many columns. The label was shown with
// the step, so it is what gives way.
func (s Solved) line(who func(string) string, columns int) string {
	const digits = 8 // enough to find the proof in the timeline
	rest := fmt.Sprintf(": %s via %s (%s)", s.Driver, s.Via, who(s.Provenance))
	if s.ProofHash != "" {
		rest += fmt.Sprintf(", proof %.*s…", digits, s.ProofHash)
	}
	index := fmt.Sprintf("%d ", s.StepIndex)
	label := []rune(s.Label)
	if room := max(columns-utf8.RuneCountInString(index+rest), minLabel); len(label) > room {
		label = append(label[:room-1], '…')
	}
	return index + string(label) + rest
}

// minLabel is how much of a label is shown at least.
const minLabel = 8

// StopError says that the run did not reach its attestation. Code is the error code of
// the server's last reply, or one of the Stop codes.
type StopError struct {
	Code    string
	Message string
	// NextAction is what the server suggests.
	NextAction string
}

// Codes of a StopError that no server sent.
const (
	// StopRefused: the person refused to do or to send what was asked for.
	StopRefused = "REFUSED"
	// StopDismissed: the person closed a question without an answer.
	StopDismissed = "DISMISSED"
	// StopNoProgress: the same step came back too often.
	StopNoProgress = "NO_PROGRESS"
	// StopNotFound: a search found no protocol.
	StopNotFound = "NOT_FOUND"
	// StopNoNextAction: the reply names no call to continue with.
	StopNoNextAction = "NO_NEXT_ACTION"
	// StopFailed: a tool of the server failed without an error code.
	StopFailed = "TOOL_FAILED"
)

// Error says code and message.
func (e *StopError) Error() string { return fmt.Sprintf("stopped: %s: %s", e.Code, e.Message) }

// UnansweredError says that the script has no rule for a question.
type UnansweredError struct {
	Kind     Kind
	Question string
}

// Error quotes the question.
func (e *UnansweredError) Error() string {
	return fmt.Sprintf("no rule of the script answers this %s question: %q", e.Kind, e.Question)
}
