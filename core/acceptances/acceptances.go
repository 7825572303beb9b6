// Package acceptances keeps what people allow drivers to do for a step of a protocol.
// The text of a protocol is never a permission: agents can mint protocols.
package acceptances

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/clock"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// Acceptance allows a driver to act for one step of one version of a protocol.
type Acceptance struct {
	ID    string `json:"id"` // UUIDv7
	Space string `json:"space"`
	// Protocol is the version's protocol.Chain.ContentDigest: an edited protocol
	// asks again.
	Protocol string `json:"protocol"`
	Title    string `json:"title"`
	// Chain is the protocol's id, which all its versions have; empty in grants of
	// earlier versions of KAIROS.
	Chain  string `json:"chain,omitempty"`
	Step   int    `json:"step"` // 1-based
	Label  string `json:"label"`
	Driver string `json:"driver"`
	// Effect is the most that the driver may do: EffectReads, or EffectEffects.
	Effect driver.Effect `json:"effect"`
	// Run is the only run that it is for. If it is empty it is for every run of the version.
	Run run.ID `json:"run,omitempty"`
	// By is who granted it.
	By string    `json:"by"`
	At time.Time `json:"at"`
}

// Covers reports whether the grant is for this call of a driver.
func (g Acceptance) Covers(id run.ID, step int, driverName string, e driver.Effect) bool {
	return g.Step == step && g.Driver == driverName && (g.Run == "" || g.Run == id) &&
		(g.Effect == driver.EffectEffects || e == driver.EffectReads)
}

// Store keeps grants. Its methods are called concurrently.
type Store interface {
	// SaveAcceptances keeps all of them or none.
	SaveAcceptances(ctx context.Context, all []Acceptance) error
	// Acceptances lists those of the spaces, the newest first.
	Acceptances(ctx context.Context, spaces []string) ([]Acceptance, error)
	// AcceptancesFor lists those for a version of a protocol in a space.
	AcceptancesFor(ctx context.Context, space, protocol string) ([]Acceptance, error)
	// RemoveAcceptance removes one and reports whether it was there.
	RemoveAcceptance(ctx context.Context, spaces []string, id string) (bool, error)
}

// Acceptances is what people allowed. Its methods may be called concurrently.
type Acceptances struct {
	store Store
	clock *clock.Clock
}

// New returns the grants of a store; nil clock: this machine's.
func New(store Store, c *clock.Clock) *Acceptances {
	return &Acceptances{store: store, clock: cmp.Or(c, clock.System())}
}

// Kept reports whether grants can be kept at all.
func (g *Acceptances) Kept() bool { return g.store != nil }

// maxPerCall bounds how many steps are allowed at once; no protocol has more.
const maxPerCall = 1000

// Record keeps acceptances, all of which are for the caller's own spaces. It fills in
// their ids and times.
func (g *Acceptances) Record(ctx context.Context, c access.Caller, all []Acceptance) ([]Acceptance, error) {
	if g.store == nil {
		return nil, fault.New(fault.StoreFailed, "this server keeps no grants")
	}
	if len(all) == 0 || len(all) > maxPerCall {
		return nil, fault.New(fault.InvalidArgument, "%d steps cannot be allowed at once: 1 to %d can", len(all), maxPerCall)
	}
	all = slices.Clone(all)
	for i := range all {
		w := &all[i]
		w.ID, w.At = g.clock.NewID(), g.clock.Now().UTC()
		if !slices.Contains(c.Writable(), w.Space) {
			return nil, fault.New(fault.NotFound, "%q is not a space that you may change, so nothing was allowed in it", w.Space)
		}
		if w.Protocol == "" || w.Step < 1 || w.Driver == "" || w.By == "" || (w.Effect != driver.EffectReads && w.Effect != driver.EffectEffects) {
			return nil, fault.New(fault.InvalidArgument, "a grant names a protocol, a step, a driver, an effect (%s or %s) and who gave it", driver.EffectReads, driver.EffectEffects)
		}
	}
	if err := g.store.SaveAcceptances(ctx, all); err != nil {
		return nil, fmt.Errorf("keep what was allowed: %w", err)
	}
	return all, nil
}

// Accepted lists the acceptances of the caller's spaces, the newest first.
func (g *Acceptances) Accepted(ctx context.Context, c access.Caller) ([]Acceptance, error) {
	all, err := g.store.Acceptances(ctx, c.Writable())
	if err != nil {
		return nil, fmt.Errorf("list what was allowed: %w", err)
	}
	return all, nil
}

// Revoke takes a grant back. What is under way is not stopped.
func (g *Acceptances) Revoke(ctx context.Context, c access.Caller, id string) error {
	there, err := g.store.RemoveAcceptance(ctx, c.Writable(), id)
	if err != nil {
		return fmt.Errorf("revoke grant %s: %w", id, err)
	}
	if !there {
		return fault.New(fault.NotFound, "there is no grant %q in your spaces: `kairos grants list` shows them", id)
	}
	return nil
}

// Latest is the grant that was given last for every run of a version of the protocol with
// that id.
func (g *Acceptances) Latest(ctx context.Context, space, chain string) (latest Acceptance, found bool, err error) {
	all, err := g.store.Acceptances(ctx, []string{space}) // the newest first
	if err != nil {
		return latest, false, fmt.Errorf("look up what was allowed before: %w", err)
	}
	for _, one := range all {
		if one.Chain == chain && one.Run == "" {
			return one, true, nil
		}
	}
	return latest, false, nil
}

// Covered lists the grants for a version of a protocol, for the director.
func (g *Acceptances) Covered(ctx context.Context, space, digest string) ([]Acceptance, error) {
	all, err := g.store.AcceptancesFor(ctx, space, digest)
	if err != nil {
		return nil, fmt.Errorf("look up what was allowed: %w", err)
	}
	return all, nil
}
