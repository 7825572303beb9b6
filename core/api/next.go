package api

import (
	"encoding/json"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// Next declares kairos_next.
var Next = Tool[NextRequest, StepReply]{Declaration{
	Name: "kairos_next", Title: "Submit solution and get next step",
	Description: "Prove the open step and get the following one. Do what the challenge demands, then send solution with its nonce and proof_hash and the object named like its type. Where the server asks the user or the model itself, send only type and nonce.",
	OpenWorld:   true,
	Icon:        "M5 5l8 7l-8 7M13 5l8 7l-8 7",
}}

// NextRequest submits a solution for the open step of a run.
type NextRequest struct {
	URI      string          `json:"uri" doc:"URI from the last next_action" form:"uri"`
	Solution json.RawMessage `json:"solution,omitempty" doc:"Proof of the open step" required:"true"` // empty: none
	RunID    string          `json:"run_id,omitempty" doc:"Which run, if several are open"`
	Cancel   bool            `json:"cancel,omitempty" doc:"End what the server does for the step, instead of waiting; solution is not used"`
}

// Shapes implements Shaped.
func (NextRequest) Shapes() map[string]any { return map[string]any{"solution": Solution{}} }

// Solution describes NextRequest.Solution, which the director reads itself. The
// types of the earlier server have fields of their own; that of any other type
// is called like the type, or evidence.
type Solution struct {
	Type      string `json:"type" doc:"challenge.type of the last reply"`
	Nonce     string `json:"nonce,omitempty" doc:"challenge.nonce; evidence does not count without it"`
	ProofHash string `json:"proof_hash,omitempty" doc:"challenge.proof_hash"`
	Shell     struct {
		ExitCode float64 `json:"exit_code"`
		Stdout   string  `json:"stdout,omitempty"`
		Stderr   string  `json:"stderr,omitempty"`
		Duration float64 `json:"duration_seconds,omitempty"`
	} `json:"shell,omitzero" doc:"You ran the command yourself"`
	MCP struct {
		Tool      string          `json:"tool_name"`
		Arguments json.RawMessage `json:"arguments,omitempty" form:"opaque"`
		Result    any             `json:"result" doc:"What it returned, unchanged, as JSON text"`
		Success   bool            `json:"success"`
	} `json:"mcp,omitzero" doc:"You called the tool yourself"`
	UserInput struct {
		Confirmation string `json:"confirmation" doc:"The user's own answer"`
		Timestamp    string `json:"timestamp,omitempty"`
	} `json:"user_input,omitzero" doc:"The user answered you"`
	Comment struct {
		Text string `json:"text" doc:"In your own words"`
	} `json:"comment,omitzero" doc:"You wrote it"`
	Evidence any `json:"evidence,omitempty" doc:"The answer to any other challenge type, as JSON text"`
}

// StepReply is the reply of begin and next. Clients cut long replies, so what an agent acts
// on comes first, and the step's text last.
type StepReply struct {
	MustObey  bool   `json:"must_obey" doc:"true: follow next_action. false: use your judgement."`
	ErrorCode string `json:"error_code,omitempty" doc:"Why the step is still open"`
	Message   string `json:"message,omitempty"`
	// ApprovalURL is where a person answers an approval, for them only.
	ApprovalURL string `json:"approval_url,omitempty" doc:"Where a person approves this step: show it to them, and do not open it yourself"`
	NextAction  string `json:"next_action" doc:"The call that comes next, with its uri"`
	// NextCall is NextAction for programs; nil where there is a choice to make.
	NextCall  *NextCall `json:"next_call,omitempty"`
	Challenge Challenge `json:"challenge" doc:"What proves the open step. The object named like the type holds its details."`
	ProofHash string    `json:"proof_hash,omitempty" doc:"Hash of the proof just recorded"`
	// Tried says what did not work, where ErrorCode is set.
	Tried      string `json:"tried,omitempty" doc:"What did not work, when error_code is set"`
	RetryCount *int   `json:"retry_count,omitempty" doc:"Failed attempts at this challenge"`
	// RetryAfter is set while the run waits for a driver or a person: after how many
	// seconds asking again makes sense.
	RetryAfter *float64 `json:"retry_after,omitempty" doc:"Seconds after which calling again makes sense, while the run waits" min:"0"`
	// Progress, 0 to 1, and ProgressMessage are what that driver said of how far
	// it is; nil and empty: it did not say.
	Progress        *float64    `json:"progress,omitempty" doc:"How much of that is done, as far as the driver says" min:"0" max:"1"`
	ProgressMessage string      `json:"progress_message,omitempty" doc:"What the driver says about it; tell the user"`
	RunID           string      `json:"run_id,omitempty" doc:"This execution; send it when several runs of one protocol are open" required:"true"`
	StepIndex       int         `json:"step_index,omitempty" doc:"Place of the open step, from 1" required:"true"`
	StepCount       int         `json:"step_count,omitempty" required:"true"`
	Solved          []Solved    `json:"solved,omitempty" doc:"Steps that the server obtained the proof of by itself"`
	CurrentStep     CurrentStep `json:"current_step" doc:"The open step"`
}

// LinkSentence ends the message of a reply that has an ApprovalURL. Nothing follows it: readers
// would take that for a part of the link.
func LinkSentence(approvalURL string) string { return "The approval page: " + approvalURL }

// CurrentStep is the open step as agents see it.
type CurrentStep struct {
	URI      string `json:"uri"`
	Content  string `json:"content" doc:"The step's instructions, Markdown; empty in some error replies"`
	MIMEType string `json:"mimeType"`
}

// Challenge is the open step's challenge as agents see it. Display, if any, is
// encoded under the key named by Type.
type Challenge struct {
	Type        string          `json:"type" doc:"Challenge type: the value for solution.type"`
	Description string          `json:"description" doc:"What the step demands, in words"`
	Nonce       string          `json:"nonce,omitempty" doc:"Send back as solution.nonce"`
	ProofHash   string          `json:"proof_hash" doc:"Send back as solution.proof_hash"`
	Display     json.RawMessage `json:"-"`
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
	return Encode(m, "")
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
	Driver     string            `json:"driver" doc:"Who judged the evidence"`
	Via        string            `json:"via" doc:"How it was obtained"`
	Provenance driver.Provenance `json:"provenance" doc:"Who vouches for it"`
	Output     json.RawMessage   `json:"output,omitempty" doc:"The step's result"`
	ProofHash  string            `json:"proof_hash"`
	// Verdict is set where the evidence failed, which the challenge does not forbid.
	Verdict string `json:"verdict,omitempty" doc:"Set where the result failed and the step does not require a good one"`
	// Files is set where the step demanded files.
	Files *SolvedFiles `json:"files,omitempty" doc:"Who vouches for the files that the step demanded"`
}

// SolvedFiles says who vouches for the files of a solved step, which may be
// somebody else than for its evidence.
type SolvedFiles struct {
	Via        string            `json:"via"`
	Provenance driver.Provenance `json:"provenance"`
	// Passed is the result of a look, or nil if nobody looked. It is false where
	// a step that is not required passed nevertheless.
	Passed *bool `json:"passed,omitempty" doc:"What the server saw; left out where it did not look"`
}
