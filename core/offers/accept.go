package offers

import (
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
	Run run.ID
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
	if on.Run != "" {
		change, err := o.runs.Open(ctx, c, on.Run)
		if err != nil {
			return chain, r, err
		}
		chain, r = change.Chain, change.Run
	} else if chain, _, err = o.library.ChainOf(ctx, c, on.URI); err != nil {
		return chain, r, err
	}
	if !slices.Contains(c.Writable(), chain.Space) {
		return chain, r, fault.New(fault.NotFound, "%q is in %s, which is not yours: nothing can be allowed there", chain.Title, chain.Space)
	}
	return chain, r, nil
}

// AcceptInput says what a person allows.
type AcceptInput struct {
	On
	Steps []int // 1-based; empty: every step that a driver could do
	// Once: for this run only, which On names.
	Once bool
	// Looks: drivers may look, and change nothing.
	Looks bool
	By    string
}

// Accept keeps what a person allows. Only what stands at the server's own
// terminal, or a logged-in person, may call it: never an agent.
func (o *Offers) Accept(ctx context.Context, c access.Caller, in AcceptInput) ([]acceptances.Acceptance, error) {
	if in.Once && in.Run == "" {
		return nil, fault.New(fault.InvalidArgument, "once means one run: name the run")
	}
	offer, err := o.Actable(ctx, c, in.On)
	if err != nil {
		return nil, err
	}
	var all []acceptances.Acceptance
	for _, s := range offer.Steps {
		if s.Cannot != "" || len(in.Steps) > 0 && !slices.Contains(in.Steps, s.Step) {
			continue
		}
		g := offer.acceptance(s, in.By)
		if in.Looks {
			g.Effect = driver.EffectReads
		}
		if in.Once {
			g.Run = in.Run
		}
		all = append(all, g)
	}
	for _, step := range in.Steps {
		if !slices.ContainsFunc(all, func(g acceptances.Acceptance) bool { return g.Step == step }) {
			return nil, fault.New(fault.InvalidArgument, "no driver could do step %d of %q itself", step, offer.Title).
				WithHint("%s", actable(offer))
		}
	}
	switch {
	case len(all) == 0 && len(offer.Steps) > 0:
		return nil, fault.New(fault.InvalidArgument, "no driver could do a step of %q itself", offer.Title).WithHint("%s", actable(offer))
	case len(all) == 0:
		return nil, fault.New(fault.InvalidArgument, "no driver could do a step of %q itself", offer.Title).
			WithHint("the decision tree has to lead to a driver with the feature %s: `kairos driver list` shows the drivers, `kairos tree show` the tree", driver.FeaturePreview)
	}
	return o.acceptances.Record(ctx, c, all)
}

func actable(offer Offer) string {
	could, not := "", ""
	for _, s := range offer.Steps {
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
