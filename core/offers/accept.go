package offers

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/kairos-mcp/kairos/core/acceptances"
	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// On names a protocol as it is stored now, or as a run has it.
type On struct {
	URI string // of any step; empty: that of Run
	Run run.ID // what is accepted is for this run only; empty: for every run
}

// Actable says which steps drivers could do themselves.
func (o *Offers) Actable(ctx context.Context, c access.Caller, on On) (Offer, error) {
	chain, r, err := o.on(ctx, c, on)
	if err != nil {
		return Offer{}, err
	}
	setup, release := o.setups.Hold()
	defer release()
	return o.Of(ctx, setup, chain, r, driver.Client{})
}

// on is the protocol that is meant, whose space the caller may change, and the
// run, if one is named.
func (o *Offers) on(ctx context.Context, c access.Caller, on On) (chain protocol.Chain, r run.Run, err error) {
	if on.URI != "" {
		// What is deleted, or replaced by another version, cannot be begun, so there is nothing to accept.
		var absent error
		if chain, absent, err = o.library.ChainOf(ctx, c, on.URI); err != nil || absent != nil {
			return chain, r, cmp.Or(err, absent)
		}
	}
	if on.Run != "" {
		change, err := o.runs.Open(ctx, c, on.Run)
		switch {
		case err != nil:
			return chain, r, err
		case on.URI != "" && chain.ID != change.Chain.ID:
			return chain, r, fault.New(fault.InvalidArgument, "run %s is of the protocol %q, not of %q: nothing was accepted", on.Run, change.Chain.Title, chain.Title)
		case !change.Run.State.Live():
			return chain, r, fault.New(fault.InvalidArgument, "run %s has ended, so nothing can be accepted in it", on.Run).
				WithHint("`kairos accept PROTOCOL` accepts the stored version of a protocol for every run")
		}
		chain, r = change.Chain, change.Run
	}
	if !slices.Contains(c.Writable(), chain.Space) {
		return chain, r, fault.New(fault.NotFound, "%q is in %s, which is not yours: nothing can be accepted there", chain.Title, chain.Space)
	}
	return chain, r, nil
}

// AcceptInput says what the operator accepts of an offer that was shown.
type AcceptInput struct {
	Offer
	Steps []int // 1-based; empty: every step that a driver could do
	// LooksOnly: drivers may look, and change nothing. Steps that would are left out.
	LooksOnly bool
	By        string
}

// Accept keeps what the operator accepts: for the run of the offer, or for every run of its
// version. Only what stands at the server's own terminal or operator socket, or a logged-in
// person, may call it: never an agent.
func (o *Offers) Accept(ctx context.Context, c access.Caller, in AcceptInput) ([]acceptances.Acceptance, error) {
	if err := in.Check(); err != nil {
		return nil, err
	}
	var all []acceptances.Acceptance
	for _, s := range in.Offer.Steps {
		if !in.Takes(s) {
			continue
		}
		a := in.acceptance(s, in.By)
		a.Run = in.Run
		if in.LooksOnly {
			a.Effect = driver.EffectReads
		}
		all = append(all, a)
	}
	return o.acceptances.Record(ctx, c, all)
}

// Takes reports whether the step is among what is accepted.
func (in AcceptInput) Takes(s Step) bool {
	return s.Cannot == "" && (len(in.Steps) == 0 || slices.Contains(in.Steps, s.Step)) && (!in.LooksOnly || s.Effect != driver.EffectChanges)
}

// Check refuses steps that cannot be accepted.
func (in AcceptInput) Check() error {
	o := in.Offer
	for _, n := range in.Steps {
		i := slices.IndexFunc(o.Steps, func(s Step) bool { return s.Step == n })
		switch {
		case n < 1 || n > o.Total:
			return fault.New(fault.InvalidArgument, "there is no step %d: %q has %d; nothing was accepted", n, o.Title, o.Total)
		case i < 0 || o.Steps[i].Cannot != "":
			return fault.New(fault.InvalidArgument, "no driver could do step %d of %q itself; nothing was accepted", n, o.Title).WithHint("%s", o.actable())
		case !in.Takes(o.Steps[i]):
			return fault.New(fault.InvalidArgument, "step %d of %q would change something, so looks alone cannot be accepted of it; nothing was accepted", n, o.Title)
		}
	}
	switch {
	case slices.ContainsFunc(o.Steps, in.Takes):
		return nil
	case o.Could() > 0:
		return fault.New(fault.InvalidArgument, "each step of %q that a driver could do would change something, so looks alone cannot be accepted", o.Title)
	case len(o.Steps) > 0:
		return fault.New(fault.InvalidArgument, "no driver could do a step of %q itself", o.Title).WithHint("%s", o.actable())
	}
	return fault.New(fault.InvalidArgument, "no driver could do a step of %q itself, so there is nothing to accept", o.Title).
		WithHint("the decision tree has to lead to a driver with the feature %s: `kairos driver list` shows the drivers, `kairos tree show` the tree", driver.FeaturePreview)
}

// actable tells the operator which steps drivers could do, and which not.
func (o Offer) actable() string {
	could, not := "", ""
	for _, s := range o.Steps {
		if s.Cannot == "" {
			could += fmt.Sprintf(" %d (%s)", s.Step, s.Label)
		} else {
			not += fmt.Sprintf("; not %d (%s), because driver %s says: %s", s.Step, s.Label, s.Driver, s.Cannot)
		}
	}
	if could == "" {
		return "no step of it can be done by a driver" + not
	}
	return "drivers could do" + could + not
}
