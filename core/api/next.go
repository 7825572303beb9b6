package api

import (
	"encoding/json"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// NextRequest submits a solution for the open step of a run.
type NextRequest struct {
	URI      string
	Solution json.RawMessage // empty: none
	RunID    string
}

// StepReply is the reply of begin and next.
type StepReply struct {
	MustObey    bool        `json:"must_obey"`
	CurrentStep CurrentStep `json:"current_step"`
	Challenge   Challenge   `json:"challenge"`
	NextAction  string      `json:"next_action"`
	// NextCall is NextAction for programs; nil where there is a choice to make.
	NextCall  *NextCall `json:"next_call,omitempty"`
	ProofHash string    `json:"proof_hash,omitempty"`
	Message   string    `json:"message,omitempty"`
	ErrorCode string    `json:"error_code,omitempty"`
	// ApprovalURL is where a person answers an approval, for them only.
	ApprovalURL string `json:"approval_url,omitempty"`
	// Tried says what did not work, where ErrorCode is set.
	Tried      string `json:"tried,omitempty"`
	RetryCount *int   `json:"retry_count,omitempty"`
	// RetryAfter is set while the run waits for a driver: after how many seconds
	// asking again makes sense.
	RetryAfter *float64 `json:"retry_after,omitempty"`
	// Progress, 0 to 1, and ProgressMessage are what that driver said of how far
	// it is; nil and empty: it did not say.
	Progress        *float64 `json:"progress,omitempty"`
	ProgressMessage string   `json:"progress_message,omitempty"`
	RunID           string   `json:"run_id,omitempty"`
	SessionID       string   `json:"session_id,omitempty"`
	StepIndex       int      `json:"step_index,omitempty"` // 1-based
	StepCount       int      `json:"step_count,omitempty"`
	Solved          []Solved `json:"solved,omitempty"`
}

// CurrentStep is the open step as agents see it.
type CurrentStep struct {
	URI      string `json:"uri"`
	Content  string `json:"content"`
	MIMEType string `json:"mimeType"`
}

// Challenge is the open step's challenge as agents see it. Display, if any, is
// encoded under the key named by Type.
type Challenge struct {
	Type        string
	Description string
	Nonce       string
	// ProofHash is the value to send as solution.proof_hash.
	ProofHash string
	Display   json.RawMessage
}

// MarshalJSON puts Display under the key that Type names.
func (c Challenge) MarshalJSON() ([]byte, error) {
	m := map[string]any{"type": c.Type, "description": c.Description, "proof_hash": c.ProofHash}
	if c.Nonce != "" {
		m["nonce"] = c.Nonce
	}
	if len(c.Display) > 0 {
		m[c.Type] = c.Display
	}
	return json.Marshal(m)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (c *Challenge) UnmarshalJSON(b []byte) error {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(b, &m); err != nil {
		return err
	}
	for key, to := range map[string]*string{
		"type": &c.Type, "description": &c.Description, "nonce": &c.Nonce, "proof_hash": &c.ProofHash,
	} {
		if raw, ok := m[key]; ok {
			if err := json.Unmarshal(raw, to); err != nil {
				return err
			}
		}
	}
	c.Display = m[c.Type]
	return nil
}

// Solved is a step that this call, or one before it that nobody heard of, obtained.
type Solved struct {
	StepIndex int    `json:"step_index"`
	URI       string `json:"uri"`
	Label     string `json:"label"`
	// Driver judged the evidence; Via obtained it.
	Driver     string            `json:"driver"`
	Via        string            `json:"via"`
	Provenance driver.Provenance `json:"provenance"`
	Output     json.RawMessage   `json:"output,omitempty"`
	ProofHash  string            `json:"proof_hash"`
	// Verdict is set where the evidence failed, which the challenge does not forbid.
	Verdict string `json:"verdict,omitempty"`
	// Files is set where the step demanded files.
	Files *SolvedFiles `json:"files,omitempty"`
}

// SolvedFiles says who vouches for the files of a solved step, which may be
// somebody else than for its evidence.
type SolvedFiles struct {
	Via        string            `json:"via"`
	Provenance driver.Provenance `json:"provenance"`
	// Passed is what somebody saw who looked; nil: nobody did. It is false where
	// a step that is not required passed nevertheless.
	Passed *bool `json:"passed,omitempty"`
}
