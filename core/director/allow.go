package director

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/drivers"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/grants"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// ActsOn names a protocol as it is stored now, or as a run has it.
type ActsOn struct {
	URI string // of any step; empty: that of Run
	Run run.ID
}

// Acts is what drivers could do of a protocol themselves, if a person allows it.
type Acts struct {
	Title    string    `json:"title"`
	Space    string    `json:"space"`
	Protocol string    `json:"protocol"` // protocol.Chain.ContentDigest
	Run      run.ID    `json:"run,omitempty"`
	Steps    []ActStep `json:"steps"`
	Total    int       `json:"total"` // steps of the protocol
}

// ActStep is a step that a driver could do.
type ActStep struct {
	Step      int             `json:"step"` // 1-based
	Label     string          `json:"label"`
	Type      string          `json:"type"`
	Driver    string          `json:"driver"`
	Challenge json.RawMessage `json:"challenge"` // as written, with its templates
	// Grant allows it already: its id.
	Grant string `json:"grant,omitempty"`
}

// Actable says which steps drivers could do themselves.
func (e *Engine) Actable(ctx context.Context, c access.Caller, on ActsOn) (Acts, error) {
	chain, err := e.actsOn(ctx, c, on)
	if err != nil {
		return Acts{}, err
	}
	digest, err := chain.ContentDigest()
	if err != nil {
		return Acts{}, err
	}
	all, err := e.Covered(ctx, chain.Space, digest)
	if err != nil {
		return Acts{}, err
	}
	h, release := e.hold()
	defer release()
	acts := Acts{Title: chain.Title, Space: chain.Space, Protocol: digest, Run: on.Run, Steps: []ActStep{}, Total: len(chain.Steps)}
	for i, step := range chain.Steps {
		for _, name := range h.actors(step) {
			a := ActStep{Step: i + 1, Label: step.Label, Type: h.TypeOf(step), Driver: name, Challenge: step.Challenge}
			for _, g := range all {
				if g.Covers(on.Run, a.Step, name, driver.EffectReads) {
					a.Grant = g.ID
				}
			}
			acts.Steps = append(acts.Steps, a)
		}
	}
	return acts, nil
}

// actsOn is the protocol that is meant, whose space the caller may change.
func (e *Engine) actsOn(ctx context.Context, c access.Caller, on ActsOn) (chain protocol.Chain, err error) {
	if on.Run != "" {
		change, err := e.runs.Open(ctx, c, on.Run)
		if err != nil {
			return chain, err
		}
		chain = change.Chain
	} else if chain, _, err = e.ChainOf(ctx, c, on.URI); err != nil {
		return chain, err
	}
	if !slices.Contains(c.Writable(), chain.Space) {
		return chain, fault.New(fault.NotFound, "%q is in %s, which is not yours: nothing can be allowed there", chain.Title, chain.Space)
	}
	return chain, nil
}

// actors names the drivers that the tree may have act for the step.
func (u useCase) actors(step protocol.Step) (names []string) {
	common, err := protocol.CommonOf(step.Challenge)
	if err != nil || step.Challenge == nil {
		return nil
	}
	common.Type = u.TypeOf(step)
	for _, via := range u.Tree.EvidenceVia(drivers.ChallengeFacts(step.Name, common, step.Challenge)) {
		if desc, _, _ := u.Drivers.Describe(via); desc.Has(driver.FeatureGrant) {
			names = append(names, via)
		}
	}
	return names
}

// AllowInput says what a person allows.
type AllowInput struct {
	ActsOn
	Steps []int // 1-based; empty: every step that a driver could do
	// Once: for this run only, which ActsOn names.
	Once bool
	// Looks: drivers may look, and change nothing.
	Looks bool
	By    string
}

// AllowSteps keeps what a person allows. Only what stands at the server's own
// terminal, or a logged-in person, may call it: never an agent.
func (e *Engine) AllowSteps(ctx context.Context, c access.Caller, in AllowInput) ([]grants.Grant, error) {
	if in.Once && in.Run == "" {
		return nil, fault.New(fault.InvalidArgument, "once means one run: name the run")
	}
	acts, err := e.Actable(ctx, c, in.ActsOn)
	if err != nil {
		return nil, err
	}
	var all []grants.Grant
	for _, s := range acts.Steps {
		if len(in.Steps) > 0 && !slices.Contains(in.Steps, s.Step) {
			continue
		}
		g := grants.Grant{
			Space: acts.Space, Protocol: acts.Protocol, Title: acts.Title, Step: s.Step, Label: s.Label, Driver: s.Driver,
			Effect: driver.EffectEffects, By: in.By,
		}
		if in.Looks {
			g.Effect = driver.EffectReads
		}
		if in.Once {
			g.Run = in.Run
		}
		all = append(all, g)
	}
	for _, step := range in.Steps {
		if !slices.ContainsFunc(all, func(g grants.Grant) bool { return g.Step == step }) {
			return nil, fault.New(fault.InvalidArgument, "no driver could do step %d of %q itself", step, acts.Title).
				WithHint("%s", actable(acts))
		}
	}
	if len(all) == 0 {
		return nil, fault.New(fault.InvalidArgument, "no driver could do a step of %q itself", acts.Title).
			WithHint("the decision tree has to lead to a driver with the feature %s: `kairos driver list` shows the drivers, `kairos tree show` the tree", driver.FeatureGrant)
	}
	return e.Allow(ctx, c, all)
}

func actable(acts Acts) string {
	if len(acts.Steps) == 0 {
		return "no step of it can be done by a driver"
	}
	text := "drivers could do"
	for _, s := range acts.Steps {
		text += fmt.Sprintf(" %d (%s)", s.Step, s.Label)
	}
	return text
}
