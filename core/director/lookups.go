package director

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/declines"
	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/director/plan"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/offers"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// loadAcceptances looks up what is accepted, where a route of the step leads to a driver that
// acts only under an acceptance.
func loadAcceptances(ctx context.Context, t *turn, k *input.Task) error {
	concerns := t.e.parts.Acceptances.Kept() && plan.NeedsAcceptance(t.State, k)
	if t.Digest == "" && (concerns || t.Rules.ReadsDigest()) {
		if err := identify(t); err != nil {
			return err
		}
	}
	if !concerns || t.acceptancesLoaded || t.change.Absent().Acceptances {
		return nil
	}
	all, err := t.e.parts.Acceptances.Covering(ctx, t.Chain.Space, t.Digest, t.Run.ID)
	if err != nil {
		return err
	}
	t.Acceptances, t.acceptancesLoaded = all, true
	return nil
}

// identify works out the digest of what the run's protocol says, once for all runs
// that are pinned to it.
func identify(t *turn) (err error) {
	known, pin := t.e.contents, t.Run.Pin
	digest, ok := known.Get(pin)
	if !ok {
		if digest, err = t.Chain.ContentDigest(); err != nil {
			return err
		}
		known.Put(pin, digest, len(pin)+len(digest))
	}
	t.Digest = digest
	return nil
}

// lookUpDecline returns the decline of the action that counts for the run; nil: there is none.
func lookUpDecline(ctx context.Context, t *turn, a declines.Action) (*declines.Decline, error) {
	if t.change.Absent().Declines {
		return nil, nil
	}
	return t.e.parts.Declines.Remembered(ctx, t.Run.Principal, t.Run.Space, a)
}

// loadDecline looks up whether a person declined what is to be approved.
func loadDecline(ctx context.Context, t *turn) error {
	action, err := plan.ActionToApprove(t.State)
	if err != nil {
		return err
	}
	t.Decline, err = lookUpDecline(ctx, t, action)
	t.DeclinePart = t.Decline != nil && !t.Decline.Action.Includes(action)
	return err
}

// declinedBefore reports whether an approval stands in front of the input although the step
// asks for none, because a person declined the same: a copy of the protocol could
// leave the approval out.
func declinedBefore(ctx context.Context, t *turn, in driver.Input) (bool, error) {
	if input.Of(in.Kind).Ungated {
		return false, nil
	}
	action, err := plan.ActionOf(t.State, in)
	if err != nil {
		// Nothing tells it from what was declined.
		action = declines.Any(in.Type)
	}
	d, err := lookUpDecline(ctx, t, action)
	return d != nil, err
}

// remember keeps that a person declined what was to be approved.
func remember(ctx context.Context, t *turn, d declines.Decline) error {
	defer t.change.Stored()
	return t.e.parts.Declines.Remember(ctx, d)
}

// reflex is a question that one connection answered itself.
type reflex struct{ connection, via, action string }

// actionKey tells what the question to the input is about, whichever run asks it.
func actionKey(t *turn, in driver.Input) (string, error) {
	action, err := plan.ActionOf(t.State, in)
	if input.Of(in.Kind).Approves {
		action, err = plan.ActionToApprove(t.State)
	}
	if err != nil {
		return "", err
	}
	key, err := action.Key()
	return in.Kind + " " + key, err
}

// noteItself keeps in memory that the connection answered a question itself.
func noteItself(t *turn, ev run.Event) {
	if ev.Kind != run.Automated || t.Caller.Connection == "" {
		return
	}
	in := driver.Input{ID: ev.Input, Kind: plan.KindOf(t.Run.Step, ev.Input)}
	for _, open := range t.Run.Step.Inputs {
		if open.ID == ev.Input {
			in = open
		}
	}
	key, err := actionKey(t, in)
	if err != nil {
		return // in another run it is asked once more
	}
	r := reflex{t.Caller.Connection, ev.Via, key}
	t.e.reflexes.Put(r, *ev.Delay, len(r.connection)+len(r.via)+len(r.action))
}

// itself is how fast the connection answered the same question itself, in whichever run; nil: it did not.
func itself(t *turn, in driver.Input, via string) *run.Delay {
	if t.Caller.Connection == "" {
		return nil
	}
	key, err := actionKey(t, in)
	if err != nil {
		return nil // it is asked once more
	}
	if d, ok := t.e.reflexes.Get(reflex{t.Caller.Connection, via, key}); ok {
		return &d
	}
	return nil
}

// keepAccepted keeps what the person accepted. The answer is stored first: another server may have
// taken one before, and then this one accepts nothing.
func keepAccepted(ctx context.Context, t *turn, q run.Question) error {
	var delay *run.Delay
	if t.Measured.Seq == q.Seq {
		delay = t.Measured.Delay
	}
	all, err := offers.Accepted(q, t.Run.ID, delay)
	if err != nil {
		return err
	}
	t.recordBegun()
	if err := t.save(ctx); err != nil {
		return err
	}
	defer t.change.Stored()
	t.acceptancesLoaded, t.Opened = false, 0
	_, err = t.e.parts.Acceptances.Record(ctx, t.Caller, all)
	return err
}

