package director

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/audit"
	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/director/act"
	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/director/observe"
	"github.com/kairos-mcp/kairos/core/director/plan"
	"github.com/kairos-mcp/kairos/core/drivers"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// turn is one call on one run: what the rules look at, the change of the run, and those
// who do what is left. Nothing of it outlives the call.
type turn struct {
	*plan.State
	change  *runs.Change
	e       *Engine
	setup   drivers.Setup // that the use case holds
	refused *plan.Failure // see useCase
	// pending names the records that this call's reply will be kept under.
	pending []runs.Recorded
	// submitted becomes pending once the submission is taken.
	submitted *runs.Recorded
	// spent is what models were asked since the last event.
	spent run.Spent
	// decided is the last decision, cleared once an event records it.
	decided *decided

	// acceptancesLoaded: what is accepted for the run's protocol was looked up.
	acceptancesLoaded bool
	// resumed: the call shows the open step of a run that was under way.
	resumed bool
	// routes are what the observer hears once their events are stored. began says when the
	// route to an input was begun; what is not in it began with the call.
	routes []observe.Route
	began  []begun
}

// decided is a walk through the tree and the facts it was made on.
type decided struct {
	decision.Decision
	kind  string
	facts decision.Facts
}

// ledTo reports whether an event is about the input that the walk was for.
func (d *decided) ledTo(step run.Step, ev run.Event) bool {
	about := ev.Input
	if ev.Attempt != nil {
		about = ev.Attempt.Input
	}
	return about == "" || plan.KindOf(step, about) == d.kind
}

// resume makes a turn on a stored run, for the one use case that may drive it now. Its owner
// must still have the right to run in the space of its protocol.
func (u useCase) resume(ctx context.Context, c access.Caller, id run.ID) (*turn, error) {
	change, err := u.claim.Open(ctx, c, id)
	if err != nil {
		return nil, err
	}
	return u.permitted(ctx, c, change)
}

// oversee makes a turn like resume, for what an operator may also do with the runs of others.
func (u useCase) oversee(ctx context.Context, c access.Caller, id run.ID) (*turn, error) {
	change, err := u.claim.Oversee(ctx, c, id)
	if err != nil {
		return nil, err
	}
	return u.permitted(ctx, c, change)
}

func (u useCase) permitted(ctx context.Context, c access.Caller, change *runs.Change) (*turn, error) {
	t := newTurn(change, u, c)
	if change.Run.Principal == c.Principal {
		if err := c.Check(api.ToolNext, t.Chain.Space); err != nil {
			return nil, u.e.opt.Audit.Refused(ctx, c, audit.Act{Action: audit.RunContinue, Space: t.Chain.Space, Object: string(change.Run.ID)}, err)
		}
	}
	_, err := t.act(ctx, plan.Distrust(t.State))
	return t, err
}

// apply lets the state machine judge an event and remembers it for the save.
func (t *turn) apply(ev run.Event) error {
	t.change.Stamp(&ev)
	plan.Limit(t.State, &ev)
	plan.Time(t.State, &ev)
	noteObtained(&ev)
	if err := t.explain(&ev); err != nil {
		return err
	}
	ev.Spent, t.spent = t.spent, run.Spent{}
	before := t.Run.Step
	if err := t.change.Apply(ev); err != nil {
		return impossible(err)
	}
	t.tick()
	noteItself(t, ev)
	routed(t, before, &t.change.Events[len(t.change.Events)-1])
	return plan.Learn(t.State, ev)
}

// noteObtained notes in an answer of a person or a model when the server got it, which is a
// part of what a driver may record as proof.
func noteObtained(ev *run.Event) {
	if ev.Answer == nil {
		return
	}
	switch a := *ev.Answer; a.Provenance {
	case driver.ClientAttested, driver.LinkHolder, driver.ModelGenerated:
		a.ObtainedAt = ev.At.UTC().Format(time.RFC3339)
		ev.Answer = &a
	}
}

