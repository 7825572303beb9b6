package archive

import (
	"context"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
)

// Dependent is an open run that cannot continue without a driver.
type Dependent struct {
	Run      run.ID `json:"run_id"`
	Protocol string `json:"protocol"` // title
	Step     int    `json:"step"`     // 1-based
	Label    string `json:"label"`
	// Reason says what the driver has to do for the run.
	Reason string `json:"reason"`
}

// Dependents lists the runs that the caller oversees and that need the driver at their open step: to
// judge it, or to deliver a pending answer. It starts no driver. Runs of protocols
// that the caller can no longer see are left out, and so are unreadable runs,
// which Unserved names.
func (a *Archive) Dependents(ctx context.Context, c access.Caller, driverName string) ([]Dependent, error) {
	setup, release := a.setups.Hold()
	defer release()
	if err := a.library.Ready(ctx); err != nil {
		return nil, err
	}
	judges := func(step protocol.Step) bool {
		use, problem := setup.JudgeOf(step)
		return step.Challenge != nil && problem == nil && use == driverName
	}
	out := []Dependent{}
	err := a.eachLive(ctx, c, func(s run.Summary) error {
		if s.StepIndex < 1 || s.StepIndex > s.StepCount {
			return nil
		}
		d, needed, err := a.dependent(ctx, c, s, driverName, judges)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if code := fault.CodeOf(err); code == fault.StoreUnavailable {
			return err
		}
		if err == nil && needed {
			out = append(out, d)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// dependent reports whether the run needs the driver, and for what.
func (a *Archive) dependent(ctx context.Context, c access.Caller, s run.Summary, driverName string, judges func(protocol.Step) bool) (d Dependent, needed bool, err error) {
	r, err := a.runs.Read(ctx, s.ID)
	if err != nil {
		return d, false, err
	}
	chain, err := a.runs.Pinned(ctx, r)
	if err != nil || !c.Oversees(r.Principal, chain.Space) || r.Step.Index > len(chain.Steps) {
		return d, false, err
	}
	step := chain.Steps[r.Step.Index-1]
	d = Dependent{Run: r.ID, Protocol: chain.Title, Step: r.Step.Index, Label: step.Heading()}
	switch {
	case r.Step.Question != nil && r.Step.Question.Via == driverName:
		d.Reason = "its question is open"
	case r.Step.Call != nil && r.Step.Call.Driver == driverName:
		d.Reason = "the run waits for its answer"
	case judges(step):
		d.Reason = "it judges the step"
	default:
		return d, false, nil
	}
	return d, true, nil
}
