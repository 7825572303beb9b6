package decision

// ActionKind is what the host does after an outcome.
type ActionKind string

// The kinds of action.
const (
	// Next: this route is finished, decide again.
	Next ActionKind = "next"
	// Stop: the step ends here.
	Stop ActionKind = "stop"
	// Again: the same question stays open and no attempt is counted.
	Again ActionKind = "again"
	// Retry: ask again, at most Action.Retries times, then Action.Then.
	Retry ActionKind = "retry"
)

// Action is what the host does after an outcome. Retries and Then are set
// only when Kind is Retry.
type Action struct {
	Kind    ActionKind `json:"kind"`
	Retries int        `json:"retries,omitempty"`
	Then    ActionKind `json:"then,omitempty"`
}

// reaction holds the actions for one outcome, with and without a person in the route.
type reaction struct{ person, other Action }

func always(a Action) reaction { return reaction{person: a, other: a} }

// outcomes lists the outcomes that `on` may name, with the allowed actions. A
// decline always stops: no route may undo it. Again is only for questions that
// are still open.
var outcomes = map[Outcome][]ActionKind{
	Unavailable: {Next, Stop, Retry},
	Errored:     {Next, Stop, Retry},
	Invalid:     {Next, Stop, Retry},
	Declined:    {Stop},
	TimedOut:    {Next, Stop, Again, Retry},
	Abandoned:   {Next, Stop, Again, Retry},
	Exhausted:   {Next, Stop},
}

// defaultReactions apply to outcomes that `on` does not name.
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

// On returns the action after an outcome of a route: that of the route, else of
// its driver, else of the tree. An unknown outcome stops. On reads only Path, Via
// and Human of the route.
func (t *Tree) On(at Route, o Outcome) Action {
	var own map[Outcome]reaction
	if r := t.routes[at.Path]; r != nil && r.Via == at.Via {
		own = r.reactions
	}
	return actionOf(o, at.Human, own, t.ofDrivers[at.Via], t.reactions)
}

// actionOf returns the action of the first set with a reaction to the outcome.
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
