package director

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/director/plan"
	"github.com/kairos-mcp/kairos/core/grants"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// offering asks the person once, when a run begins and its input is known, whether
// drivers may do the steps that they could do themselves.
type offering struct {
	t *turn
	// ready: the run's input came during this call.
	ready bool
	// over: this call has nothing to ask any more.
	over bool
}

// due is the question that is open, or that this call may put.
func (of *offering) due(ctx context.Context) (in driver.Input, due bool, err error) {
	q := of.t.Run.Step.Question
	switch {
	case q != nil && input.Of(q.Input.Kind).Optional && of.t.Solution.Supplied():
		// The agent has done the step meanwhile.
		return in, false, of.leave(ctx, *q, "the agent submitted its own work first")
	case q != nil && input.Of(q.Input.Kind).Optional:
		return q.Input, true, nil
	case q != nil || of.over || !of.t.change.New() && !of.ready || of.t.Caller.Detached:
		return in, false, nil
	case of.t.e.store.Grants == nil || !slices.Contains(of.t.Caller.Writable(), of.t.Chain.Space):
		return in, false, nil
	}
	of.over = true
	if of.t.e.Tree.Decide(input.GrantKind.Name, plan.Facts(of.t.State, input.RunTask(of.t.Chain), input.GrantKind.Name)).Route == nil {
		return in, false, nil
	}
	in, due, err = of.question(ctx)
	of.over = !due
	return in, due, err
}

// question is what the person is asked now; false: there is nothing to allow.
func (of *offering) question(ctx context.Context) (in driver.Input, some bool, err error) {
	acts, err := of.t.e.acts(ctx, of.t.Chain, *of.t.Run, of.t.Caller.Client)
	if err != nil {
		return in, false, err
	}
	cannot := slices.DeleteFunc(slices.Clone(acts.Steps), func(s ActStep) bool { return s.Cannot == "" || s.Grant != "" })
	acts.Steps = slices.DeleteFunc(acts.Steps, func(s ActStep) bool { return s.Cannot != "" || s.Grant != "" })
	if len(acts.Steps) == 0 {
		return in, false, nil
	}
	in, err = offerOf(acts, cannot)
	return in, err == nil, err
}

// offerOf is the question about steps that drivers could do. It names those that
// they cannot do as things are.
func offerOf(acts Acts, cannot []ActStep) (driver.Input, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "KAIROS can do these steps of the protocol %q itself (%d of %d):\n", acts.Title, len(acts.Steps), acts.Total)
	for _, s := range acts.Steps {
		effect := ""
		if s.Effect == driver.EffectReads {
			effect = ", only looks"
		}
		fmt.Fprintf(&b, "%d. %s (driver %s%s)\n", s.Step, s.Label, s.Driver, effect)
		if s.Plan != "" {
			fmt.Fprintf(&b, "%s\n", input.Quote(s.Plan))
		}
	}
	for _, s := range cannot {
		fmt.Fprintf(&b, "It cannot do step %d (%s) now: driver %s says %s\n", s.Step, s.Label, s.Driver, input.QuoteLine(s.Cannot))
	}
	if acts.Earlier != nil {
		fmt.Fprintf(&b, "%s\n", input.Quote(acts.Earlier.String()))
	}
	b.WriteString("Steps that change something ask you each time. Without your approval KAIROS does none of them.\n" +
		"Your answer is for this run. `kairos allow` at the server's terminal allows every run of this version.")
	shown, err := json.Marshal(acts)
	return driver.Input{
		ID: input.GrantKind.Name, Kind: input.GrantKind.Name, Description: b.String(), Schema: input.GrantForm, Display: shown,
		Approval: driver.ApprovalUser, Person: true,
	}, err
}

// obtain asks, where the tree and the client allow it.
func (of *offering) obtain(ctx context.Context, in driver.Input, err error) (Round, error) {
	if err != nil {
		return Round{}, err
	}
	k, ob := input.RunTask(of.t.Chain), of.t.obtaining
	d := ob.decide(k, in)
	if d.Route == nil {
		of.over, of.t.decided = true, nil
		return Round{}, of.giveUp(ctx)
	}
	if why := plan.Barred(of.t.State, in, d.Route.Via); why != "" {
		return Round{}, ob.passOver(ctx, in.ID, *d.Route, why)
	}
	desc, _, ok := of.t.e.Drivers.Describe(d.Route.Via)
	if !ok || !desc.Has(driver.FeatureHuman) {
		return Round{}, ob.passOver(ctx, in.ID, *d.Route, "only a person can be asked what drivers may do")
	}
	return of.t.questions.viaClient(ctx, k, in, *d.Route, desc)
}

// giveUp closes the question that no route can put any more.
func (of *offering) giveUp(ctx context.Context) error {
	if q := of.t.Run.Step.Question; q != nil {
		return of.leave(ctx, *q, "nobody can be asked any more")
	}
	return nil
}

// leave closes the question without a grant. It is not asked again in this run.
func (of *offering) leave(ctx context.Context, q run.Question, why string) error {
	of.over = true
	ob := of.t.obtaining
	return ob.leaveRoute(ctx, plan.AttemptAt(of.t.State, q.Input.ID, plan.RouteOf(of.t.State, q), decision.Declined, why), why, q.Seq)
}

// accept keeps what the person allowed: what the question showed, in this run, nothing
// else. A form is worth no more: until people log in, a client can fill it by itself. The
// answer is stored first: another server may have taken one before, and then this one
// allows nothing.
func (of *offering) accept(ctx context.Context, q run.Question) error {
	var shown Acts
	if err := json.Unmarshal(q.Input.Display, &shown); err != nil {
		return fmt.Errorf("read what was offered: %w", err)
	}
	all := make([]grants.Grant, len(shown.Steps))
	for i, s := range shown.Steps {
		all[i] = shown.grant(s, formOf(q))
		all[i].Run = of.t.Run.ID
	}
	of.t.recordBegun()
	if err := of.t.save(ctx); err != nil {
		return err
	}
	defer of.t.change.Stored()
	_, err := of.t.e.Allow(ctx, of.t.Caller, all)
	return err
}

// formOf names the form that was answered. The person who filled it is not identified.
func formOf(q run.Question) string {
	return fmt.Sprintf("a form in %s, through %s", cmp.Or(plain.LineWithin(q.Client.Name, 80), "a client without a name"), q.Via)
}
