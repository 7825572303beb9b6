// Package acceptances keeps what operators, and people in a run, accept that drivers do for
// the steps of a protocol. The text of a protocol is never a permission: agents can mint
// protocols.
package acceptances

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/audit"
	"github.com/kairos-mcp/kairos/core/clock"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// Acceptance lets a driver act for one step of one version of a protocol.
type Acceptance struct {
	ID    string `json:"id"` // UUIDv7; another one each time that the same is accepted
	Space string `json:"space"`
	// Protocol is the version's protocol.Chain.ContentDigest: an edited protocol
	// asks again.
	Protocol string `json:"protocol"`
	Title    string `json:"title"`
	// Chain is the protocol's id, which all its versions have.
	Chain  string `json:"chain"`
	Step   int    `json:"step"` // 1-based
	Label  string `json:"label"`
	Driver string `json:"driver"`
	// Effect is the most that the driver may do: EffectReads, or EffectChanges.
	Effect driver.Effect `json:"effect"`
	// Run is the only run that it is for. If it is empty it is for every run of the version.
	Run run.ID `json:"run,omitempty"`
	// By is who accepted it.
	By string    `json:"by"`
	At time.Time `json:"at"`
}

// Covers reports whether the acceptance is for this call of a driver.
func (a Acceptance) Covers(id run.ID, step int, driverName string, e driver.Effect) bool {
	return a.Step == step && a.Driver == driverName && (a.Run == "" || a.Run == id) &&
		(a.Effect == driver.EffectChanges || e == driver.EffectReads)
}

// Store keeps acceptances: one for each space, version, run, step and driver. Its methods
// are called concurrently.
type Store interface {
	// SaveAcceptances keeps all of them or none, each in place of an earlier one of the same.
	SaveAcceptances(ctx context.Context, all []Acceptance) error
	// Acceptances lists those of the spaces, the newest first.
	Acceptances(ctx context.Context, spaces []string) ([]Acceptance, error)
	// AcceptancesFor lists those for a version of a protocol in a space that count in a
	// run, the newest first. Without a run it lists those for every run.
	AcceptancesFor(ctx context.Context, space, protocol string, id run.ID) ([]Acceptance, error)
	// RemoveAcceptance removes one and reports whether it was there.
	RemoveAcceptance(ctx context.Context, spaces []string, id string) (bool, error)
}

// Acceptances is what was accepted. Its methods may be called concurrently.
type Acceptances struct {
	store Store
	audit *audit.Log
	clock *clock.Clock
}

// New returns the acceptances of a store. What is accepted and revoked is audited; nil clock:
// this machine's.
func New(store Store, log *audit.Log, c *clock.Clock) *Acceptances {
	return &Acceptances{store: store, audit: log, clock: cmp.Or(c, clock.System())}
}

// Kept reports whether acceptances can be kept at all.
func (k *Acceptances) Kept() bool { return k.store != nil }

// maxPerCall bounds how many steps are accepted at once; no protocol has more.
const maxPerCall = 1000

// Record keeps acceptances, all of which are for the caller's own spaces. Each takes the
// place of an earlier one of the same. It fills in their ids and times.
func (k *Acceptances) Record(ctx context.Context, c access.Caller, all []Acceptance) (_ []Acceptance, err error) {
	if k.store == nil {
		return nil, fault.New(fault.StoreFailed, "this server keeps no acceptances")
	}
	if len(all) == 0 || len(all) > maxPerCall {
		return nil, fault.New(fault.InvalidArgument, "%d steps cannot be accepted at once: 1 to %d can", len(all), maxPerCall)
	}
	doing, err := k.audit.Begin(ctx, c, audit.Act{Action: audit.AcceptanceRecord, Space: all[0].Space, Object: all[0].Chain, Details: detailsOf(all)})
	if err != nil {
		return nil, err
	}
	defer doing.End(&err)
	all = slices.Clone(all)
	for i := range all {
		a := &all[i]
		a.ID, a.At = k.clock.NewID(), k.clock.Now().UTC()
		if !slices.Contains(c.Writable(), a.Space) {
			return nil, fault.New(fault.NotFound, "%q is not a space that you may change, so nothing was accepted in it", a.Space)
		}
		if a.Protocol == "" || a.Step < 1 || a.Driver == "" || a.By == "" || (a.Effect != driver.EffectReads && a.Effect != driver.EffectChanges) {
			return nil, fault.New(fault.InvalidArgument, "an acceptance names a protocol, a step, a driver, an effect (%s or %s) and who accepted it", driver.EffectReads, driver.EffectChanges)
		}
	}
	if err := k.store.SaveAcceptances(ctx, all); err != nil {
		return nil, fmt.Errorf("keep what was accepted: %w", err)
	}
	return all, nil
}

// detailsOf is what the audit log says of those that are accepted at once: each step, with the
// driver and the most that it may do.
func detailsOf(all []Acceptance) map[string]string {
	var steps []string
	for _, a := range all {
		steps = append(steps, fmt.Sprintf("%d: %s %s", a.Step, a.Driver, a.Effect))
	}
	return map[string]string{"by": all[0].By, "run": string(all[0].Run), "digest": all[0].Protocol, "steps": strings.Join(steps, ", ")}
}

// Accepted lists the acceptances of the caller's spaces, the newest first.
func (k *Acceptances) Accepted(ctx context.Context, c access.Caller) ([]Acceptance, error) {
	if k.store == nil {
		return nil, nil
	}
	all, err := k.store.Acceptances(ctx, c.Writable())
	if err != nil {
		return nil, fmt.Errorf("list what was accepted: %w", err)
	}
	return all, nil
}

// Revoke takes an acceptance back. What is under way is not stopped.
func (k *Acceptances) Revoke(ctx context.Context, c access.Caller, id string) (err error) {
	doing, err := k.audit.Begin(ctx, c, audit.Act{Action: audit.AcceptanceRevoke, Anyway: true})
	if err != nil {
		return err
	}
	defer doing.End(&err)
	there, err := k.store.RemoveAcceptance(ctx, c.Writable(), id)
	if err != nil {
		return fmt.Errorf("revoke acceptance %s: %w", id, err)
	}
	if !there {
		return fault.New(fault.NotFound, "there is no acceptance %q in your spaces: `kairos accept list` shows them", id)
	}
	doing.On("", id)
	return nil
}

// Latest is what was accepted last for every run of a version of the protocol with that id.
func (k *Acceptances) Latest(ctx context.Context, space, chain string) (latest Acceptance, found bool, err error) {
	all, err := k.store.Acceptances(ctx, []string{space}) // the newest first
	if err != nil {
		return latest, false, fmt.Errorf("look up what was accepted before: %w", err)
	}
	for _, a := range all {
		if a.Chain == chain && a.Run == "" {
			return a, true, nil
		}
	}
	return latest, false, nil
}

// Covering lists the acceptances for a version of a protocol that count in a run, for the
// director. Without a run it lists those for every run.
func (k *Acceptances) Covering(ctx context.Context, space, digest string, id run.ID) ([]Acceptance, error) {
	all, err := k.store.AcceptancesFor(ctx, space, digest, id)
	if err != nil {
		return nil, fmt.Errorf("look up what was accepted: %w", err)
	}
	return all, nil
}
