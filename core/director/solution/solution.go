// Package solution reads what an agent submits for a step. It is pure, and judges nothing.
package solution

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// Solution is what an agent submitted, as far as the core reads it.
type Solution struct {
	Sent      json.RawMessage `json:"-"` // as the agent sent it, which is recorded
	Raw       json.RawMessage `json:"-"` // the object that Sent is, or holds as text
	Type      string          `json:"type"`
	Nonce     string          `json:"nonce"`
	ProofHash string          `json:"proof_hash"`
	// PreviousProofHash is an old name of ProofHash.
	PreviousProofHash string          `json:"previousProofHash"`
	Evidence          json.RawMessage `json:"-"`
	Params            json.RawMessage `json:"-"` // the object named like Type
	Object            map[string]any  `json:"-"` // Params for conditions; nil: they are not an object
	given             bool            // whether params or Evidence hold anything
	Payload           string          `json:"-"` // Sum of Sent
}

// maxSolution bounds a submission; more than any output that a step needs.
const maxSolution = 4 << 20

// Parse reads a submission; it returns nil for none.
func Parse(raw json.RawMessage) (*Solution, error) {
	trimmed := bytes.TrimSpace(raw)
	if len(trimmed) == 0 || bytes.Equal(trimmed, []byte("null")) {
		return nil, nil
	}
	if len(trimmed) > maxSolution {
		return nil, fault.New(fault.InvalidArgument, "solution has %d bytes, at most %d are taken: shorten long output", len(trimmed), maxSolution)
	}
	s := &Solution{Sent: trimmed}
	var err error
	if s.Raw, err = input.Opened(trimmed); err != nil {
		return nil, err
	}
	read, err := input.Envelope(s.Raw)
	if err != nil {
		return nil, err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(read, &fields); err != nil {
		return nil, fault.Wrap(err, fault.InvalidArgument, "solution must be a JSON object")
	}
	if err := json.Unmarshal(read, s); err != nil {
		return nil, fault.Wrap(err, fault.InvalidArgument, "solution: type, nonce and proof_hash must be strings")
	}
	s.Evidence = fields["evidence"]
	if s.Type == "" && saysMore(fields) {
		return nil, fault.New(fault.InvalidArgument, "solution.type is missing, so nothing of the solution was used: it is the type of the open challenge")
	}
	if s.ProofHash == "" {
		s.ProofHash = s.PreviousProofHash
	}
	if s.Params, err = input.Opened(fields[s.Type]); err != nil {
		return nil, err
	}
	s.Object = decision.Object(s.Params)
	s.given = holds(s.Object) || says(s.Params) || says(s.Evidence)
	s.Payload = Sum(s.Sent)
	return s, nil
}

// ReadFor is Raw with what it says of an input in the form that the input's schema demands.
func (s *Solution) ReadFor(in driver.Input) (json.RawMessage, error) {
	return input.Read(in, s.Type, s.Raw)
}

// Sum tells a repeat from a replay: a network retry repeats the bytes.
func Sum(payload []byte) string {
	digest := sha256.Sum256(payload)
	return hex.EncodeToString(digest[:])
}

// Supplied reports whether the solution says anything: a placeholder such as
// {"type": "...", "nonce": "..."} asks the server to obtain the answer itself.
func (s *Solution) Supplied() bool { return s != nil && s.given }

// saysMore reports whether a solution says anything beside which challenge it is for.
func saysMore(fields map[string]json.RawMessage) bool {
	for name, value := range fields {
		switch name {
		case "type", "nonce", "proof_hash", "previousProofHash":
		default:
			if says(value) {
				return true
			}
		}
	}
	return false
}

// says reports whether a JSON value holds anything but emptiness.
func says(raw json.RawMessage) bool {
	var v any
	if len(raw) == 0 || json.Unmarshal(raw, &v) != nil {
		return false
	}
	return holds(v)
}

func holds(v any) bool {
	switch v := v.(type) {
	case nil:
		return false
	case string:
		return v != ""
	case []any:
		return len(v) > 0
	case map[string]any:
		for _, e := range v {
			if holds(e) {
				return true
			}
		}
		return false
	}
	return true
}

// Unfilled lists the places of a submission that still hold a placeholder.
func (s *Solution) Unfilled(in driver.Input) []string {
	if !api.MayBeForm(s.Raw) {
		return nil
	}
	form := api.Form(in.Schema)
	found := api.LeftAt(s.Type, form, api.Value(s.Params))
	return append(found, api.LeftAt("evidence", form, api.Value(s.Evidence))...)
}

// Work is what was submitted: Params, unless they say nothing, or else Evidence.
func (s *Solution) Work() json.RawMessage {
	if says(s.Params) {
		return s.Params
	}
	return s.Evidence
}

// HasEvidence reports whether Evidence says anything.
func (s *Solution) HasEvidence() bool { return s != nil && says(s.Evidence) }
