package runs

import (
	"context"

	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// Handover is told where runs stand, so that somebody else can continue them.
type Handover interface {
	// Moved: a change of the run is stored. It is called for one change of a run
	// after the other, must return at once, and cannot fail.
	Moved(Standing)
}

// Standing is where a run stands, as far as it may be told outside the
// database: no nonces, no evidence, nothing that anybody answered.
type Standing struct {
	Run run.Summary
	URI string // of the protocol's first step
	// Step is the name of the open step; empty when all are solved.
	Step   string
	Solved []SolvedName
}

// SolvedName is a step that is solved, and who vouches for it.
type SolvedName struct {
	Name       string
	Provenance driver.Provenance
}

func standingOf(r run.Run, chain protocol.Chain) Standing {
	s := Standing{Run: r.Summary(), URI: protocol.URI(chain.Steps[0].UUID)}
	for i, p := range r.Proofs {
		s.Solved = append(s.Solved, SolvedName{Name: chain.Steps[i].Name, Provenance: p.Provenance})
	}
	if i := r.Step.Index - 1; i < len(chain.Steps) {
		s.Step = chain.Steps[i].Name
	}
	return s
}

// moved tells that a change of the run is stored.
func (k *Keeper) moved(r run.Run, chain protocol.Chain) {
	if k.opt.Handover != nil {
		k.opt.Handover.Moved(standingOf(r, chain))
	}
}

// Standing is where a run stands, whoever's it is: for the server itself. One
// whose time has passed counts as ended.
func (k *Keeper) Standing(ctx context.Context, id run.ID) (Standing, error) {
	r, err := k.Read(ctx, id)
	if err != nil {
		return Standing{}, err
	}
	chain, err := k.Pinned(ctx, r)
	if err != nil {
		return Standing{}, err
	}
	s := standingOf(r, chain)
	s.Run = k.AsOfNow(s.Run)
	return s, nil
}

// AsOfNow is the run as its next caller will find it.
func (k *Keeper) AsOfNow(s run.Summary) run.Summary {
	if s.State.Live() && k.Expired(s) {
		s.State, s.EndedBy = run.Ended, run.Expired
	}
	return s
}
