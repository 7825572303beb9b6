package engine

import "github.com/kairos-mcp/kairos/core/decision"

// Setup is what a run is driven with: drivers, tree and settings that belong
// together.
type Setup struct {
	Drivers Drivers
	Tree    *decision.Tree
	// Settings are the facts that conditions see as `config`.
	Settings decision.ConfigFacts
}

// Setups gives the present setup, which may be another one at every call.
type Setups interface {
	// Hold returns the present setup. It can be used until release, which is
	// called exactly once. Hold does not wait and is called concurrently.
	Hold() (s Setup, release func())
}

// Fixed is a setup that never changes.
func Fixed(s Setup) Setups { return fixed(s) }

type fixed Setup

func (f fixed) Hold() (Setup, func()) { return Setup(f), func() {} }

// held is the engine with the setup that one use case holds from its start to
// its end, so that drivers and tree never change in the middle of a call.
type held struct {
	*Engine
	Setup
	deeds  *deeds
	judged *judged
}

// hold takes the present setup for one use case, which calls release when it
// ends. Use cases do not call each other, else one call could hold two setups.
func (e *Engine) hold() (h held, release func()) {
	s, letGo := e.setups.Hold()
	h = held{Engine: e, Setup: s, deeds: new(deeds), judged: new(judged)}
	return h, func() {
		h.unclaim()
		letGo()
	}
}