// explain puts into the event why the tree led to it.
func (t *turn) explain(ev *run.Event) (err error) {
	d := t.decided
	if d == nil || !d.ledTo(t.Run.Step, *ev) {
		return nil
	}
	t.decided = nil
	if ev.Walk, err = json.Marshal(d.Decision); err != nil {
		return fmt.Errorf("encode the walk through the tree: %w", err)
	}
	ev.Facts, err = t.Tree.Record(d.kind, d.facts)
	return err
}

// save stores what happened; a call saves once, right before it answers or asks.
func (t *turn) save(ctx context.Context) error {
	began := t.change.New()
	var saved []run.Event
	err := audited(ctx, t, t.change.Events, func() (err error) {
		saved, err = t.change.Save(ctx)
		return err
	})
	if err != nil || len(saved) == 0 && !began {
		return err
	}
	if began {
		t.e.opt.Observer.Begun(t.Run.Space)
	}
	library.RateEvents(t.e.parts.Library, *t.Chain, saved)
	notifyObserver(ctx, t)
	forget(ctx, t)
	return nil
}

// record keeps what this call answered, for network retries.
func (t *turn) record(outcome json.RawMessage) {
	for _, k := range t.pending {
		k.Reply = outcome
		t.change.Record(k)
	}
	t.pending = nil
}

// recordBegun keeps, with a driver's call that acts, that this call has no reply yet, and the
// step that its reply reports from. Until there is one, the same call again gets what
// came of it since.
func (t *turn) recordBegun() {
	begun := json.RawMessage(fmt.Sprintf(`{"begun":%d}`, len(t.Run.Proofs)-len(t.Solved)+1))
	for _, k := range t.pending {
		k.Reply = begun
		t.change.Record(k)
	}
	if t.submitted != nil {
		t.change.Record(runs.Recorded{Key: t.submitted.Key, Payload: t.submitted.Payload, Reply: begun})
	}
}

// taken makes a repeat of the submission get this call's reply.
func (t *turn) taken() {
	if t.submitted != nil {
		t.pending = append(t.pending, *t.submitted)
		t.submitted = nil
	}
}

// reply saves and answers.
func (t *turn) reply(ctx context.Context, r api.StepReply) (Round, error) {
	switch {
	case t.Failure != nil:
		r = plan.FailureReply(t.State, r, *t.Failure)
	case t.Omission != "":
		r = plan.OmissionReply(t.State, r)
	}
	if t.Reflex != nil && t.Failure == nil {
		r = plan.ReflexReply(t.State, r)
	}
	if r.ErrorCode != "" {
		r.Tried = t.Tried
	}
	r = plan.WithLink(plan.WithPage(t.State, r))
	round := Round{Reply: &r}
	if len(t.pending) > 0 {
		stored, err := api.Encode(r, "")
		if err != nil {
			return Round{}, fmt.Errorf("encode reply: %w", err)
		}
		t.record(stored)
		if t.Run.Step.Question == nil { // else its link may be revealed
			round.Encoded = stored
		}
	}
	if err := revealReply(t, &r); err != nil {
		return Round{}, err
	}
	if err := t.save(ctx); err != nil {
		return Round{}, err
	}
	return round, nil
}

// open works out what the open step demands, once a call.
func (t *turn) open(ctx context.Context) (*input.Task, error) {
	if t.Opened == t.Run.Step.Index {
		return t.Task, nil
	}
	k, err := plan.Filled(t.State)
	if err != nil {
		return nil, err
	}
	if err := loadAcceptances(ctx, t, k); err != nil {
		return nil, err
	}
	soon, err := plan.WorkOut(t.State, k)
	if err != nil {
		return nil, err
	}
	if len(soon) > 0 {
		t.setup.Drivers.Warm(ctx, soon...)
	}
	t.Task, t.Opened = k, t.Run.Step.Index
	return k, nil
}

