package api

import (
	"encoding/json"
)

// Begin declares kairos_begin.
var Begin = Tool[BeginRequest, StepReply]{Declaration{
	Name: "kairos_begin", Title: "Start protocol execution",
	Description: "Start a run of a protocol and get its first open step with the challenge that proves it. While must_obey is true, do what next_action says. A protocol with inputs takes them in input; session_id resumes a run.",
	OpenWorld:   true,
	Icon:        "M7 4l12 8l-12 8z",
}}

// BeginRequest opens a run, or with SessionID shows the open step of one again.
type BeginRequest struct {
	URI       string          `json:"uri" doc:"URI of the protocol or one of its steps, from kairos_search" form:"uri"`
	Input     json.RawMessage `json:"input,omitempty" doc:"Values for the inputs that the protocol declares" form:"opaque"` // optional object
	SessionID string          `json:"session_id,omitempty" doc:"Resume this run: show its open step again with a fresh challenge"`
	// Roots are the folders that the run works in, as file URIs or absolute
	// paths; optional, and fixed once a run has begun.
	Roots []string `json:"roots,omitempty" doc:"Folders the run works in, for steps that demand files: absolute paths or file:// URIs. Where your client offers roots, these narrow them" max:"16" items:"min=1"`
}
