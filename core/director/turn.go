package director

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/drivers"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// turn is one call on one run: what was loaded, what happened since, and those
// who do what is left. Nothing of it outlives the call.
type turn struct {
	*runs.Change
	e       useCase
	caller  access.Caller
	started time.Time
	// pending names the records that this call's reply will be kept under.
	pending []runs.Recorded
	// submitted becomes pending once the submission is taken.
	submitted *runs.Recorded

	solution *solution // what the agent submitted, until it is used
	// target is the step the call is about: it may ask there. At any other
	// step it asks only if the challenge has its own prompt for a model.
	target int
	// task is what the step it was worked out for demands; see open.
	task   input.Task
	opened int // index of that step
	// spent is what models were asked since the last event.
	spent run.Spent
	// decided is the last decision, until an event took it along.
	decided *decided

	admission   *admission
	approvals   *approvals
	calls       *calls
	late        *late
	links       *links
	observation *observation
	obtaining   *obtaining
	questions   *questions
	replies     *replies
	tries       *tries
	trust       *trust
	verdicts    *verdicts
	vouching    *vouching
	granting    *granting
	remembered  *remembered
	offering    *offering
}

// decided is a walk through the tree and the facts it was made on.
type decided struct {
	decision.Decision
	kind  string
	facts decision.Facts
}

// subject is an input of a step; input ids of two steps may be the same.
type subject struct {
	step  int
	input string
}

// failure is a counted failure of the open step.
type failure struct {
	code fault.Code
	why  string
}

// resume makes a turn on a stored run, for the one use case that may drive it now.
func (e useCase) resume(ctx context.Context, c access.Caller, id run.ID) (*turn, error) {
	change, err := e.claim.Open(ctx, c, id)
	if err != nil {
		return nil, err
	}
	t := newTurn(change, e, c)
	return t, t.approvals.distrust()
}

// apply lets the state machine judge an event and remembers it for the save.
func (t *turn) apply(ev run.Event) error {
	t.Stamp(&ev)
	t.trust.limit(&ev)
	obtained(&ev)
	if err := t.explain(&ev); err != nil {
		return err
	}
	ev.Spent, t.spent = t.spent, run.Spent{}
	before := t.Run.Step
	if err := t.Apply(ev); err != nil {
		return impossible(err)
	}
	t.observation.routed(before, &t.Events[len(t.Events)-1])
	return nil
}

// obtained notes in an answer of a person or a model when the server got it, which is a
// part of what a driver may record as proof.
func obtained(ev *run.Event) {
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
	if d == nil {
		return nil
	}
	t.decided = nil
	if ev.Walk, err = json.Marshal(d.Decision); err != nil {
		return fmt.Errorf("encode the walk through the tree: %w", err)
	}
	ev.Facts, err = t.e.Tree.Record(d.kind, d.facts)
	return err
}

// save stores what happened; a call saves once, right before it answers or asks.
func (t *turn) save(ctx context.Context) error {
	began := t.New()
	saved, err := t.Save(ctx)
	if err != nil || len(saved) == 0 && !began {
		return err
	}
	if began {
		t.e.opt.Observer.Begun(t.Run.Space)
	}
	t.rateEvents(saved)
	t.observation.tellRoutes(ctx)
	t.remembered.forget(ctx)
	return nil
}

// record keeps what this call answered, for network retries.
func (t *turn) record(outcome json.RawMessage) {
	for _, k := range t.pending {
		k.Reply = outcome
		t.Record(k)
	}
	t.pending = nil
}

