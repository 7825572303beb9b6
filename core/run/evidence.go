package run

import (
	"encoding/json"
	"time"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// CoreDriver stands as driver where the core itself is one: steps without a
// challenge, similarity.
const CoreDriver = "core"

// DriverRef says which driver, exactly.
type DriverRef struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	SHA256  string `json:"sha256"`
	// Isolation is how it was kept from the server's own files: namespace,
	// landlock or none; empty: it was recorded before that was noted, or it is not a process.
	Isolation string `json:"isolation,omitempty"`
}

// Evidence is what a step was proved with. It stands beside the proof, which
// only holds its digest, so that it can be erased without breaking the chain.
type Evidence struct {
	Proof   json.RawMessage `json:"proof,omitempty"`
	Output  json.RawMessage `json:"output,omitempty"`
	Answers []driver.Answer `json:"answers,omitempty"`
	// Approval that stood in front of the evidence.
	Approval *Approval `json:"approval,omitempty"`
	// Salt is random, so that nobody can guess short evidence and confirm it by
	// its digest once it is erased. Evidence of earlier versions has none.
	Salt string `json:"salt,omitempty"`
	// Failed: the evidence does not satisfy the challenge, which did not require
	// it. Evidence of earlier versions does not say so.
	Failed bool `json:"failed,omitempty"`
	// Tries is what was tried before without success, or nil.
	Tries *Tries `json:"tries,omitempty"`
	// Delays are how long the answers took that a client gave, by input id.
	Delays map[string]Delay `json:"delays,omitempty"`
	// Permission of the driver that did the step itself, or nil.
	Permission *Permission `json:"permission,omitempty"`
	// RedactedAt is when the evidence was erased; zero if it was not. The digest is of the
	// evidence before that.
	RedactedAt time.Time `json:"redacted_at,omitzero"`
}
