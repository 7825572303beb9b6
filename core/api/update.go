package api

import (
	"encoding/json"
)

// Update declares kairos_update.
var Update = Tool[UpdateRequest, UpdateReply]{Declaration{
	Name: "kairos_update", Title: "Update KAIROS Memory(s)",
	Description: "Change stored steps: one Markdown document per uri, or updates for all of them, never both. Open runs keep the steps that they began with.",
	Destructive: true, Idempotent: true,
	Icon: "M4 20l4-1l11-11l-3-3l-11 11zM14 7l3 3",
}}

// UpdateRequest changes steps: Documents[i] for URIs[i], or Updates for all.
type UpdateRequest struct {
	URIs      []string        `json:"uris" doc:"URIs of steps" min:"1" items:"uri"`
	Documents []string        `json:"markdown_doc,omitempty" doc:"The whole step, one per uri: heading, text and challenge block. Without a block the step has no challenge afterwards" items:"min=1" size:"document"`
	Updates   json.RawMessage `json:"updates,omitempty" doc:"Fields to set on every uri"`
}

// Shapes implements Shaped.
func (UpdateRequest) Shapes() map[string]any { return map[string]any{"updates": Changes{}} }

// Changes describes UpdateRequest.Updates, which is read strictly.
type Changes struct {
	Text      string          `json:"text,omitempty" doc:"New text; challenge and heading stay unless it has its own"`
	Label     string          `json:"label,omitempty" doc:"New heading"`
	Challenge json.RawMessage `json:"challenge,omitempty" doc:"New challenge; null removes it" form:"null"`
}

// UpdateReply lists the outcome for each URI, in order.
type UpdateReply struct {
	Results      []UpdateResult `json:"results"`
	TotalUpdated int            `json:"total_updated"`
	TotalFailed  int            `json:"total_failed"`
}

// UpdateResult is the outcome for one URI.
type UpdateResult struct {
	URI     string `json:"uri"`
	Status  string `json:"status" enum:"updated,error"`
	Message string `json:"message"`
	// ErrorCode is set when Status is error, NextCall where one helps.
	ErrorCode string    `json:"error_code,omitempty" doc:"Set when status is error; the code to act on"`
	NextCall  *NextCall `json:"next_call,omitempty" doc:"The call that next_action names, for programs"`
}
