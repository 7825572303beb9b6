// Package protocol defines protocols: titled chains of steps, each with at most
// one challenge. It parses Markdown into chains, renders them back without loss,
// and fills templates. It is pure: it stores nothing and knows no challenge type.
package protocol

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// Chain is a protocol. Its identity is its title within a space.
type Chain struct {
	ID    string `json:"id"` // ChainID(Title)
	Space string `json:"space"`
	// Revision is assigned by the store: 1 for the first version of the title in its
	// space, and never reused, not even after a deletion.
	Revision int64  `json:"revision,omitempty"`
	Title    string `json:"title"`
	// FrontMatter is the YAML between the --- lines at the start of the
	// document, verbatim, without those lines, or empty.
	FrontMatter string `json:"front_matter,omitempty"`
	// Slug, Version and Tags come from the front matter, as does AltTitle, its title,
	// else its name, if it differs from Title.
	Slug     string   `json:"slug,omitempty"`
	Version  string   `json:"version,omitempty"`
	AltTitle string   `json:"alt_title,omitempty"`
	Tags     []string `json:"tags,omitempty"`
	// Triggers are phrases that people say when they need the protocol, and
	// its titles in other languages, as the front matter lists them: at most
	// 20 of 200 characters. Search treats each as a name of the protocol.
	Triggers []string `json:"triggers,omitempty"`
	// Summary is the description in the front matter, as one line of text: when the
	// protocol is needed. Search reads it before Description.
	Summary string `json:"summary,omitempty"`
	// Description is the Markdown between the title and the first step.
	Description string `json:"description,omitempty"`
	// Inputs is the JSON Schema of a run's input, or nil.
	Inputs    json.RawMessage `json:"inputs,omitempty"`
	Steps     []Step          `json:"steps"`
	ModelID   string          `json:"model_id,omitempty"` // model that stored it, according to the caller
	CreatedAt time.Time       `json:"created_at"`
	UpdatedAt time.Time       `json:"updated_at"`
}

// Step is one step of a chain (wire: memory).
type Step struct {
	UUID string `json:"uuid"`
	// Label is the heading without numbers at its start, as clients of the wire
	// expect it; people are shown Heading.
	Label string `json:"label"`
	// Name is the name of its output in templates of later steps: the challenge's
	// name, else the slug of the label; unique in its chain.
	Name string `json:"name"`
	// Text is the Markdown of the step, its heading first as it was written, without
	// the challenge block.
	Text string `json:"text"`
	// Challenge is the challenge object as written, or nil.
	Challenge json.RawMessage `json:"challenge,omitempty"`
	// Templates declares where templates are allowed and how they are escaped,
	// according to the challenge driver when the step was stored.
	Templates []driver.Template `json:"templates,omitempty"`
	// Action is what the step would do as its challenge is written, as the challenge
	// driver stated it when it checked the step just now, or nil.
	Action json.RawMessage `json:"-"`
	Tags   []string        `json:"tags,omitempty"`
	Line   int             `json:"-"` // 1-based line of the heading in the parsed document
	// ChallengeLine is the 1-based line of the challenge block's opening fence.
	ChallengeLine int `json:"-"`
	// Lookalike is a block at the end of the step that may be meant as its challenge; nil
	// if there is none. See CheckLookalikes.
	Lookalike *Lookalike `json:"-"`
	// Anchors hold the places in the parsed document of the parts of Challenge; nil if
	// it was not read from a block.
	Anchors []Anchor `json:"-"`
	// Output is the JSON Schema of the result of a challenge without an output_schema of
	// its own, as its driver declares it; nil: not known. The judge of a protocol sets it.
	Output json.RawMessage `json:"-"`
}

// Clone returns a deep copy of the chain.
func (c Chain) Clone() Chain {
	c.Tags, c.Triggers = slices.Clone(c.Tags), slices.Clone(c.Triggers)
	c.Inputs, c.Steps = slices.Clone(c.Inputs), slices.Clone(c.Steps)
	for i := range c.Steps {
		s := &c.Steps[i]
		s.Challenge, s.Templates = slices.Clone(s.Challenge), slices.Clone(s.Templates)
		s.Tags, s.Anchors = slices.Clone(s.Tags), slices.Clone(s.Anchors)
	}
	return c
}

