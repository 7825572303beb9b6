package api

import (
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// MintRequest stores a document.
type MintRequest struct {
	Document string
	ModelID  string
	Force    bool
	Space    string
}

// MintReply lists what was stored, in document order.
type MintReply struct {
	Items    []MintItem   `json:"items"`
	Status   string       `json:"status"` // "stored"
	Warnings []Diagnostic `json:"warnings,omitempty"`
	// Message says what is not done yet; usually empty.
	Message string `json:"message,omitempty"`
	// NextCall runs the first of the stored protocols.
	NextCall *NextCall `json:"next_call,omitempty"`
}

// MintItem is one stored step.
type MintItem struct {
	URI        string   `json:"uri"`
	MemoryUUID string   `json:"memory_uuid"`
	Label      string   `json:"label"`
	Tags       []string `json:"tags"`
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
