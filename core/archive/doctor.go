package archive

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/drivers"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/fields"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// Trouble is a problem with the driver of a challenge.
type Trouble string

// The troubles.
const (
	// TroubleGone: no configured driver handles the type.
	TroubleGone Trouble = "gone"
	// TroubleBroken: its driver does not answer.
	TroubleBroken Trouble = "broken"
	// TroubleRefuses: its driver no longer accepts the challenge.
	TroubleRefuses Trouble = "refuses"
	// TroubleUnreadable: the stored run, or the protocol it is pinned to, cannot be read.
	TroubleUnreadable Trouble = "unreadable"
)

// Unserved lists the steps and runs that no driver serves at present.
type Unserved struct {
	// Steps of stored protocols, by protocol and step.
	Steps []UnservedStep `json:"steps"`
	// Runs that wait at such a step or cannot be read, last changed first.
	// A run that waits for a driver loses nothing: it continues once the driver serves its step.
	Runs []UnservedRun `json:"runs"`
}

// UnservedStep is a step whose challenge no driver would judge now.
type UnservedStep struct {
	Protocol string  `json:"protocol"` // title
	URI      string  `json:"uri"`
	Step     int     `json:"step"` // 1-based
	Label    string  `json:"label"`
	Type     string  `json:"type"`
	Driver   string  `json:"driver,omitempty"` // empty: none is configured
	Trouble  Trouble `json:"trouble"`
	Problem  string  `json:"problem"`
}

// UnservedRun is a run that waits for a driver or cannot be read.
type UnservedRun struct {
	Run run.ID `json:"run_id"`
	UnservedStep
}

// Unserved asks the drivers whether they still accept every step of the caller's
// protocols and the open step of every live run that the caller oversees. It stores nothing and starts the
// drivers that it asks.
func (a *Archive) Unserved(ctx context.Context, c access.Caller) (Unserved, error) {
	setup, release := a.setups.Hold()
	defer release()
	if err := a.library.Ready(ctx); err != nil {
		return Unserved{}, err
	}
	steps, err := a.storedSteps(ctx, c)
	if err != nil {
		return Unserved{}, err
	}
	runs, open, err := a.openSteps(ctx, c)
	if err != nil {
		return Unserved{}, err
	}
	if err := examine(ctx, setup, slices.Concat(steps, open)); err != nil {
		return Unserved{}, err
	}
	out := Unserved{Steps: []UnservedStep{}, Runs: []UnservedRun{}}
	for _, s := range steps {
		if s.found.Trouble != "" {
			out.Steps = append(out.Steps, s.found)
		}
	}
	for i, s := range open {
		if s.found.Trouble != "" {
			out.Runs = append(out.Runs, UnservedRun{Run: runs[i], UnservedStep: s.found})
		}
	}
	return out, nil
}

// patient is a step under examination.
type patient struct {
	step  protocol.Step
	found UnservedStep
}

func patientOf(chain protocol.Chain, i int) *patient {
	s := chain.Steps[i]
	return &patient{step: s, found: UnservedStep{
		Protocol: chain.Title, URI: protocol.URI(s.UUID), Step: i + 1, Label: s.Heading(),
	}}
}

// storedSteps lists the steps with a challenge of the protocols that the caller sees.
func (a *Archive) storedSteps(ctx context.Context, c access.Caller) ([]*patient, error) {
	var out []*patient
	for _, space := range c.Spaces() {
		err := a.library.EachListed(ctx, space, func(listed protocol.Chain) error {
			// The outlines of a list may omit the content of challenges.
			chain, err := a.store.Protocols.Chain(ctx, []string{space}, listed.ID)
			if fault.CodeOf(err) == fault.NotFound {
				return nil // deleted meanwhile
			}
			if err != nil {
				return fmt.Errorf("read protocol %q: %w", listed.Title, err)
			}
			for i, s := range chain.Steps {
				if s.Challenge != nil {
					out = append(out, patientOf(chain, i))
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(out, func(a, b *patient) int {
		return cmp.Or(cmp.Compare(a.found.Protocol, b.found.Protocol), cmp.Compare(a.found.Step, b.found.Step))
	})
	return out, nil
}

// openSteps lists the runs that wait at a step with a challenge, and that step
// as the run is pinned to it.
func (a *Archive) openSteps(ctx context.Context, c access.Caller) ([]run.ID, []*patient, error) {
	var ids []run.ID
	var out []*patient
	err := a.eachLive(ctx, c, func(s run.Summary) error {
		if s.StepIndex > s.StepCount {
			return nil
		}
		p, err := a.openStep(ctx, s)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			// One damaged run must not hide the problems of the others.
			p = &patient{found: UnservedStep{
				Protocol: s.Title, Step: s.StepIndex, Trouble: TroubleUnreadable, Problem: plain.Clip(err.Error(), 600),
			}}
		case p == nil:
			return nil
		}
		ids, out = append(ids, s.ID), append(out, p)
		return nil
	})
	return ids, out, err
}

// openStep returns the step that a run waits at, or nil if it has no challenge.
func (a *Archive) openStep(ctx context.Context, s run.Summary) (*patient, error) {
	r, err := a.runs.Read(ctx, s.ID)
	if err != nil {
		return nil, err
	}
	chain, err := a.runs.Pinned(ctx, r)
	if err != nil {
		return nil, err
	}
	if i := r.Step.Index - 1; i >= 0 && i < len(chain.Steps) && chain.Steps[i].Challenge != nil {
		return patientOf(chain, i), nil
	}
	return nil, nil
}

// examine asks all drivers concurrently.
func examine(ctx context.Context, setup drivers.Setup, all []*patient) error {
	byDriver := make(map[string][]*patient)
	for _, p := range all {
		if p.found.Trouble != "" {
			continue
		}
		p.found.Type = setup.TypeOf(p.step)
		use, problem := setup.JudgeOf(p.step)
		if problem != nil {
			p.found.Trouble, p.found.Problem = TroubleGone, problem.Message
			continue
		}
		p.found.Driver = use
		byDriver[use] = append(byDriver[use], p)
	}
	var g errgroup.Group
	for use, patients := range byDriver {
		g.Go(func() error { return askAll(ctx, setup, use, patients) })
	}
	return g.Wait()
}

// askAll asks one driver. After a failure it is not asked again: each try may last
// as long as a driver start.
func askAll(ctx context.Context, setup drivers.Setup, use string, patients []*patient) error {
	drv, ok := setup.Drivers.Challenge(use)
	broken := ""
	for _, p := range patients {
		switch {
		case !ok:
			p.found.Trouble, p.found.Problem = TroubleGone, fmt.Sprintf("driver %s is not configured", use)
			continue
		case broken != "":
			p.found.Trouble, p.found.Problem = TroubleBroken, broken
			continue
		}
		res, err := drv.Validate(ctx, driver.ValidateRequest{Challenge: p.step.Challenge})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			broken = plain.Clip(err.Error(), 600)
			p.found.Trouble, p.found.Problem = TroubleBroken, broken
			continue
		}
		if errs := slices.DeleteFunc(res.Diagnostics, func(d driver.Diagnostic) bool { return d.Severity == driver.SeverityWarning }); len(errs) > 0 {
			p.found.Trouble, p.found.Problem = TroubleRefuses, plain.Clip(fields.Text(errs), 2000)
		}
	}
	return nil
}
