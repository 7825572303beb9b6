package api

import (
	"encoding/json"
)

// BeginRequest opens a run, or with SessionID shows the open step of one again.
type BeginRequest struct {
	URI       string
	Input     json.RawMessage // optional object
	SessionID string
	// Roots are the folders that the run works in, as file URIs or absolute
	// paths; optional, and fixed once a run has begun.
	Roots []string
}
