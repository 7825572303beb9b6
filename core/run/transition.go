package run

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// ErrImpossible is returned, wrapped, for an event that the run's state does
// not allow. The run is unchanged.
var ErrImpossible = errors.New("impossible in this state")

// ErrStale is returned, wrapped, for an answer to a question that is no longer open.
var ErrStale = errors.New("question is no longer open")

// ErrDeclined is returned, wrapped, when something else than the capability
// that received a person's no would answer the same input.
var ErrDeclined = errors.New("a person declined")

// ErrUnapproved is returned, wrapped, when evidence would be obtained without
// the approval that must stand in front of it.
var ErrUnapproved = errors.New("not approved")

type change func(r *Run, e Event) error

// transitions is the whole state machine: what is not listed is impossible.
var transitions = map[State]map[Kind]change{
	Open: {
		Needed: needed, Asked: asked, Premature: premature, Claimed: claimed, Planned: planned, Supplied: supplied, RouteClosed: routeClosed, Declined: declined,
		Accepted: accepted, Withheld: withheld, Rejected: rejected, Refused: refused, Reissued: reissued, Restarted: restarted, Lapsed: lapsed, Told: told,
		Called: called, Deferred: deferred,
		Attested: attested, Expired: ended, Abandoned: ended, Redacted: redacted, Undeclined: undeclined, Adopted: adopted,
	},
	Waiting: {
		Needed: needed, Asked: asked, Supplied: supplied, RouteClosed: routeClosed, Declined: declined,
		Accepted: accepted, Withheld: withheld, Rejected: rejected, Refused: refused, Reissued: reissued, Restarted: restarted, Told: told,
		Deferred: deferred, Lapsed: lapsed, Cancelled: cancelled, Unsettled: unsettled, Settled: settled, Decided: decided,
		Attested: attested, Expired: ended, Abandoned: ended, Redacted: redacted, Undeclined: undeclined, Adopted: adopted,
	},
	Asking: {
		Asked: asked, Answered: answered, PartlyApproved: partlyApproved, Repaired: repaired, Unanswered: unanswered, Dismissed: repaired, Automated: automatic, Opened: opened, Premature: premature, Claimed: claimed, Planned: planned, Supplied: supplied, RouteClosed: routeClosed,
		Declined: declined, Refused: refused, Reissued: reissued, Restarted: restarted, Lapsed: lapsed, Told: told,
		Called: called, Deferred: deferred,
		Attested: attested, Expired: ended, Abandoned: ended, Redacted: redacted, Undeclined: undeclined, Adopted: adopted,
	},
	Complete: {Attested: attested, Expired: ended, Abandoned: ended, Redacted: redacted, Undeclined: undeclined, Adopted: adopted},
	Closed:   {Redacted: redacted, Undeclined: undeclined},
	Ended:    {Redacted: redacted, Undeclined: undeclined},
}

// Apply returns the run after the event, or the unchanged run and an error.
func Apply(r Run, e Event) (Run, error) {
	do, ok := transitions[r.State][e.Kind]
	if !ok {
		return r, fmt.Errorf("%s of run %s in state %s: %w", e.Kind, r.ID, r.State, ErrImpossible)
	}
	if e.Run != r.ID || e.Step != r.Step.Index {
		return r, fmt.Errorf("%s for step %d of run %s, but run %s is at step %d: %w",
			e.Kind, e.Step, e.Run, r.ID, r.Step.Index, ErrImpossible)
	}
	if e.At.Before(r.UpdatedAt) {
		return r, fmt.Errorf("%s of run %s at %s, but it was last changed at %s: %w",
			e.Kind, r.ID, e.At.Format(time.RFC3339Nano), r.UpdatedAt.Format(time.RFC3339Nano), ErrImpossible)
	}
	next := r.clone()
	if err := do(&next, e); err != nil {
		return r, fmt.Errorf("%s of run %s: %w", e.Kind, r.ID, err)
	}
	next.Step.weigh(e)
	next.UpdatedAt, next.Clock = e.At, e.Clock
	next.Spent = next.Spent.Plus(e.Spent)
	return next, nil
}

// clone copies what changes append to or write into.
func (r Run) clone() Run {
	r.Past = r.clip()
	r.Step.Inputs = slices.Clone(r.Step.Inputs)
	r.Step.Answers = slices.Clone(r.Step.Answers)
	r.Step.Tried = slices.Clone(r.Step.Tried)
	r.Step.Declines = maps.Clone(r.Step.Declines)
	r.Step.Attempts = maps.Clone(r.Step.Attempts)
	r.Step.Refused = maps.Clone(r.Step.Refused)
	return r
}

func lacks(what string) error { return fmt.Errorf("event lacks %s: %w", what, ErrImpossible) }
