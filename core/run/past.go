package run

import (
	"cmp"
	"slices"
)

// Past is what a run has been through. Its lists are only appended to, so runs may
// share them, and nobody changes what they hold.
type Past struct {
	Proofs   []*Proof
	Evidence []*Evidence // one for each proof
	Nonces   []string    // used up, by a proof or by a fresh one; of a step only as many as its record holds
	SolvedBy []string    // the nonce of each proof
	// Held is how many of the first pieces of evidence this process has accepted itself, so
	// that the digests in their proofs are of what it holds. What was read does not count.
	Held int `json:"-"`
}

// Recall returns the run with its past. Known is an earlier revision with its
// past, or the zero Run, and events are those that happened in between, oldest
// first. A redaction changes what is past: if there is one among the events, known
// must be the zero Run.
func (r Run) Recall(known Run, events []Event) Run {
	r.Past = known.clip()
	nonce := known.Step.Nonce
	if known.ID == "" {
		nonce = r.FirstNonce
	}
	for _, e := range events {
		switch {
		case e.Kind == Accepted && e.Proof != nil && e.Evidence != nil:
			r.proved(cmp.Or(e.Solves, nonce), e.Proof, e.Evidence)
			nonce = e.Nonce
		case e.Kind == Reissued:
			r.usedUp(nonce)
			nonce = e.Nonce
		}
	}
	return r
}

func (p *Past) proved(nonce string, proof *Proof, evidence *Evidence) {
	p.usedUp(nonce)
	p.SolvedBy = append(p.SolvedBy, nonce)
	p.Proofs = append(p.Proofs, proof)
	p.Evidence = append(p.Evidence, evidence)
}

func (p *Past) usedUp(nonce string) { p.Nonces = append(p.Nonces, nonce) }

// clip makes appends copy, so that they do not show in other runs.
func (p Past) clip() Past {
	return Past{
		Proofs: slices.Clip(p.Proofs), Evidence: slices.Clip(p.Evidence),
		Nonces: slices.Clip(p.Nonces), SolvedBy: slices.Clip(p.SolvedBy), Held: p.Held,
	}
}
