package api

import (
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// AttestRequest closes a run.
type AttestRequest struct {
	URI          string
	Outcome      string // "success" or "failure"
	Message      string
	QualityBonus float64
	ModelID      string
	RunID        string
}

// AttestReply says what was attested and whether the run is verified: every
// step's evidence was accepted and the proof chain is whole.
type AttestReply struct {
	Results      []AttestResult `json:"results"`
	TotalRated   int            `json:"total_rated"`
	TotalFailed  int            `json:"total_failed"`
	Verified     bool           `json:"verified"`
	RunID        string         `json:"run_id,omitempty"`
	MissingSteps []string       `json:"missing_steps,omitempty"` // URIs
	ProofHash    string         `json:"proof_hash,omitempty"`
	Message      string         `json:"message,omitempty"`
	// AlreadyAttested: the run was closed before, and Results has what was
	// recorded then. Nothing was counted again.
	AlreadyAttested bool `json:"already_attested,omitempty"`
	// Steps are the solved ones, and who vouches for each.
	Steps []AttestedStep `json:"steps,omitempty"`
	// WeakestProvenance is the least of what the steps rest on, files included.
	WeakestProvenance driver.Provenance `json:"weakest_provenance,omitempty"`
	// StepsByProvenance counts the solved steps.
	StepsByProvenance map[driver.Provenance]int `json:"steps_by_provenance,omitempty"`
	Approvals         []AttestedApproval        `json:"approvals,omitempty"`
	Redactions        []AttestedRedaction       `json:"redactions,omitempty"`
	// ErrorCode and what follows are set when it is not clear which run is meant.
	ErrorCode  string    `json:"error_code,omitempty"`
	Tried      string    `json:"tried,omitempty"`
	Candidates []string  `json:"candidates,omitempty"`
	NextAction string    `json:"next_action,omitempty"`
	NextCall   *NextCall `json:"next_call,omitempty"`
}

// AttestResult is one rated step or chain.
type AttestResult struct {
	URI          string  `json:"uri"`
	Outcome      string  `json:"outcome"`
	QualityBonus float64 `json:"quality_bonus"`
	Message      string  `json:"message"`
	RatedAt      string  `json:"rated_at"` // RFC 3339
}

// AttestedStep is who vouches for a solved step.
type AttestedStep struct {
	StepIndex  int               `json:"step_index"`
	URI        string            `json:"uri"`
	Label      string            `json:"label"`
	Provenance driver.Provenance `json:"provenance"`
	// Driver judged the evidence; Via obtained it.
	Driver string `json:"driver"`
	Via    string `json:"via"`
	// Verdict is "accepted", or says that the evidence failed, which the challenge does not forbid.
	Verdict string       `json:"verdict"`
	Files   *SolvedFiles `json:"files,omitempty"`
}

// AttestedApproval is a yes in front of a step.
type AttestedApproval struct {
	StepIndex int    `json:"step_index"`
	Via       string `json:"via"`
	// Provenance is empty where the yes was left to the client's review.
	Provenance driver.Provenance `json:"provenance,omitempty"`
	Basis      string            `json:"basis,omitempty"`
	// By is who approved, where that is known.
	By         string `json:"by,omitempty"`
	ApprovedAt string `json:"approved_at"` // RFC 3339
}

// AttestedRedaction is evidence that was erased.
type AttestedRedaction struct {
	StepIndex  int    `json:"step_index"`
	RedactedAt string `json:"redacted_at"` // RFC 3339
}