// Size is about how many bytes the chain takes in memory.
func (c Chain) Size() int {
	const chain, step, item = 400, 300, 48 // the structs themselves
	n := chain + len(c.FrontMatter) + len(c.Summary) + len(c.Description) + len(c.Inputs) + item*(len(c.Tags)+len(c.Triggers))
	for _, s := range c.Steps {
		n += step + len(s.Label) + len(s.Text) + len(s.Challenge) + item*(len(s.Templates)+len(s.Tags))
	}
	return n
}

// Place is a position in a document, both 1-based, the column in characters.
type Place struct{ Line, Column int }

// Common is the part of a challenge that the core owns, whatever its type.
type Common struct {
	Type         string              `json:"type"`
	Name         string              `json:"name,omitempty"`
	Required     *bool               `json:"required,omitempty"` // nil means true
	ApprovalMode driver.ApprovalMode `json:"approval_mode,omitempty"`
	// Approval demands one, and says how it must be given; optional.
	Approval      *Approval       `json:"approval,omitempty"`
	OutputSchema  json.RawMessage `json:"output_schema,omitempty"`
	Sampling      *Sampling       `json:"sampling,omitempty"`
	Files         json.RawMessage `json:"files,omitempty"`
	FilesRequired bool            `json:"files_required,omitempty"`
	Judge         *Judge          `json:"judge,omitempty"`
	// Evidence says who must vouch for the evidence. If it is empty anyone may.
	Evidence EvidenceFrom `json:"evidence,omitempty"`
}

// Judge requires that a model judges the step's result.
type Judge struct {
	// Question for the judge. The default asks whether the result satisfies the challenge.
	Question string `json:"question,omitempty"`
	// Required means that the step does not pass without a judgement.
	Required bool `json:"required,omitempty"`
}

// Sampling is a step's request to a model; set fields override the challenge
// driver's prompt.
type Sampling struct {
	System      string   `json:"system,omitempty"`
	User        string   `json:"user,omitempty"`
	Temperature *float64 `json:"temperature,omitempty"`
	TopP        *float64 `json:"top_p,omitempty"`
	MaxTokens   *int     `json:"max_tokens,omitempty"`
}

// IsRequired reports whether the step passes only with an accepted result.
func (c Common) IsRequired() bool { return c.Required == nil || *c.Required }

// Diagnostic is one finding about a protocol document.
type Diagnostic struct {
	Severity driver.Severity `json:"severity"`
	Line     int             `json:"line"`   // 1-based
	Column   int             `json:"column"` // 1-based, in characters
	Step     string          `json:"step,omitempty"`
	Pointer  string          `json:"pointer,omitempty"` // into the challenge
	Message  string          `json:"message"`
	// Tolerated marks a warning that is an error in lint: the document is stored all the
	// same, as existing clients expect. See ForAuthors.
	Tolerated bool `json:"-"`
}

// ForAuthors returns the findings as lint reports them.
func ForAuthors(found []Diagnostic) []Diagnostic {
	out := slices.Clone(found)
	for i := range out {
		if out[i].Tolerated {
			out[i].Severity = driver.SeverityError
		}
	}
	return out
}

// SortDiagnostics sorts findings by their position in the document.
func SortDiagnostics(found []Diagnostic) {
	slices.SortStableFunc(found, func(a, b Diagnostic) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Message, b.Message))
	})
}

// String formats the finding like a compiler: line, column, message.
func (d Diagnostic) String() string {
	where := fmt.Sprintf("%d:%d: %s", d.Line, d.Column, d.Severity)
	if d.Step != "" {
		where += fmt.Sprintf(": step %q", d.Step)
	}
	if d.Pointer != "" {
		where += " at " + d.Pointer
	}
	return where + ": " + d.Message
}