// newTurn makes the turn of a call on a run.
func newTurn(change *runs.Change, u useCase, c access.Caller) *turn {
	e, setup := u.e, u.setup
	t := &turn{
		State: &plan.State{
			Run: &change.Run, Chain: &change.Chain, Drivers: setup.Drivers, Tree: setup.Tree, Rules: setup.Rules, Settings: setup.Settings, How: setup.Ways(), Realm: setup.Realm, Caller: c, CanAccept: e.parts.Acceptances.Kept(),
			Options: plan.Options{ApprovalTTL: e.opt.ApprovalTTL, SolutionFields: e.opt.SolutionFields, ApprovalURL: e.opt.ApprovalURL, HasPage: e.opt.HasPage, Names: e.opt.Names},
		},
		change: change, e: e, setup: setup, refused: u.refused,
	}
	t.Itself = func(in driver.Input, via string) *run.Delay { return itself(t, in, via) }
	t.tick()
	t.Started = plan.At(t.State)
	return t
}

// drivers calls the drivers that the use case holds.
func (t *turn) drivers() act.Drivers {
	return act.Drivers{Finder: t.setup.Drivers, Secrets: t.e.secrets}
}

// heard is called after a driver has answered.
func (t *turn) heard(undone *driver.NotDone) {
	t.tick()
	if undone != nil {
		t.NotDone++
	}
}

// tick reads the clock, for the rules that are asked next.
func (t *turn) tick() { t.Now = t.e.opt.Clock.Now() }

// useCase is the engine with the setup that one use case holds from its start to
// its end, so that drivers and tree never change in the middle of a call.
type useCase struct {
	e     *Engine
	setup drivers.Setup
	claim *runs.Claim
	// refused is how the submission failed that an earlier attempt of the use case has
	// counted and stored before a driver acted; no code: none has.
	refused *plan.Failure
}

// hold takes the present setup for one use case, which calls release when it
// ends. Use cases do not call each other, else one call could hold two setups.
func (e *Engine) hold() (u useCase, release func()) {
	s, end := e.parts.Setups.Hold()
	u = useCase{e: e, setup: s, claim: e.parts.Runs.Claim(), refused: new(plan.Failure)}
	return u, func() {
		u.claim.Release()
		end()
	}
}

// use makes a use case with the present setup, again if another writer of the run was first.
func use[T any](e *Engine, do func(useCase) (T, error)) (T, error) {
	u, release := e.hold()
	defer release()
	return runs.Again(func() (T, error) { return do(u) })
}

// begun is when a route to an input was begun.
type begun struct {
	input string
	at    time.Time
}

// beginRoute notes when a route to an input was begun.
func beginRoute(t *turn, inputID string, at time.Time) {
	t.began = append(t.began, begun{inputID, at})
}

// beganAt is when the route to an input was begun.
func beganAt(t *turn, inputID string) time.Time {
	for _, b := range slices.Backward(t.began) {
		if b.input == inputID {
			return b.at
		}
	}
	return t.Started
}

// routed keeps what an event says of a route until the event is stored, and
// puts into the event how long the route took. The step is the one that the
// event was applied to.
func routed(t *turn, step run.Step, ev *run.Event) {
	r, to, ends := observe.RouteOf(t.State, step, *ev)
	if !ends {
		return
	}
	r.Took = max(0, ev.At.Sub(beganAt(t, to)))
	ev.Took = r.Took
	if ev.Kind == run.Accepted || ev.Kind == run.Rejected {
		t.began = nil // the inputs of another step, or of another attempt, have the same ids
	}
	silent := r.Outcome == observe.Answered && (input.Of(r.Input).Evidence || input.Of(r.Input).Internal)
	if silent || ev.Kind == run.Refused && ev.Code == string(fault.UserDeclined) {
		return // evidence ends with its verdict, nobody is asked for a similarity, and a decline is a route of its own
	}
	t.routes = append(t.routes, r)
}

// notifyObserver reports the routes, now that their events are stored.
func notifyObserver(ctx context.Context, t *turn) {
	for _, r := range t.routes {
		t.e.opt.Observer.Routed(r)
		t.e.log.InfoContext(ctx, "route ended", "run", r.Run, "step", r.Step, "challenge", r.Challenge, "input", r.Input,
			"via", r.Via, "outcome", r.Outcome, "error_code", r.ErrorCode, "took", r.Took)
	}
	t.routes = nil
}