// recordBegun keeps, with a driver's call that acts, that this call has no reply yet, and the
// step that its reply reports from. Until there is one, the same call again gets what
// came of it since.
func (t *turn) recordBegun() {
	begun := json.RawMessage(fmt.Sprintf(`{"begun":%d}`, len(t.Run.Proofs)-len(t.replies.solved)+1))
	for _, k := range t.pending {
		k.Reply = begun
		t.Record(k)
	}
	if t.submitted != nil {
		t.Record(runs.Recorded{Key: t.submitted.Key, Payload: t.submitted.Payload, Reply: begun})
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
	case t.replies.failure != nil:
		r = t.replies.failed(r, *t.replies.failure)
	case t.replies.omission != "":
		r = t.replies.omitted(r)
	}
	if r.ErrorCode != "" {
		r.Tried = t.replies.tried
	}
	recorded := len(t.pending) > 0
	if recorded {
		stored, err := api.Encode(r, "")
		if err != nil {
			return Round{}, fmt.Errorf("encode reply: %w", err)
		}
		t.record(stored)
	}
	if err := t.links.revealReply(&r); err != nil {
		return Round{}, err
	}
	round := Round{Reply: &r}
	if recorded {
		var err error
		if round.Encoded, err = api.Encode(r, ""); err != nil {
			return Round{}, fmt.Errorf("encode reply: %w", err)
		}
	}
	if err := t.save(ctx); err != nil {
		return Round{}, err
	}
	return round, nil
}

// step is the open step of the pinned protocol.
func (t *turn) step() protocol.Step { return t.Chain.Steps[t.Run.Step.Index-1] }

func (t *turn) complete() bool { return t.Run.Step.Index > len(t.Chain.Steps) }

// open works out what the open step demands, once a call.
func (t *turn) open(ctx context.Context) (input.Task, error) {
	if t.opened == t.Run.Step.Index {
		return t.task, nil
	}
	k, err := t.workOut(ctx)
	if err == nil {
		t.task, t.opened = k, t.Run.Step.Index
	}
	return k, err
}

// place is where the open step stands, without what it demands.
func (t *turn) place() input.Task {
	step := t.step()
	return input.Task{Step: step, Where: driver.Step{
		Protocol: t.Chain.Title, Label: step.Label, Text: t.replies.view().Text(t.Run.Step.Index),
		Index: t.Run.Step.Index, Count: len(t.Chain.Steps),
	}}
}

func (t *turn) workOut(ctx context.Context) (input.Task, error) {
	k := t.place()
	step := k.Step
	if k.Free() {
		k.Common = protocol.Common{Type: t.e.Tree.NoChallengeType()}
		if err := t.granting.load(ctx, k); err != nil {
			return input.Task{}, err
		}
		k.Demand = t.e.Tree.Demand(t.facts(k, input.EvidenceKind.Name))
		return k, t.vouching.possible(k)
	}
	filled, missing, err := protocol.Fill(step.Challenge, step.Templates, runs.Scope(t.Run, t.Chain))
	if errors.Is(err, protocol.ErrTooLarge) {
		return input.Task{}, fault.Wrap(err, fault.InvalidArgument, "The challenge of step %d cannot be filled: %v.", k.Where.Index, err).
			WithNext("this run cannot reach the step: begin the protocol again with kairos_begin and submit shorter values, or change the step to refer to less of them")
	}
	if err != nil {
		return input.Task{}, fault.Wrap(err, fault.InvalidArgument, "A value cannot be put into the challenge of step %d: %v.", k.Where.Index, err)
	}
	if len(missing) > 0 {
		return input.Task{}, missingValues(t.Run, t.Chain, missing)
	}
	if k.Common, err = protocol.CommonOf(filled); err != nil {
		return input.Task{}, fmt.Errorf("challenge of step %d: %w", k.Where.Index, err)
	}
	if k.Common.Type == "" {
		k.Common.Type = t.e.Tree.MissingType()
	}
	if err := cmp.Or(input.PhraseFault(k), input.OutputSchemaFault(k)); err != nil {
		return input.Task{}, err
	}
	k.Challenge = filled
	if err := t.granting.load(ctx, k); err != nil {
		return input.Task{}, err
	}
	d := t.e.Tree.Decide(input.EvidenceKind.Name, t.facts(k, input.EvidenceKind.Name))
	k.Use, k.Demand = d.Use, d.Demand.Narrowed(k.Common.EvidenceFrom.Provenances())
	if err := t.vouching.possible(k); err != nil {
		return input.Task{}, err
	}
	if k.Use == "" {
		return input.Task{}, unavailable("no configured driver handles challenges of type %q", k.Common.Type)
	}
	k.Approval = t.approvalMode(k, d)
	k.Stated = k.Common.ApprovalMode != "" || d.Approval != ""
	if d.Route != nil {
		t.e.Drivers.Warm(ctx, k.Use, d.Route.Via)
	}
	return k, nil
}

