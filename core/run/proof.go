package run

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// Genesis is the hash before the first proof: SHA-256 of the word "genesis".
const Genesis = "aeebad4a796fcc2e15dc4c6061b45ed9b373f26adfc798ca7d2d8cc58182718e"

// Proof is one link of a run's proof chain.
type Proof struct {
	// Hash is SHA-256 over the canonical JSON (Canonical) of the other fields, in hex.
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

// Follows checks that the proof has the hash it states and continues the chain
// of the run at the step. What does not hold is a *Broken.
func (p Proof) Follows(previous string, id ID, step int) error {
	if p.Previous != previous || p.Step != step || p.Run != id {
		return &Broken{Step: step, Link: LinkPrevious, Why: "the proof does not continue the chain"}
	}
	return p.check(step)
}

func (p Proof) check(step int) error {
	sealed, err := p.Seal()
	if err != nil {
		return &Broken{Step: step, Link: LinkProof, Why: err.Error()}
	}
	if sealed.Hash != p.Hash {
		return &Broken{Step: step, Link: LinkProof, Why: "the proof does not have the hash it states"}
	}
	return nil
}

// Link is a part of a step's proof that can break.
type Link string

// The links.
const (
	// LinkPrevious: the proof names another proof before it, run or step.
	LinkPrevious Link = "previous"
	// LinkProof: the proof itself was changed.
	LinkProof Link = "proof"
	// LinkChallenge: the challenge is not the one that the proof is for.
	LinkChallenge Link = "challenge"
	// LinkEvidence: the evidence is not the one that was accepted.
	LinkEvidence Link = "evidence"
)

// Broken is the first link of a proof chain that does not hold.
type Broken struct {
	Step int    `json:"step"`
	Link Link   `json:"link"`
	Why  string `json:"why"`
}

func (b *Broken) Error() string { return fmt.Sprintf("step %d, %s: %s", b.Step, b.Link, b.Why) }

// CheckDigest compares a challenge or evidence with the digest that the proof
// of the step states for it. What does not hold is a *Broken.
func CheckDigest(step int, l Link, document []byte, stated string) error {
	got, err := Digest(document)
	if err != nil {
		return &Broken{Step: step, Link: l, Why: err.Error()}
	}
	if got != stated {
		return &Broken{Step: step, Link: l, Why: fmt.Sprintf("its digest is %s, the proof says %s", got, stated)}
	}
	return nil
}

// Digest is SHA-256 over the canonical form of a JSON document, in hex.
func Digest(document []byte) (string, error) {
	canonical, err := Canonical(document)
	if err != nil {
		return "", err
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
// evidence that was not erased. It returns the first broken link as a *Broken.
func (r Run) Verify() error { return r.verify(0) }

// VerifyRead is Verify without the digests of evidence that this process accepted itself
// and holds since: it made them of what it holds.
func (r Run) VerifyRead() error { return r.verify(r.Held) }

func (r Run) verify(held int) error {
	previous := Genesis
	for i, p := range r.Proofs {
		if err := p.Follows(previous, r.ID, i+1); err != nil {
			return err
		}
		if i >= len(r.Evidence) {
			return &Broken{Step: i + 1, Link: LinkEvidence, Why: "it is missing from the record of the run"}
		}
		if i >= held {
			if err := r.Evidence[i].check(i+1, p.EvidenceDigest); err != nil {
				return err
			}
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

// Erased reports whether only the digest in the proof is left of the evidence.
func (v Evidence) Erased() bool {
	return !v.RedactedAt.IsZero() || v.Proof == nil && v.Answers == nil
}

func (v Evidence) check(step int, stated string) error {
	if v.Erased() {
		return nil
	}
	b, err := json.Marshal(v)
	if err != nil {
		return &Broken{Step: step, Link: LinkEvidence, Why: err.Error()}
	}
	return CheckDigest(step, LinkEvidence, b, stated)
}
