package decision

// ActionKind is what the host does after an outcome.
type ActionKind string

// The kinds of action.
const (
	// Next: this route is finished, decide again.
	Next ActionKind = "next"
	// Stop: the step ends here.
	Stop ActionKind = "stop"
	// Again: the same question goes on, nothing is counted.
	Again ActionKind = "again"
	// Retry: ask anew, at most Action.Retries times, then Action.Then.
	Retry ActionKind = "retry"
)

// Action is what the host does after an outcome. Retries and Then are set
// only when Kind is Retry.
type Action struct {
	Kind    ActionKind `json:"kind"`
	Retries int        `json:"retries,omitempty"`
	Then    ActionKind `json:"then,omitempty"`
}

// reaction is the answer to one outcome, with and without a person in the route.
type reaction struct{ person, other Action }

func always(a Action) reaction { return reaction{person: a, other: a} }

// outcomes lists the outcomes `on` may name and what each may lead to. A
// person's no always stops: no route may undo it. Asking on is for questions
// that are still open.
var outcomes = map[Outcome][]ActionKind{
	Unavailable: {Next, Stop, Retry},
	Errored:     {Next, Stop, Retry},
	Invalid:     {Next, Stop, Retry},
	Declined:    {Stop},
	TimedOut:    {Next, Stop, Again, Retry},
	Abandoned:   {Next, Stop, Again, Retry},
	Exhausted:   {Next, Stop},
}

// defaultReactions are used for outcomes that `on` leaves out.
func defaultReactions() map[Outcome]reaction {
	return map[Outcome]reaction{
		Unavailable: always(Action{Kind: Next}),
		Errored:     always(Action{Kind: Next}),
		Invalid:     always(Action{Kind: Retry, Retries: 1, Then: Next}),
		Declined:    always(Action{Kind: Stop}),
		TimedOut:    {person: Action{Kind: Again}, other: Action{Kind: Next}},
		Abandoned:   always(Action{Kind: Next}),
		Exhausted:   always(Action{Kind: Next}),
	}
}

// On says what follows when a route ends with an outcome: what the route says,
// else its driver, else the tree. An outcome that is none of the constants stops.
// Of the route only Path, Via and Human count.
func (t *Tree) On(at Route, o Outcome) Action {
	var own map[Outcome]reaction
	if r := t.routes[at.Path]; r != nil && r.Via == at.Via {
		own = r.reactions
	}
	return actionOf(o, at.Human, own, t.ofDrivers[at.Via], t.reactions)
}

// actionOf is the action of the first that has a reaction to the outcome.
func actionOf(o Outcome, human bool, from ...map[Outcome]reaction) Action {
	for _, reactions := range from {
		switch r, ok := reactions[o]; {
		case ok && human:
			return r.person
		case ok:
			return r.other
		}
	}
	return Action{Kind: Stop}
}
