package access

import (
	"slices"

	"github.com/kairos-mcp/kairos/core/fault"
)

// Verb is what a caller may do.
type Verb string

// The verbs.
const (
	// Read is to find and read what a space has. Run and Write include it.
	Read Verb = "read"
	// Run is to begin runs of a space's protocols, and to continue them.
	Run Verb = "run"
	// Write is to store, change and delete a space's protocols.
	Write Verb = "write"
	// Operate is to do what is the operator's of the server, whatever the space.
	Operate Verb = "operate"
)

// needs says which verb each use case needs: the first three in the space of the protocol.
// Runs besides are their owners' (Caller.Oversees). It is the one place that says so.
var needs = map[string]Verb{
	"kairos_search": Read,
	"kairos_begin":  Run,
	"kairos_next":   Run,
	"kairos_attest": Run,
	"kairos_mint":   Write,
	"kairos_update": Write,
	"kairos_delete": Write,
	"kairos_dump":   Read,
	"kairos_spaces": Read,

	"runs_list":        Read,
	"runs_show":        Read,
	"runs_page":        Read,
	"runs_resume":      Run,
	"runs_abandon":     Run,
	"runs_cancel":      Run,
	"runs_decide":      Operate,
	"runs_export":      Read,
	"runs_key":         Read,
	"protocol_history": Read,
	"protocol_version": Read,
	"protocol_restore": Write,
	"doctor":           Read,
	"spaces_create":    Operate,
}

// Needs is the verb that a use case needs. What is not in the table is the operator's.
func Needs(useCase string) Verb {
	if v, ok := needs[useCase]; ok {
		return v
	}
	return Operate
}

// Verbs are the verbs of a caller in a space, besides reading it.
type Verbs struct{ Run, Write bool }

func (v Verbs) has(one Verb) bool { return one == Run && v.Run || one == Write && v.Write }

// Grant is a space in which a caller may do what the operator's configuration says.
type Grant struct {
	Space string
	Verbs
}

// May reports whether the caller may do what the verb says in the space. Everybody may run the
// built-in protocols, and nobody may change them.
func (c Caller) May(v Verb, space string) bool {
	if v == Operate {
		return c.Operator
	}
	if v == Read {
		return c.Reads(space)
	}
	return c.in(space).has(v) && (c.Narrowed == nil || c.Narrowed.has(v))
}

// Oversees reports whether the caller may look at a run of the principal, whose protocol is in
// the space, end it and erase values of it: its own, as long as it reads the space, and as an
// operator everybody's. Nobody but its principal continues a run.
func (c Caller) Oversees(principal, space string) bool {
	return c.May(Operate, "") || c.Principal == principal && c.Reads(space)
}

// in are the caller's verbs in a space, before they are narrowed.
func (c Caller) in(space string) Verbs {
	if space == AppSpace {
		return Verbs{Run: true}
	}
	var may Verbs
	if space != "" && (space == c.Space || slices.Contains(c.Groups, space)) {
		may = Verbs{Run: true, Write: true}
	}
	for _, g := range c.Granted {
		if g.Space == space {
			may = Verbs{may.Run || g.Run, may.Write || g.Write}
		}
	}
	return may
}

// Only returns the caller with one of its spaces alone, and AppSpace, so that it is not an
// operator; false: it does not read that space.
func (c Caller) Only(space string) (Caller, bool) {
	if !c.Reads(space) {
		return c, false
	}
	may := c.in(space)
	c.Space, c.Groups, c.Granted, c.Operator = space, nil, nil, false
	if may != (Verbs{Run: true, Write: true}) { // then it is not its own
		c.Space, c.Granted = "", []Grant{{space, may}}
	}
	return c, true
}

// Check refuses a use case that the caller may not make in a space that it reads, or anywhere
// if the use case is the operator's. The error has the code fault.Forbidden and says what the
// caller lacks.
func (c Caller) Check(useCase, space string) error {
	v := Needs(useCase)
	switch {
	case c.May(v, space):
		return nil
	case v == Operate:
		return fault.New(fault.Forbidden, "%s is the operator's: it needs to be one of operators in the server's configuration", useCase).
			With("needs", v).WithNext("tell the user that only an operator of the server can do this")
	case c.in(space).has(v): // so it is narrowed
		return fault.New(fault.Forbidden, "%s needs the right to %s in %s, and this token was made without it", useCase, v, space).
			With("needs", v).With("space", space).WithNext("tell the user that this token cannot do it, and which right it lacks").
			WithHint("make a token with `kairos token create --may %s`", v)
	}
	return fault.New(fault.Forbidden, "%s needs the right to %s in %s, and you may not", useCase, v, space).
		With("needs", v).With("space", space).WithNext("tell the user which right is missing; work in another space that kairos_spaces lists does not need it").
		WithHint("ask the operator to put you, or a group of yours, into spaces.%s of the configuration", v)
}
