package api

import (
	"encoding/json"
)

// Begin declares kairos_begin.
var Begin = Tool[BeginRequest, StepReply]{Declaration{
	Name: "kairos_begin", Title: "Start protocol execution",
	Description: "Start a run of a protocol, or resume one with session_id, and get its open step with the challenge that proves it.",
	OpenWorld:   true,
	Icon:        "M7 4l12 8l-12 8z",
}}

// BeginRequest opens a run, or with SessionID shows the open step of one again.
type BeginRequest struct {
	URI       string          `json:"uri" doc:"URI from kairos_search" form:"uri"`
	Input     json.RawMessage `json:"input,omitempty" doc:"Values of the protocol's inputs" form:"opaque"` // optional object
	SessionID string          `json:"session_id,omitempty" doc:"Run to resume"`
	// Roots are the folders that the run works in, as file URIs or absolute
	// paths; optional, and fixed once a run has begun.
	Roots []string `json:"roots,omitempty" doc:"Folders the run works in: absolute paths or file:// URIs" max:"16" items:"min=1"`
}
