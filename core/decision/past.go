package decision

import "time"

// Past is a decision of a run, with its result.
type Past struct {
	Decision Decision `json:"decision"`
	// Record holds the facts of the decision; nil if they were not kept.
	Record *Record `json:"facts,omitempty"`
	// Answered: the chosen route gave an answer.
	Answered bool `json:"answered,omitempty"`
	// Outcome is how the route ended without one; empty: answered or still open.
	Outcome Outcome       `json:"outcome,omitempty"`
	Took    time.Duration `json:"took,omitempty"` // zero: still open
}

// Ended reports whether the route gave an answer or the person declined. No
// other route is tried then.
func (p Past) Ended() bool { return p.Answered || p.Outcome == Declined }