func (t *turn) approvalMode(k input.Task, d decision.Decision) driver.ApprovalMode {
	if k.Common.ApprovalMode != "" {
		return k.Common.ApprovalMode
	}
	if d.Approval != "" {
		return d.Approval
	}
	desc, _, _ := t.e.Drivers.Describe(k.Use)
	return desc.Approval
}

func missingValues(r run.Run, chain protocol.Chain, missing []protocol.Reference) error {
	const most = 20 // a challenge can have thousands of templates
	var keys, inputs []string
	for _, m := range missing {
		if slices.Contains(keys, m.Text) {
			continue
		}
		if len(keys) == most {
			break
		}
		keys = append(keys, m.Text)
		if m.Source == protocol.FromInput {
			inputs = append(inputs, m.Path[0])
		}
	}
	form := decision.Object(r.Input)
	if form == nil {
		form = map[string]any{}
	}
	maps.Copy(form, input.FormOfRun(chain.Inputs, inputs))
	return fault.New(fault.MissingInput, "step %d needs %s, which has no value", r.Step.Index, strings.Join(keys, ", ")).
		With("missing", keys).
		WithNext(`call kairos_begin with %s and an input object that holds what is missing`, protocol.URI(chain.Steps[0].UUID)).
		WithCall(api.ToolBegin, map[string]any{"uri": protocol.URI(chain.Steps[0].UUID), "input": form})
}

func unavailable(format string, args ...any) *fault.Error {
	return fault.New(fault.DriverUnavailable, format, args...)
}

// facts are what conditions may look at for one input of the open step.
func (t *turn) facts(k input.Task, inputID string) decision.Facts {
	c := t.caller.Client
	f := decision.Facts{
		Challenge: drivers.ChallengeFacts(k.Step.Name, k.Common, k.Challenge),
		Step: decision.StepFacts{
			Index: k.Where.Index, Count: k.Where.Count, Name: k.Step.Name, Approval: k.Common.ApprovalMode, Granted: len(t.granting.here()) > 0,
		},
		Protocol: decision.ProtocolFacts{Space: t.Chain.Space, Digest: t.granting.digest},
		Run:      decision.RunFacts{Attempt: t.Run.Step.Failures + 1, Input: decision.Object(t.Run.Input)},
		Client: decision.ClientFacts{
			Name: c.Name, Version: c.Version, Era: c.Era, Transport: c.Transport,
			Elicitation: decision.ElicitationFacts{Form: c.ElicitationForm, URL: c.ElicitationURL},
			Sampling:    c.Sampling, Roots: c.Roots, Capabilities: decision.Object(c.Capabilities),
		},
		Previous: t.tries.previous(inputID),
		Config:   t.e.Settings,
	}
	f.Config.Approval.Page = t.links.answerable(k)
	if s := t.solution; s != nil {
		f.Solution = decision.SolutionFacts{Supplied: s.supplied(), Type: s.Type, Params: s.object}
	}
	return f
}

// newTurn makes the turn of a call on a run.
func newTurn(change *runs.Change, e useCase, c access.Caller) *turn {
	t := &turn{Change: change, e: e, caller: c}
	t.started = t.Now()
	t.calls, t.observation, t.trust, t.tries = &calls{t: t}, &observation{t: t}, &trust{t: t}, &tries{t: t}
	t.links, t.approvals, t.questions, t.late = &links{t: t}, &approvals{t: t}, &questions{t: t}, &late{t: t}
	t.obtaining, t.verdicts, t.replies, t.admission = &obtaining{t: t}, &verdicts{t: t}, &replies{t: t}, &admission{t: t}
	t.vouching, t.granting, t.offering = &vouching{t: t}, &granting{t: t}, &offering{t: t}
	t.remembered = &remembered{t: t}
	return t
}
