package drivers

import (
	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/rules"
)

// Setup is what a run is driven with: drivers, tree, rules and settings that belong
// together.
type Setup struct {
	Drivers Finder
	Tree    *decision.Tree
	// Rules are what must hold; nil: nothing.
	Rules *rules.Set
	// Settings are the facts that conditions see as `config`.
	Settings decision.ConfigFacts
	// How are the ways of approving that the operator takes, as drivers name them. The
	// default is DefaultHow.
	How []string
	// Realm is that of groups which are written without one. Empty: nobody can log in.
	Realm string
}

// Ways are the ways of approving that the operator takes.
func (s Setup) Ways() []string {
	if s.How == nil {
		return DefaultHow()
	}
	return s.How
}

// Setups gives the present setup, which may be another one at every call.
type Setups interface {
	// Hold returns the present setup. It can be used until release, which is
	// called exactly once. Hold does not wait and is called concurrently.
	Hold() (s Setup, release func())
}
