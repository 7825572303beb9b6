package library

import (
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// Record holds what the document of a protocol does not say. Together they restore
// the protocol exactly. Records come from files and are not trusted.
type Record struct {
	ChainID   string                 `json:"chain_id"`
	Title     string                 `json:"title"` // for people; the title of the document takes precedence
	Space     string                 `json:"space"`
	Revision  int64                  `json:"revision"`
	CreatedAt time.Time              `json:"created_at"`
	UpdatedAt time.Time              `json:"updated_at"`
	ModelID   string                 `json:"model_id,omitempty"`
	Steps     []RecordedStep         `json:"steps"`
	Quality   map[string]api.Quality `json:"quality,omitempty"` // by step UUID
}

// RecordedStep is the identity of a step.
type RecordedStep struct {
	UUID string `json:"uuid"`
	Name string `json:"name"`
}

// RecordOf describes a chain.
func RecordOf(c protocol.Chain) Record {
	r := Record{
		ChainID: c.ID, Title: c.Title, Space: c.Space, Revision: c.Revision,
		CreatedAt: c.CreatedAt, UpdatedAt: c.UpdatedAt, ModelID: c.ModelID, Steps: make([]RecordedStep, len(c.Steps)),
	}
	for i, s := range c.Steps {
		r.Steps[i] = RecordedStep{UUID: s.UUID, Name: s.Name}
	}
	return r
}

func stepUUIDs(c protocol.Chain) []string {
	out := make([]string, len(c.Steps))
	for i, s := range c.Steps {
		out[i] = s.UUID
	}
	return out
}

// checkAgainst refuses a record that does not match the document.
func (r Record) checkAgainst(chains []protocol.Chain) error {
	if len(chains) != 1 {
		return fault.New(fault.InvalidArgument, "its record describes one protocol, but the document holds %d", len(chains))
	}
	if r.ChainID != chains[0].ID {
		return fault.New(fault.InvalidArgument, "its record describes another protocol: the title %q has the id %s, the record %q", plain.Clip(chains[0].Title, 80), chains[0].ID, plain.Clip(r.ChainID, 80))
	}
	seen := make(map[string]bool, len(r.Steps))
	for i, s := range r.Steps {
		id, err := uuid.Parse(s.UUID)
		switch {
		case err != nil || id.String() != s.UUID:
			return fault.New(fault.InvalidArgument, "its record has %q as the UUID of step %d", plain.Clip(s.UUID, 80), i+1)
		case strings.HasPrefix(s.UUID, builtinPrefix):
			return fault.New(fault.InvalidArgument, "its record claims %s, the UUID of a built-in protocol", s.UUID)
		case seen[s.UUID]:
			return fault.New(fault.InvalidArgument, "its record has the UUID %s twice", s.UUID)
		}
		seen[s.UUID] = true
	}
	return nil
}

// builtinPrefix is a prefix that random UUIDs never have.
const builtinPrefix = "00000000-0000-0000-0000-"

// applyTo sets the fields of the chain from the record. Steps that were added to
// the document later keep theirs.
func (r Record) applyTo(c *protocol.Chain) {
	// A UUID that the stored version has is better evidence than a name.
	found := make(map[string]bool, len(c.Steps))
	for _, s := range c.Steps {
		found[s.UUID] = true
	}
	byName, recorded := make(map[string]string, len(r.Steps)), make(map[string]bool, len(r.Steps))
	for _, s := range r.Steps {
		recorded[s.UUID] = true
		if !found[s.UUID] {
			byName[s.Name] = s.UUID
		}
	}
	c.ModelID = r.ModelID
	if !r.CreatedAt.IsZero() {
		c.CreatedAt, c.UpdatedAt = r.CreatedAt, r.UpdatedAt
	}
	taken := make(map[string]bool, len(c.Steps))
	for i := range c.Steps {
		if id, ok := byName[c.Steps[i].Name]; ok && !recorded[c.Steps[i].UUID] {
			c.Steps[i].UUID = id
		}
	}
	for i := range c.Steps {
		if taken[c.Steps[i].UUID] {
			c.Steps[i].UUID = uuid.NewString()
		}
		taken[c.Steps[i].UUID] = true
	}
}
