package decision

import "time"

// Past is a decision that was made in a run, and what came of it.
type Past struct {
	Decision Decision `json:"decision"`
	// Record is what it was made on; nil where that was not kept.
	Record *Record `json:"facts,omitempty"`
	// Answered: the chosen route gave an answer.
	Answered bool `json:"answered,omitempty"`
	// Outcome is how the route ended without one; empty: answered or still open.
	Outcome Outcome       `json:"outcome,omitempty"`
	Took    time.Duration `json:"took,omitempty"` // zero: still open
}

// Ended reports whether the route gave an answer, or a person's no, after
// which none is tried.
func (p Past) Ended() bool { return p.Answered || p.Outcome == Declined }

// on is the decision as this tree makes it, and false where nobody can tell:
// another tree made it and the facts were not kept.
func (t *Tree) on(p Past) (d Decision, known bool) {
	switch {
	case p.Record == nil:
		return p.Decision, false
	case p.Record.Tree == t.digest:
		return p.Decision, true
	}
	return t.Decide(p.Record.Kind, p.Record.Facts), true
}