// forget removes the declines of what a person has approved, now that this is stored:
// another server may have taken a decline before.
func forget(ctx context.Context, t *turn) {
	if t.Approved == nil {
		return
	}
	if err := t.e.parts.Declines.Forget(ctx, t.Run.Principal, t.Run.Space, t.Approved); err != nil {
		t.e.log.WarnContext(ctx, "a decline is still remembered, so that a person will be asked again", "run", t.Run.ID, "error", err)
	}
	t.Approved = nil
}

// acceptable tells what would let a driver do the open step; empty: it is accepted
// already, or no driver does such steps.
func acceptable(ctx context.Context, t *turn) string {
	if len(plan.AcceptedHere(t.State)) > 0 {
		return ""
	}
	a, found := offers.First(ctx, t.setup, t.Task, t.Caller.Client)
	switch {
	case !found:
		return ""
	case a.Cannot != "":
		return fmt.Sprintf("Driver %s does such steps, and could not do this one now: %s.", a.Driver, strings.TrimSuffix(plain.Line(a.Cannot), "."))
	}
	return fmt.Sprintf("The operator can accept that KAIROS does it: `kairos accept --run %s`.", t.Run.ID)
}

// noteApproval lets the reply say that the step is approved, if it is.
func noteApproval(t *turn) {
	if plan.ApprovalGiven(t.State) {
		t.Note = fmt.Sprintf("Step %d is approved.", t.Run.Step.Index)
	}
}

// noteReport finds out whether the submission reports a person's decision: whether the
// tree has a route on which an agent is asked for one in a solution of this type.
func noteReport(ctx context.Context, t *turn, k *input.Task, in driver.Input) error {
	t.Reported = false
	s := t.Solution
	if !s.Supplied() || s.Type == "" || !input.Of(in.Kind).Approves || plan.TakesNoReport(t.State, k, in) {
		return nil
	}
	facts := plan.Facts(t.State, k, in.ID)
	facts.Previous = nil
	for d := t.Tree.Decide(in.Kind, facts); d.Route != nil; d = t.Tree.Decide(in.Kind, facts) {
		r := *d.Route
		desc, _, _ := t.setup.Drivers.Describe(r.Via)
		if _, ok := t.setup.Drivers.Capability(r.Via, r.CallTimeout); ok && desc.Has(driver.FeatureAgent) {
			shown, err := t.drivers().Shown(ctx, t.State, plan.Read{Task: k, Input: in, Route: r})
			t.Reported = err == nil && shown.Type == s.Type
			return err
		}
		facts.Previous = append(facts.Previous, decision.PreviousFacts{Via: r.Via, Outcome: decision.Unavailable, Route: r.Index})
	}
	return nil
}

// answerSimilarity answers how close two texts are, without a callback from
// the driver that wants to know.
func answerSimilarity(ctx context.Context, t *turn, in driver.Input) error {
	value := driver.SimilarityValue{Method: library.MethodLexical}
	if in.Similarity != nil {
		value = t.e.parts.Library.Similarity(access.InSpace(ctx, t.Run.Space), *in.Similarity)
	}
	b, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return t.apply(run.Event{Kind: run.Supplied, Input: in.ID, Via: runs.CoreDriver, Answer: &driver.Answer{
		InputID: in.ID, Value: b, Provenance: driver.ServerObserved, Via: runs.CoreDriver,
	}})
}

// obtain takes the next route to an input. It looks up what the rules need to know of it.
func obtain(ctx context.Context, t *turn, in driver.Input) (plan.Action, error) {
	k, kind := t.Task, input.Of(in.Kind)
	switch {
	case kind.Internal:
		return nil, answerSimilarity(ctx, t, in)
	case kind.OfRun:
		return plan.ForRun(t.State, in, decideRoute(t, input.RunTask(*t.Chain), in).Route), nil
	}
	beginRoute(t, in.ID, t.change.Now())
	t.Due = in.Kind
	if plan.IsClaim(t.State, k, in) {
		return plan.Claimed(t.State, k), nil
	}
	if kind.Approves {
		if err := loadDecline(ctx, t); err != nil {
			return nil, err
		}
	}
	if err := noteReport(ctx, t, k, in); err != nil {
		return nil, err
	}
	if kind.Approves && t.Solution.Supplied() { // a driver was asked, which takes time
		if err := loadDecline(ctx, t); err != nil {
			return nil, err
		}
	}
	d := decideRoute(t, k, in)
	if d.Route == nil {
		return plan.NoRoute(t.State, k, in), nil
	}
	t.Trying = d.Route.Via
	return plan.Through(t.State, k, in, *d.Route), nil
}

func decideRoute(t *turn, k *input.Task, in driver.Input) decision.Decision {
	facts := plan.Facts(t.State, k, in.ID)
	d := t.Tree.Decide(in.Kind, facts)
	if judge := plan.JudgedBy(k, in); judge != "" {
		d = t.Tree.DecideVia(in.Kind, judge, facts)
	}
	d.Rules = k.Demand.By
	t.decided = &decided{Decision: d, kind: in.Kind, facts: facts}
	return d
}

// renew is done with the submission, whose nonce can then not be used for what the step
// needs next.
func renew(t *turn) error {
	t.taken()
	t.Solution, t.Target = nil, 0
	return t.apply(run.Event{Kind: run.Reissued, Nonce: newNonce(t.Run.ID)})
}
