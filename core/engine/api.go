package engine

import (
	"encoding/json"
	"time"

	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// AppSpace is the space of the built-in protocols; readable by everybody.
const AppSpace = "space:kairos-app"

// Caller is who calls and through what. Every use case takes one.
type Caller struct {
	Principal string
	// Space is the caller's own, where it writes unless it names another.
	Space string
	// Groups are further spaces that the caller reads and writes, by id:
	// "group:<realm>:<ref>". Everybody reads AppSpace.
	Groups []string
	// Connection names the caller's connection; empty for a client that
	// keeps none, as in the 2026-07-28 era.
	Connection string
	Client     driver.Client
	// Visit is how the caller reached the approval page, for calls that come from it.
	Visit run.Visit
	// CanWait is how long a question to a person may hold this call.
	CanWait time.Duration
	// Holding reports whether the caller's connection still waits for the
	// client's answer to this question; nil: it never does. Such a question
	// goes on instead of being asked again.
	Holding func(id run.ID, seq int64) bool
	// Asked, if set, hears of a question that this call is about to ask, before
	// another call can see it in the run: from then on Holding reports it.
	Asked func(id run.ID, seq int64)
	// Detached: nobody waits for the reply, so nothing may be asked.
	Detached bool
}

// Round is the outcome of Begin, Next and Continue: either Reply or Ask is set.
type Round struct {
	Reply *StepReply
	Ask   *Ask
	// Pending, beside a Reply that says that a person is waited for, is what
	// the call may wait for before it replies.
	Pending *Pending
	// Later, beside a Reply that says that a driver is waited for, is when to ask
	// it again, with Retried, before the call replies.
	Later *Later
}

// Ask is a question for the client. It is in the run record already; its
// answer goes to Continue with the same Run and Seq.
type Ask struct {
	Run    run.ID
	Seq    int64
	Method string // elicitation/create, sampling/createMessage, roots/list
	Params json.RawMessage
	// Wait is how long this call may wait for the answer. When it has passed,
	// call Waiting; the question itself goes on.
	Wait time.Duration
	// Human: a person answers.
	Human bool
	// Linked: the question can be answered on its page as well, see Settled.
	Linked bool
}

// BeginInput opens a run, or with SessionID shows the open step of one again.
type BeginInput struct {
	URI       string
	Input     json.RawMessage // optional object
	SessionID string
	// Roots are the folders that the run works in, as file URIs or absolute
	// paths; optional, and fixed once a run has begun.
	Roots []string
}

// NextInput submits a solution for the open step of a run.
type NextInput struct {
	URI      string
	Solution json.RawMessage // empty: none
	RunID    string
}

// Continuation is the client's reply to an Ask.
type Continuation struct {
	Run run.ID
	Seq int64
	// Exactly one of the two.
	Result json.RawMessage
	Error  *driver.ClientError
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

// AttestInput closes a run.
type AttestInput struct {
	URI          string
	Outcome      string // "success" or "failure"
	Message      string
	QualityBonus float64
	ModelID      string
	RunID        string
}

// AttestResult is one rated step or chain.
type AttestResult struct {
	URI          string  `json:"uri"`
	Outcome      string  `json:"outcome"`
	QualityBonus float64 `json:"quality_bonus"`
	Message      string  `json:"message"`
	RatedAt      string  `json:"rated_at"` // RFC 3339
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
	Basis      run.Basis         `json:"basis,omitempty"`
	// By is who approved, where that is known.
	By         string `json:"by,omitempty"`
	ApprovedAt string `json:"approved_at"` // RFC 3339
}

// AttestedRedaction is evidence that was erased.
type AttestedRedaction struct {
	StepIndex  int    `json:"step_index"`
	RedactedAt string `json:"redacted_at"` // RFC 3339
}

// SearchInput looks for protocols.
type SearchInput struct {
	Query string
	// Queries say the same in other words; at most 5. A protocol counts with
	// the text that fits it best.
	Queries []string
	// Space narrows the search to one of the caller's spaces; empty: all.
	Space string
	// Limit is the number of matches at most, 1 to 10; 0: 5. While no match is
	// sure there are 3 at most.
	Limit int
}

// ExplainedSearch is a search with the reasons of its matches.
type ExplainedSearch struct {
	SearchReply
	Explained []Explanation `json:"explained"` // in the order of the matches
}

// Explanation is why a protocol matched.
type Explanation struct {
	URI        string  `json:"uri"`
	ChainLabel string  `json:"chain_label"`
	Score      float64 `json:"score"`
	Why        []Match `json:"why"`
}

// Choice is one answer of a search.
type Choice struct {
	ChainLabel *string `json:"chain_label"`
	// Description is the first line of the protocol's, shortened; set where
	// the choice has to be weighed.
	Description string   `json:"description,omitempty"`
	URI         string   `json:"uri"`
	Label       string   `json:"label"`
	Score       *float64 `json:"score"` // 0..1; nil for refine and create
	Role        string   `json:"role"`  // match, refine, create
	Tags        []string `json:"tags"`
	NextAction  string   `json:"next_action"`
}

// Confidence says what a search knows of its best match.
type Confidence string

// The confidences.
const (
	ConfidenceSure    Confidence = "sure"    // it is the protocol that was asked for
	ConfidencePerhaps Confidence = "perhaps" // somebody has to choose
	ConfidenceNone    Confidence = "none"    // there is no match
)

// SearchReply lists choices, best first; never empty.
type SearchReply struct {
	MustObey   bool       `json:"must_obey"`
	Message    string     `json:"message"`
	Confidence Confidence `json:"confidence"`
	NextAction string     `json:"next_action"`
	// NextCall begins the first choice where that is sure, and refines a search
	// that found nothing. Nil: the caller has to choose.
	NextCall *NextCall `json:"next_call,omitempty"`
	Choices  []Choice  `json:"choices"`
}

// MintInput stores a document.
type MintInput struct {
	Document string
	ModelID  string
	Force    bool
	Space    string
}

// MintItem is one stored step.
type MintItem struct {
	URI        string   `json:"uri"`
	MemoryUUID string   `json:"memory_uuid"`
	Label      string   `json:"label"`
	Tags       []string `json:"tags"`
}

// MintReply lists what was stored, in document order.
type MintReply struct {
	Items    []MintItem            `json:"items"`
	Status   string                `json:"status"` // "stored"
	Warnings []protocol.Diagnostic `json:"warnings,omitempty"`
	// Message says what is not done yet; usually empty.
	Message string `json:"message,omitempty"`
	// NextCall runs the first of the stored protocols.
	NextCall *NextCall `json:"next_call,omitempty"`
}

// UpdateInput changes steps: Documents[i] for URIs[i], or Updates for all.
type UpdateInput struct {
	URIs      []string
	Documents []string
	Updates   json.RawMessage
}

// ItemResult is the outcome for one URI.
type ItemResult struct {
	URI     string `json:"uri"`
	Status  string `json:"status"` // updated, deleted or error
	Message string `json:"message"`
	// ErrorCode is set when Status is error, NextCall where one helps.
	ErrorCode string    `json:"error_code,omitempty"`
	NextCall  *NextCall `json:"next_call,omitempty"`
}

// UpdateReply lists the outcome for each URI, in order.
type UpdateReply struct {
	Results      []ItemResult `json:"results"`
	TotalUpdated int          `json:"total_updated"`
	TotalFailed  int          `json:"total_failed"`
}

// DeleteReply lists the outcome for each URI, in order.
type DeleteReply struct {
	Results      []ItemResult `json:"results"`
	TotalDeleted int          `json:"total_deleted"`
	TotalFailed  int          `json:"total_failed"`
}

// DumpReply is a step or, with protocol, a whole chain as Markdown.
type DumpReply struct {
	Document   string     `json:"markdown_doc"`
	URI        string     `json:"uri"`
	Label      string     `json:"label"`
	ChainLabel *string    `json:"chain_label"`
	Position   *Position  `json:"position,omitempty"`
	Challenge  *Challenge `json:"challenge,omitempty"`
	StepCount  int        `json:"step_count,omitempty"`
	Quality    *Quality   `json:"quality,omitempty"` // of a single step that was rated
}

// Position of a step in its chain.
type Position struct {
	StepIndex int `json:"step_index"`
	StepCount int `json:"step_count"`
}

// SpacesInput says what to list of the spaces.
type SpacesInput struct {
	Titles bool
	// Limit bounds the titles of one reply; 0: 500. More than 1000 are never given.
	Limit int
	// Cursor is the NextCursor of the reply before; empty: from the start.
	Cursor string
}

// SpacesReply lists spaces.
type SpacesReply struct {
	Spaces []SpaceInfo `json:"spaces"`
	// NextCursor is set when there are more titles.
	NextCursor string `json:"next_cursor,omitempty"`
	// NextCall lists them.
	NextCall *NextCall `json:"next_call,omitempty"`
}

// SpaceInfo is one space; Chains only on request.
type SpaceInfo struct {
	Name       string      `json:"name"`
	SpaceID    string      `json:"space_id,omitempty"`
	ChainCount int         `json:"chain_count"`
	Chains     []ChainInfo `json:"chains,omitempty"`
}

// ChainInfo is one protocol of a space.
type ChainInfo struct {
	ChainID   string `json:"chain_id"`
	URI       string `json:"uri"` // of the first step
	Title     string `json:"title"`
	StepCount int    `json:"step_count"`
}
