package decision

import (
	"slices"

	"github.com/kairos-mcp/kairos/core/yamldoc"
)

// Condition is a `when` outside the tree. The zero value always holds.
type Condition struct{ when *condition }

// ReadCondition reads the member `when` of an entry that errors name so, and notes what is
// wrong with it in the document.
func ReadCondition(doc *yamldoc.Document, fields map[string]yamldoc.Entry, named string) Condition {
	return Condition{readCondition(doc, fields, named)}
}

// Holds evaluates the condition. An error means that it could not be evaluated.
func (c Condition) Holds(f Facts) (bool, error) {
	if c.when == nil {
		return true, nil
	}
	env, err := conditionEnv()
	if err != nil {
		return false, err
	}
	return c.when.holds(&bindings{facts: &f, adapter: env.CELTypeAdapter()})
}

// Source is the text of the condition; empty if there is none.
func (c Condition) Source() string {
	if c.when == nil {
		return ""
	}
	return c.when.source
}

// Reads reports whether the condition reads the fact at the path, one below it or all above it.
func (c Condition) Reads(path ...string) bool {
	return c.when != nil && slices.ContainsFunc(c.when.looksAt, func(looked factPath) bool {
		short := min(len(looked), len(path))
		return slices.Equal(looked[:short], path[:short])
	})
}

// ReadsChosen names a fact that the caller of a run chooses and the condition reads;
// empty: none.
func (c Condition) ReadsChosen() string {
	for _, fact := range []string{"client", "solution", "previous"} {
		if c.Reads(fact) {
			return fact
		}
	}
	return ""
}

// ReadsRun reports whether the condition reads what is known only in a run.
func (c Condition) ReadsRun() bool {
	return c.Reads("run") || c.Reads("caller") || c.Reads("config") || c.Reads("step", "accepted")
}

// Spaces are the names with which the condition compares protocol.space.
func (c Condition) Spaces() []string {
	if c.when == nil {
		return nil
	}
	return c.when.spaces
}

// Spaces are the names with which conditions of the tree compare protocol.space.
func (t *Tree) Spaces() (names []string) {
	for _, c := range t.conditions() {
		names = append(names, Condition{c}.Spaces()...)
	}
	return names
}
