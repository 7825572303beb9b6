package run

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/gowebpki/jcs"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// Genesis is the hash before the first proof: SHA-256 of the word "genesis".
const Genesis = "aeebad4a796fcc2e15dc4c6061b45ed9b373f26adfc798ca7d2d8cc58182718e"

// Proof is one link of a run's proof chain.
type Proof struct {
	// Hash is SHA-256 over the canonical JSON (RFC 8785) of the other fields, in hex.
	Hash     string `json:"hash,omitempty"`
	Previous string `json:"previous"` // hash of the proof before, or Genesis
	Run      ID     `json:"run"`
	Step     int    `json:"step"` // 1-based
	StepUUID string `json:"step_uuid"`
	// ChallengeDigest is of the challenge with its templates filled.
	ChallengeDigest string            `json:"challenge_digest"`
	EvidenceDigest  string            `json:"evidence_digest"`
	Provenance      driver.Provenance `json:"provenance"`
	// Driver judged the evidence, Via obtained it.
	Driver DriverRef `json:"driver"`
	Via    DriverRef `json:"via"`
	At     time.Time `json:"at"`
}

// Seal returns the proof with its hash.
func (p Proof) Seal() (Proof, error) {
	p.Hash = ""
	p.At = p.At.UTC().Truncate(time.Millisecond)
	b, err := json.Marshal(p)
	if err != nil {
		return Proof{}, fmt.Errorf("encode proof: %w", err)
	}
	if p.Hash, err = Digest(b); err != nil {
		return Proof{}, err
	}
	return p, nil
}

func (p Proof) check() error {
	sealed, err := p.Seal()
	if err != nil {
		return err
	}
	if sealed.Hash != p.Hash {
		return fmt.Errorf("proof of step %d does not have the hash it states: %w", p.Step, ErrImpossible)
	}
	return nil
}

// Digest is SHA-256 over the canonical form (RFC 8785) of a JSON document, in hex.
func Digest(document []byte) (string, error) {
	canonical, err := jcs.Transform(document)
	if err != nil {
		return "", fmt.Errorf("canonical JSON: %w", err)
	}
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:]), nil
}

// ProofHash is the hash that the next proof continues, which is also what a
// solution has to carry as proof_hash.
func (r Run) ProofHash() string {
	if len(r.Proofs) == 0 {
		return Genesis
	}
	return r.Proofs[len(r.Proofs)-1].Hash
}

// Verify checks the whole proof chain of the run and the digests of all
// evidence that was not erased. It returns the first broken link.
func (r Run) Verify() error {
	previous := Genesis
	for i, p := range r.Proofs {
		if p.Previous != previous || p.Step != i+1 || p.Run != r.ID {
			return fmt.Errorf("proof of step %d does not continue the chain", i+1)
		}
		if err := p.check(); err != nil {
			return err
		}
		if err := r.Evidence[i].check(p.EvidenceDigest); err != nil {
			return fmt.Errorf("evidence of step %d: %w", i+1, err)
		}
		previous = p.Hash
	}
	return nil
}

// Digest of the evidence as a proof holds it.
func (v Evidence) Digest() (string, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("encode evidence: %w", err)
	}
	return Digest(b)
}

func (v Evidence) check(want string) error {
	if v.Proof == nil && v.Answers == nil {
		return nil // erased; its digest still stands in the proof
	}
	got, err := v.Digest()
	if err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("digest is %s, the proof says %s", got, want)
	}
	return nil
}
