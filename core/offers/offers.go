// Package offers finds out what drivers could do of a protocol themselves, and asks whether
// that is accepted. It does none of it: core/director calls the drivers.
package offers

import (
	"cmp"
	"context"
	"encoding/json"
	"time"

	"github.com/kairos-mcp/kairos/core/acceptances"
	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/drivers"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// Offer is what drivers could do of a protocol themselves, if it is accepted.
type Offer struct {
	Title    string `json:"title"`
	Space    string `json:"space"`
	Chain    string `json:"chain"`
	Protocol string `json:"protocol"` // protocol.Chain.ContentDigest
	Run      run.ID `json:"run,omitempty"`
	Steps    []Step `json:"steps"`
	Total    int    `json:"total"` // steps of the protocol
	// Earlier was accepted before the protocol was edited; nil: no version was.
	Earlier *Earlier `json:"earlier,omitempty"`
}

// Step is a step that a driver could do.
type Step struct {
	Step      int             `json:"step"` // 1-based
	Label     string          `json:"label"`
	Type      string          `json:"type"`
	Driver    string          `json:"driver"`
	Challenge json.RawMessage `json:"challenge"` // as written, with its templates
	// Plan says what the driver would do, as far as that is known before the run;
	// empty: it is not.
	Plan string `json:"plan,omitempty"`
	// Effect of that; empty: not known yet, so it may change something.
	Effect driver.Effect `json:"effect,omitempty"`
	// Cannot says why the driver could not do it as things are; empty: it could.
	Cannot string `json:"cannot,omitempty"`
	// Acceptance is the id of the acceptance that covers it already.
	Acceptance string `json:"acceptance,omitempty"`
}

// Could is how many of the steps drivers could do as things are.
func (o Offer) Could() int {
	n := 0
	for _, s := range o.Steps {
		if s.Cannot == "" {
			n++
		}
	}
	return n
}

// acceptance is that of the step, for every run of this version and for what its
// driver would do.
func (o Offer) acceptance(s Step, by string) acceptances.Acceptance {
	return acceptances.Acceptance{
		Space: o.Space, Chain: o.Chain, Protocol: o.Protocol, Title: o.Title, Step: s.Step, Label: s.Label, Driver: s.Driver,
		Effect: cmp.Or(s.Effect, driver.EffectChanges), By: by,
	}
}

// maxPreviews is how long the previews of all steps of a protocol may take together.
const maxPreviews = 30 * time.Second

// Offers are safe for concurrent use.
type Offers struct {
	library     *library.Library
	runs        *runs.Keeper
	acceptances *acceptances.Acceptances
	protocols   Protocols
	setups      drivers.Setups
}

// Protocols reads stored protocols and their versions.
type Protocols struct {
	library.Protocols
	library.ProtocolHistory
}

// New returns the offers of protocols and runs.
func New(l *library.Library, k *runs.Keeper, kept *acceptances.Acceptances, p Protocols, setups drivers.Setups) *Offers {
	return &Offers{library: l, runs: k, acceptances: kept, protocols: p, setups: setups}
}

// Of asks the drivers which steps they could do themselves. Without a run r is
// empty; what it knows is filled in.
func (o *Offers) Of(ctx context.Context, u drivers.Setup, chain protocol.Chain, r run.Run, client driver.Client) (Offer, error) {
	digest, err := chain.ContentDigest()
	if err != nil {
		return Offer{}, err
	}
	all, err := o.acceptances.Covering(ctx, chain.Space, digest, r.ID)
	if err != nil {
		return Offer{}, err
	}
	earlier, err := o.changedSince(ctx, chain, digest)
	if err != nil {
		return Offer{}, err
	}
	previews, cancel := context.WithTimeout(ctx, maxPreviews)
	defer cancel()
	offer := Offer{Earlier: earlier, Title: chain.Title, Space: chain.Space, Chain: chain.ID, Protocol: digest, Run: r.ID, Steps: []Step{}, Total: len(chain.Steps)}
	scope := runs.Scope(r, chain)
	for i, step := range chain.Steps {
		common, err := protocol.CommonOf(step.Challenge)
		if err != nil || step.Challenge == nil {
			continue
		}
		common.Type = u.TypeOf(step)
		known, err := protocol.FillKnown(step.Challenge, step.Templates, scope)
		if err != nil {
			known = step.Challenge // the step will say what is wrong with the value
		}
		k := &input.Task{Step: step, Challenge: known, Common: common, Where: driver.Step{
			Protocol: chain.Title, Label: step.Heading(), Index: i + 1, Count: len(chain.Steps),
		}}
		if a, ok := First(previews, u, k, client); ok {
			for _, accepted := range all {
				// Where the effect is not known yet, the run says what it needs.
				if accepted.Covers(r.ID, a.Step, a.Driver, cmp.Or(a.Effect, driver.EffectReads)) {
					a.Acceptance = accepted.ID
				}
			}
			offer.Steps = append(offer.Steps, a)
		}
	}
	return offer, nil
}

// First is what the first driver that could do the step would do, or else the first
// that could not; false: the tree leads to none.
func First(ctx context.Context, u drivers.Setup, k *input.Task, client driver.Client) (first Step, found bool) {
	var in *driver.Input
	for _, name := range actors(u, k) {
		if in == nil {
			asked := askedFor(ctx, u, k, client)
			in = &asked
		}
		a := Step{Step: k.Where.Index, Label: k.Step.Heading(), Type: k.Common.Type, Driver: name, Challenge: k.Step.Challenge}
		previewed(ctx, u, &a, driver.PreviewRequest{Input: *in, Step: k.Where, Client: client})
		if a.Cannot == "" {
			return a, true
		}
		if !found {
			first, found = a, true
		}
	}
	return first, found
}

// actors names the drivers that the tree may have act for the step.
func actors(u drivers.Setup, k *input.Task) (names []string) {
	for _, via := range u.Tree.EvidenceVia(drivers.ChallengeFacts(k.Step.Name, k.Common, k.Challenge)) {
		if desc, _, _ := u.Drivers.Describe(via); desc.Has(driver.FeaturePreview) {
			names = append(names, via)
		}
	}
	return names
}

// askedFor is the evidence that the step's challenge asks for, with the templates
// whose values are not known before the step is open.
func askedFor(ctx context.Context, u drivers.Setup, k *input.Task, client driver.Client) driver.Input {
	var written map[string]json.RawMessage
	_ = json.Unmarshal(k.Challenge, &written) // was an object when the protocol was stored
	asked := driver.Input{ID: input.EvidenceKind.Name, Kind: input.EvidenceKind.Name, Type: k.Common.Type, Display: written[k.Common.Type]}
	facts := decision.Facts{Challenge: drivers.ChallengeFacts(k.Step.Name, k.Common, k.Challenge), Config: u.Settings}
	use := u.Tree.Decide(input.EvidenceKind.Name, facts).Use
	drv, ok := u.Drivers.Challenge(use)
	if desc, _, _ := u.Drivers.Describe(use); !ok || desc.Effect != driver.EffectPure {
		return asked
	}
	res, err := drv.Advance(ctx, driver.AdvanceRequest{Challenge: k.Challenge, Step: k.Where, Client: client})
	if err != nil {
		return asked
	}
	for _, in := range res.NeedInput {
		if input.Of(in.Kind).Evidence {
			return input.Prompted(in, k)
		}
	}
	return asked
}

// previewed asks the driver what it would do.
func previewed(ctx context.Context, u drivers.Setup, a *Step, req driver.PreviewRequest) {
	drv, ok := u.Drivers.Capability(a.Driver, 0)
	previewer, able := drv.(driver.Previewer)
	if !ok || !able {
		a.Cannot = "it is not configured"
		return
	}
	switch res, err := previewer.Preview(ctx, req); {
	case err != nil:
		a.Cannot = plain.Clip(err.Error(), 500)
	case res.Unavailable != nil:
		a.Cannot = plain.Clip(res.Unavailable.Reason, 500)
	case res.Plan != nil:
		a.Plan, a.Effect = res.Plan.Text, res.Plan.Effect
	}
}
