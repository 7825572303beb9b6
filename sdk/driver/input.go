package driver

import (
	"encoding/json"
)

// Input kinds the host knows; the set is open.
const (
	KindEvidence   = "evidence"
	KindApproval   = "approval"
	KindFiles      = "files"
	KindSimilarity = "similarity"
	// KindRunInput is what a protocol declares to need before its first step.
	KindRunInput = "run_input"
	// KindAcceptance asks a person which steps drivers may do themselves. The server asks
	// for it, never a driver.
	KindAcceptance = "acceptance"
	// KindJudge asks whether the result of a step satisfies its challenge; the
	// answer is a JudgeValue.
	KindJudge = "judge"
)

// Similarity asks the host how close two texts are. The host answers it with
// a SimilarityValue.
type Similarity struct {
	Text      string `json:"text"`
	Reference string `json:"reference"`
}

// SimilarityValue is the value of a similarity input.
type SimilarityValue struct {
	Score  float64 `json:"score"`  // 0..1
	Method string  `json:"method"` // "embedding", "word-vectors" or "lexical"
	// Reason says why texts were compared by words although an embedding model or a table of
	// word vectors is configured; empty: none is, or they were compared by meaning.
	Reason string `json:"reason,omitempty"`
}

// JudgeValue is the value of a judge input.
type JudgeValue struct {
	// Satisfied reports whether the result satisfies the challenge, or is nil if nobody could judge it.
	Satisfied *bool  `json:"satisfied"`
	Reason    string `json:"reason"`
}

// DefaultMaxTokens is how long an answer of a model may be where nobody says.
const DefaultMaxTokens = 1024

// Input is one thing a challenge needs.
type Input struct {
	ID   string `json:"id"`
	Kind string `json:"kind"`
	// Description tells people and agents what is asked.
	Description string `json:"description,omitempty"`
	// System and User are the prompt, should a model be asked.
	System string `json:"system,omitempty"`
	User   string `json:"user,omitempty"`
	// Schema is the JSON Schema of the value. Agents are shown a form made from
	// it: of anyOf and oneOf the alternative with "x-kairos-agent": true, else
	// the first.
	Schema json.RawMessage `json:"schema,omitempty"`
	// Type is the challenge type; Display is shown to agents as challenge.<type>.
	Type        string          `json:"type,omitempty"`
	Display     json.RawMessage `json:"display,omitempty"`
	Temperature *float64        `json:"temperature,omitempty"`
	TopP        *float64        `json:"top_p,omitempty"`
	MaxTokens   int             `json:"max_tokens,omitempty"`
	Approval    ApprovalMode    `json:"approval,omitempty"`
	// Person: the value is meant to be a person's own, so that no approval
	// stands in front of it.
	Person     bool        `json:"person,omitempty"`
	Sensitive  bool        `json:"sensitive,omitempty"`
	Similarity *Similarity `json:"similarity,omitempty"`
	// Action is a JSON object: what would be done, without what does not change it,
	// such as a timeout. Where a person declined it, nobody else approves the same
	// for a while, in whatever protocol. A member that is left out means anything, and
	// a list is a set, of which more or less is the same. Empty: Display. The operator's
	// rules match its members, which Descriptor.ActionSchema declares: a text that is
	// equal, and a list of which an element begins as the rule says. A value that cannot be
	// read is Unparsed, or null.
	Action json.RawMessage `json:"action,omitempty"`
}

// Answer is the value of an input and who vouches for it.
type Answer struct {
	InputID    string          `json:"input_id"`
	Value      json.RawMessage `json:"value"`
	Provenance Provenance      `json:"provenance"`
	// Via names the capability driver that obtained it; set by the host.
	Via        string `json:"via,omitempty"`
	Model      string `json:"model,omitempty"`
	StopReason string `json:"stop_reason,omitempty"`
	// Usage is what generating it cost, where somebody said.
	Usage *Usage `json:"usage,omitempty"`
	// ObtainedAt is when the server obtained the answer of a person or a model itself,
	// RFC 3339; set by the host. Empty: an agent reported it, or a driver observed it.
	ObtainedAt string `json:"obtained_at,omitempty"`
}

// Usage counts the tokens of a model.
type Usage struct {
	InputTokens  int `json:"input_tokens"`
	OutputTokens int `json:"output_tokens"`
}
