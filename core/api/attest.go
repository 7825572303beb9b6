package api

import (
	"fmt"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// Attest declares kairos_attest.
var Attest = Tool[AttestRequest, AttestReply]{Declaration{
	Name: "kairos_attest", Title: "Finalize protocol execution",
	Description: "Close a run when its last step is done, or give it up. The reply says whether every step was verified and which steps are missing.",

	Icon: "M12 3l8 3v6c0 5-4 8-8 9c-4-1-8-4-8-9v-6zM8 12l3 3l5-6",
}}

// AttestRequest closes a run.
type AttestRequest struct {
	URI          string  `json:"uri" doc:"URI of any step" form:"uri"`
	Outcome      string  `json:"outcome" enum:"success,failure"` // success or failure
	Message      string  `json:"message" doc:"What was achieved, or why not" min:"1"`
	QualityBonus float64 `json:"quality_bonus,omitempty" doc:"Added to the rating of a verified run"`
	ModelID      string  `json:"llm_model_id,omitempty" doc:"The model that executed it"`
	RunID        string  `json:"run_id,omitempty" doc:"Which run, if several are open"`
}

// AttestReply says what was attested and whether the run is verified: every
// step's evidence was accepted and the proof chain is whole.
type AttestReply struct {
	Verified bool `json:"verified" doc:"Every step's evidence was accepted and the proof chain is whole"`
	// ErrorCode, Tried, Candidates, NextAction and NextCall are set when it is not clear which run is meant.
	ErrorCode    string         `json:"error_code,omitempty" doc:"Set when something is wrong; the code to act on"`
	Message      string         `json:"message,omitempty" doc:"What happened, in words"`
	NextAction   string         `json:"next_action,omitempty" doc:"The call that comes next"`
	NextCall     *NextCall      `json:"next_call,omitempty"`
	Results      []AttestResult `json:"results"`
	TotalRated   int            `json:"total_rated"`
	TotalFailed  int            `json:"total_failed"`
	RunID        string         `json:"run_id,omitempty"`
	MissingSteps []string       `json:"missing_steps,omitempty" doc:"URIs of steps without accepted proof"` // URIs
	ProofHash    string         `json:"proof_hash,omitempty" doc:"Hash of the last proof"`
	// AlreadyAttested: the run was closed before, and Results has what was
	// recorded then. Nothing was counted again.
	AlreadyAttested bool `json:"already_attested,omitempty" doc:"The run was attested before: results has what was recorded then, and nothing was counted again"`
	// Steps are the solved ones, and who vouches for each.
	Steps []AttestedStep `json:"steps,omitempty" doc:"The solved steps, and who vouches for each"`
	// WeakestProvenance is the least of what the steps rest on, files included.
	WeakestProvenance driver.Provenance `json:"weakest_provenance,omitempty" doc:"The least that a step or its files rest on"`
	// StepsByProvenance counts the solved steps.
	StepsByProvenance map[driver.Provenance]int `json:"steps_by_provenance,omitempty" doc:"Number of solved steps by provenance"`
	Approvals         []AttestedApproval        `json:"approvals,omitempty" doc:"Who approved which step, and how"`
	// Protocol is the version that the run followed.
	Protocol *ProtocolRevision `json:"protocol,omitempty" doc:"The version of the protocol that the run followed"`
	// Tries are the steps, solved or open, whose first attempt did not succeed.
	Tries      []AttestedTries     `json:"tries,omitempty" doc:"Steps whose first attempt did not succeed, and what did not count"`
	Redactions []AttestedRedaction `json:"redactions,omitempty" doc:"Steps whose evidence was erased"`
	Tried      string              `json:"tried,omitempty" doc:"What did not work, when error_code is set"`
	Candidates []string            `json:"candidates,omitempty" doc:"Runs to choose from, when it is not clear which is meant"`
}

// AttestResult is one rated step or chain.
type AttestResult struct {
	URI          string  `json:"uri"`
	Outcome      string  `json:"outcome"`
	QualityBonus float64 `json:"quality_bonus"`
	Message      string  `json:"message"`
	RatedAt      string  `json:"rated_at" doc:"RFC 3339"` // RFC 3339
}

// AttestedStep is who vouches for a solved step.
type AttestedStep struct {
	StepIndex  int               `json:"step_index"`
	URI        string            `json:"uri"`
	Label      string            `json:"label"`
	Provenance driver.Provenance `json:"provenance" doc:"Who vouches for the evidence"`
	// Driver judged the evidence; Via obtained it.
	Driver string `json:"driver" doc:"Who judged it"`
	Via    string `json:"via" doc:"How it was obtained"`
	// Verdict is "accepted", or says that the evidence failed, which the challenge does not forbid.
	Verdict string       `json:"verdict" doc:"accepted, or that it failed where the step does not require a good result"`
	Files   *SolvedFiles `json:"files,omitempty" doc:"Who vouches for the files that the step demanded"`
}

// ProtocolRevision is the version of a protocol that a run follows from its beginning.
type ProtocolRevision struct {
	Revision int64 `json:"revision" doc:"The revision that the run began with"`
	Current  bool  `json:"current" doc:"Whether the stored protocol says the same"`
	// Stored is the revision that is stored now, or 0 if the protocol was deleted.
	Stored int64 `json:"stored_revision" doc:"The revision that is stored now; 0 if the protocol was deleted"`
}

// String words it for people and agents.
func (p ProtocolRevision) String() string {
	switch {
	case p.Stored == 0:
		return fmt.Sprintf("revision %d of the protocol, which has been deleted since", p.Revision)
	case p.Revision == p.Stored:
		return fmt.Sprintf("revision %d of the protocol, which is the stored one", p.Revision)
	case p.Current:
		return fmt.Sprintf("revision %d of the protocol, which says the same as the stored revision %d", p.Revision, p.Stored)
	}
	return fmt.Sprintf("revision %d of the protocol, which differs from the stored protocol (revision %d)", p.Revision, p.Stored)
}

// AttestedTries is what was tried at a step without success.
type AttestedTries struct {
	StepIndex int    `json:"step_index"`
	URI       string `json:"uri"`
	Solved    bool   `json:"solved" doc:"Whether the step was solved in the end"`
	Attempts  int    `json:"attempts" doc:"How often the evidence was tried to be obtained"`
	Failures  int    `json:"failures" doc:"Submissions and results that were refused"`
	// Discarded counts what the server observed itself and what did not count.
	Discarded    int               `json:"discarded_observations" doc:"What the server observed itself and did not count"`
	Observations []AttestedFailure `json:"observations,omitempty" doc:"The first and last few of the discarded observations"`
}

// AttestedFailure is one observation that did not count.
type AttestedFailure struct {
	At     string `json:"at" doc:"RFC 3339"` // RFC 3339
	Driver string `json:"driver,omitempty"`
	Code   string `json:"code" doc:"Why it did not count"`
}

// AttestedApproval is an approval of a step.
type AttestedApproval struct {
	StepIndex int    `json:"step_index"`
	Via       string `json:"via"`
	// Provenance is empty where the yes was left to the client's review.
	Provenance driver.Provenance `json:"provenance,omitempty" doc:"Left out where the approval was left to the client's review"`
	Basis      string            `json:"basis,omitempty" doc:"How the approval came"`
	// By is who approved, where that is known.
	By         string `json:"by,omitempty" doc:"Who approved, where that is known"`
	ApprovedAt string `json:"approved_at" doc:"RFC 3339"` // RFC 3339
}

// AttestedRedaction is evidence that was erased.
type AttestedRedaction struct {
	StepIndex  int    `json:"step_index"`
	RedactedAt string `json:"redacted_at" doc:"RFC 3339"` // RFC 3339
}
