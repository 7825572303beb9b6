package api

import (
	"encoding/json"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// Mint declares kairos_mint.
var Mint = Tool[MintRequest, MintReply]{Declaration{
	Name: "kairos_mint", Title: "Store memory or chain",
	Description: "Store a protocol written in Markdown: the H1 is its title, each H2 a step, and a JSON block at a step's end its challenge. Read the resource kairos://doc/building-kairos-workflows first.",
	Destructive: true,
	Icon:        "M12 4v16M4 12h16",
	Route: Route{
		Path: "/raw", Failed: "STORE_FAILED",
		Document: &DocumentBody{
			Field: "markdown_doc", Media: "text/markdown", What: "the Markdown of a protocol",
			Parameters: []Parameter{
				{In: InQuery, Name: "llm_model_id", Field: "llm_model_id", Echo: true, Description: "The model that wrote it; comes before the header"},
				{In: InHeader, Name: "X-LLM-Model-ID", Field: "llm_model_id", Description: "The model that wrote it; without either it is the User-Agent"},
				{In: InHeader, Name: "User-Agent", Field: "llm_model_id", Default: "unknown"},
				{In: InQuery, Name: "space", Field: "space", Description: "Where to store it; without: the caller's own space"},
				{In: InQuery, Name: "force", Field: "force_update", Flag: true, Description: forceDescription},
				{In: InHeader, Name: "X-Force-Update", Field: "force_update", Flag: true, Description: forceDescription},
			},
		},
	},
}}

const forceDescription = "Replace a protocol of the same title, and store what is similar to another"

// MintRequest stores a document.
type MintRequest struct {
	Document string `json:"markdown_doc" doc:"The whole document" min:"1" size:"document"`
	ModelID  string `json:"llm_model_id" doc:"The model that wrote it" min:"1"`
	Force    bool   `json:"force_update,omitempty" doc:"Replace the protocol of the same title, or store beside one of a similar title"`
	Space    string `json:"space,omitempty" doc:"personal, or a group by its name or id; default: your own"`
}

// MintReply lists what was stored, in document order.
type MintReply struct {
	Status string `json:"status" doc:"stored"`
	// Message says what the steps will be worth, and what is not done yet.
	Message string `json:"message,omitempty" doc:"What happened, in words"`
	// NextCall runs the first of the stored protocols.
	NextCall *NextCall    `json:"next_call,omitempty"`
	Items    []MintItem   `json:"items" doc:"The stored steps in document order; with an error those that exist already"`
	Warnings []Diagnostic `json:"warnings,omitempty" doc:"What an author should look at" items:"opaque"`
}

// Count is the number of stored steps.
func (r MintReply) Count() int { return len(r.Items) }

// Failure implements Failing.
func (MintReply) Failure() any { return MintFailure{} }

// MintFailure is the reply of a mint that failed.
type MintFailure struct {
	Failure

	Error          string          `json:"error" doc:"Set when something is wrong; the code to act on"`
	ChainID        string          `json:"chain_id,omitempty" doc:"The existing protocol"`
	ExistingMemory json.RawMessage `json:"existing_memory,omitempty" doc:"The similar one" form:"opaque"`
}

// MintItem is one stored step.
type MintItem struct {
	URI        string   `json:"uri"`
	MemoryUUID string   `json:"memory_uuid" required:"false"`
	Label      string   `json:"label"`
	Tags       []string `json:"tags" required:"false"`
}

// Diagnostic is one finding about a document.
type Diagnostic struct {
	Severity driver.Severity `json:"severity"`
	Line     int             `json:"line"`   // 1-based
	Column   int             `json:"column"` // 1-based, in characters
	Step     string          `json:"step,omitempty"`
	Pointer  string          `json:"pointer,omitempty"` // into the challenge
	Message  string          `json:"message"`
}
