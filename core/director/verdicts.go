package director

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/director/plan"
	"github.com/kairos-mcp/kairos/core/director/present"
	"github.com/kairos-mcp/kairos/core/drivers"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/filecheck"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// verdicts turns what was obtained into a verdict on the open step.
type verdicts struct{ t *turn }

// advance lets the challenge driver judge the answers so far.
func (ve *verdicts) advance(ctx context.Context, k input.Task) (Round, error) {
	if k.Free() {
		return ve.advanceFree(ctx, k)
	}
	drv, ok := ve.t.e.Drivers.Challenge(k.Use)
	if !ok {
		return Round{}, plan.Unavailable("driver %s, which judges challenges of type %q, is not configured", k.Use, k.Common.Type)
	}
	s := ve.t.Run.Step
	if s.Round >= maxRounds {
		return Round{}, plan.Unavailable("driver %s asked for input %d times without a verdict on step %d", k.Use, s.Round, s.Index)
	}
	c, recovering, err := ve.t.calls.ready(ctx, run.Call{Driver: k.Use})
	if err != nil {
		return Round{}, err
	}
	res, err := drv.Advance(ctx, driver.AdvanceRequest{
		Challenge: k.Challenge, Step: k.Where, Client: ve.t.Caller.Client, Answers: s.Answers, State: s.State, Round: s.Round,
		Approved: s.Approval != nil, IdempotencyKey: c.Key, Attempt: c.Attempt, Recover: recovering, Cancel: c.Cancelled,
	})
	l := plan.Deferral{Pending: res.Pending, Unknown: res.Unknown, NotDone: res.NotDone}
	ve.t.tick()
	if err == nil {
		err = plan.Breach(ve.t.State, c, recovering, l)
	}
	if lost, err := ve.t.calls.lost(c, recovering, l, err); lost || err != nil {
		return Round{}, err
	}
	switch {
	case err == nil && res.Pending != nil:
		if err := plan.Keeps(ve.t.State, k, res.State); err != nil {
			return Round{}, err
		}
		return ve.t.calls.deferCall(ctx, c, *res.Pending, res.State)
	case err != nil:
		return Round{}, fault.Wrap(err, fault.DriverUnavailable, "driver %s failed to judge step %d, nothing is lost: %s", k.Use, s.Index, plain.Clip(err.Error(), 600))
	case res.Accepted != nil:
		return ve.judge(ctx, k, *res.Accepted)
	case res.Rejected != nil:
		looked := ""
		if plan.JudgeLooks(ve.t.State, k) {
			looked = k.Use
		}
		return ve.t.replies.rejectSeen(ctx, looked, fault.OfDriver(k.Use, res.Rejected.Code), res.Rejected.Message)
	case res.Declined != nil:
		said, ok := plan.EvidenceOf(ve.t.Run.Step)
		if !ok {
			return Round{}, plan.Unavailable("driver %s reports a decline that nobody gave", k.Use)
		}
		return ve.t.replies.decline(ctx, driver.Input{ID: said.InputID}, said.Via, res.Declined.Reason, 0)
	case len(res.NeedInput) > 0:
		return Round{}, ve.need(ctx, k, res)
	case res.Unavailable != nil:
		if err := ve.t.calls.settle("unavailable: " + plain.Clip(res.Unavailable.Reason, 500)); err != nil {
			return Round{}, err
		}
		return Round{}, plan.Unavailable("driver %s cannot judge step %d: %s", k.Use, s.Index, res.Unavailable.Reason)
	}
	return Round{}, plan.Unavailable("driver %s gave no outcome for step %d", k.Use, s.Index)
}

// keepEarlier: evidence of the agent that no driver has judged yet, because it did not
// answer then, is judged now. The reply says that the evidence of this call is not used.
func (ve *verdicts) keepEarlier() {
	s := ve.t.Run.Step
	if said, ok := plan.EvidenceOf(s); !ok || said.Provenance != driver.AgentReported || len(s.Inputs) > 0 || s.Call != nil || s.Withheld != nil {
		return
	}
	ve.t.Solution = nil
	ve.t.Note = plain.Sentences(ve.t.Note, fmt.Sprintf("The evidence that an earlier call sent for step %d was not judged then; it is judged now, "+
		"and what this call sent was not used.", s.Index))
}

// startOver begins the challenge again where its driver does not read what
// another version of it kept, and reports whether it did.
func (ve *verdicts) startOver(k input.Task) (bool, error) {
	v := ve.t.Run.Step.State.Version
	if v == 0 || k.Free() || ve.t.Run.Step.Withheld != nil {
		return false, nil
	}
	desc, _, ok := ve.t.e.Drivers.Describe(k.Use)
	if !ok || plan.ReadsState(ve.t.State, k.Use) {
		return false, nil
	}
	why := fmt.Sprintf("The challenge of step %d starts over: driver %s %s does not read what another version of it kept.",
		ve.t.Run.Step.Index, k.Use, desc.Version)
	ve.t.Note = plain.Sentences(ve.t.Note, why)
	if err := ve.t.apply(run.Event{Kind: run.Restarted, Reason: why}); err != nil {
		return false, err
	}
	if ve.t.Solution.Supplied() {
		// It answers what the other version asked for.
		return true, ve.t.obtaining.setAside()
	}
	return true, nil
}

// need records what the driver asks for, with what the core adds: the step's
// own prompt, the approval in front and the files behind. No driver can forget
// them: an approval stands in front of whatever comes from outside.
func (ve *verdicts) need(ctx context.Context, k input.Task, res driver.AdvanceResult) error {
	if err := plan.Keeps(ve.t.State, k, res.State); err != nil {
		return err
	}
	ev := run.Event{Kind: run.Needed, State: res.State}
	var outside []driver.Input
	seen := map[string]bool{}
	for _, in := range res.NeedInput {
		kind := input.Of(in.Kind)
		if in.ID == "" || seen[in.ID] || seen[in.Kind] || kind.Reserved || input.ByID(in.ID).Reserved {
			return plan.Unavailable("driver %s asks for an input of kind %q and id %q: it cannot, or asks twice", k.Use, in.Kind, in.ID)
		}
		seen[in.ID] = true
		if kind.Evidence {
			in = input.Prompted(in, k)
		}
		ev.Inputs = append(ev.Inputs, in)
		if !kind.Internal {
			outside = append(outside, in)
			gated, err := plan.Gated(ve.t.State, k, in)
			if err != nil {
				return err
			}
			if !gated {
				if gated, err = ve.t.remembered.gates(ctx, in); err != nil {
					return err
				}
			}
			ev.Gated = ev.Gated || gated
		}
	}
	if len(outside) == 0 {
		return ve.t.apply(ev)
	}
	var err error
	phrase := ""
	if ev.Gated {
		phrase = plan.PhraseOf(ve.t.State, k)
	}
	if ev.Digest, err = input.ApprovedDigest(outside, phrase); err != nil {
		return plan.Unavailable("driver %s asks for an input that cannot be encoded: %v", k.Use, err)
	}
	if !filecheck.None(k.Common.Files) {
		files, err := input.Files(k, *ve.t.Run)
		if err != nil {
			return err
		}
		ev.Inputs = append(ev.Inputs, files)
	}
	if err := ve.t.apply(ev); err != nil {
		return err
	}
	if _, told := plan.EvidenceOf(ve.t.Run.Step); told {
		return ve.t.obtaining.moreDue()
	}
	return nil
}

// judge checks what the driver accepted against what the step says of its
// output, and writes the proof.
func (ve *verdicts) judge(ctx context.Context, k input.Task, a driver.Accepted) (Round, error) {
	if len(a.Output) == 0 {
		a.Output = a.Proof
	}
	if !json.Valid(a.Proof) || !json.Valid(a.Output) {
		return Round{}, plan.Unavailable("driver %s accepted step %d without a proof that is JSON", k.Use, ve.t.Run.Step.Index)
	}
	evidence, ok := plan.EvidenceOf(ve.t.Run.Step)
	if !ok {
		return Round{}, plan.Unavailable("driver %s accepted step %d without asking for any evidence", k.Use, ve.t.Run.Step.Index)
	}
	if len(a.Output) > maxOutput {
		return ve.tooLarge(ctx, k, evidence, len(a.Output))
	}
	looked := ""
	if a.Observed {
		looked = k.Use
		desc, _, _ := ve.t.e.Drivers.Describe(k.Use)
		if !drivers.MayClaim(desc, driver.ServerObserved) {
			return Round{}, plan.Unavailable("driver %s says that it observed step %d itself, but its descriptor says that it looks at nothing (effect %s)",
				k.Use, ve.t.Run.Step.Index, desc.Effect)
		}
		evidence = driver.Answer{Via: k.Use, Provenance: plan.Limited(ve.t.State, k.Use, driver.ServerObserved)}
	}
	if why := plan.Counted(ve.t.State, k, evidence); why != "" {
		return ve.t.replies.rejectSeen(ctx, looked, fault.EvidenceNotAccepted, why)
	}
	if problems := input.OutputProblems(k, plan.Reported(ve.t.State, evidence), a.Output); len(problems) > 0 {
		return ve.t.replies.rejectSeen(ctx, looked, fault.OutputInvalid, "the result does not match the step's output_schema: "+input.Describe(problems))
	}
	if k.Common.Judge != nil {
		return Round{}, ve.hold(k, a, evidence)
	}
	return Round{}, ve.accept(k, plan.Ref(ve.t.State, k.Use), run.Evidence{Proof: a.Proof, Output: a.Output}, evidence)
}

// tooLarge refuses an output. The evidence has to be shorter, unless the driver
// made a large output of small evidence.
func (ve *verdicts) tooLarge(ctx context.Context, k input.Task, evidence driver.Answer, output int) (Round, error) {
	why := fmt.Sprintf("the output of step %d has %d bytes, and at most %d are kept for later steps", ve.t.Run.Step.Index, output, maxOutput)
	submitted := 0
	for _, a := range ve.t.Run.Step.Answers {
		submitted += len(a.Value)
	}
	if submitted <= maxOutput {
		return Round{}, plan.Unavailable("driver %s cannot be used: %s", k.Use, why)
	}
	if plan.Reported(ve.t.State, evidence) {
		why += ": submit a shorter result"
	}
	return ve.t.replies.reject(ctx, fault.OutputInvalid, why)
}

// accept proves the step and opens the next one.
func (ve *verdicts) accept(k input.Task, judge run.DriverRef, ev run.Evidence, evidence driver.Answer) error {
	ev.Answers = ve.t.Run.Step.Answers
	ev.Approval, ev.Tries = ve.t.Run.Step.Approval, ve.t.Run.Step.Unsuccessful()
	ev.Salt = newSalt()
	ev.Failed = plan.FailedAnyway(ve.t.State, k, ev)
	permission, err := plan.Permission(ve.t.State, evidence)
	if err != nil {
		return err
	}
	ev.Permission = permission
	digest, err := ev.Digest()
	if err != nil {
		ev = wellFormedEvidence(ev)
		if digest, err = ev.Digest(); err != nil {
			return plan.Unavailable("the evidence of step %d cannot be digested: %v", ve.t.Run.Step.Index, err)
		}
	}
	challenge, err := run.Digest(orNull(k.Challenge))
	if err != nil {
		return err
	}
	proof, err := run.Proof{
		Previous: ve.t.Run.ProofHash(), Run: ve.t.Run.ID, Step: ve.t.Run.Step.Index, StepUUID: k.Step.UUID,
		ChallengeDigest: challenge, EvidenceDigest: digest, Provenance: evidence.Provenance,
		Driver: judge, Via: plan.Ref(ve.t.State, evidence.Via), At: ve.t.change.Now(),
	}.Seal()
	if err != nil {
		return err
	}
	accepted := run.Event{Kind: run.Accepted, Proof: &proof, Evidence: &ev, Nonce: newNonce(ve.t.Run.ID), Solves: ve.t.Run.Step.Nonce}
	if err := ve.t.apply(accepted); err != nil {
		return err
	}
	// What is left of the submission was for the step that is solved now.
	ve.t.Solution = nil
	ve.t.taken()
	ve.t.Solved = append(ve.t.Solved, present.Solved(*ve.t.Run, ve.t.Chain, len(ve.t.Run.Proofs)-1))
	return nil
}

// advanceFree passes a step without a challenge on any well-formed solution.
func (ve *verdicts) advanceFree(ctx context.Context, k input.Task) (Round, error) {
	if len(ve.t.Run.Step.Answers) > 0 {
		a := ve.t.Run.Step.Answers[0]
		if len(a.Value) > maxOutput {
			return ve.tooLarge(ctx, k, a, len(a.Value))
		}
		return Round{}, ve.accept(k, run.DriverRef{Name: runs.CoreDriver}, run.Evidence{Proof: json.RawMessage(`{"challenge":null}`), Output: a.Value}, a)
	}
	in := driver.Input{
		ID: input.EvidenceKind.Name, Kind: input.EvidenceKind.Name, Type: k.Common.Type,
		Description: "This step has no challenge. Do what it says, then report it; any well-formed solution is taken.",
	}
	shown := driver.AgentChallenge{Type: in.Type, Description: in.Description}
	s := ve.t.Solution
	if s == nil {
		if ve.t.Run.Step.Index == ve.t.Target {
			return ve.t.replies.leftOut(ctx, k, in, shown, plan.NothingGiven)
		}
		return ve.t.replies.present(ctx, k, in, shown)
	}
	ve.t.Solution = nil
	digest, err := input.Digest([]driver.Input{in})
	if err != nil {
		return Round{}, err
	}
	if err := ve.t.apply(run.Event{Kind: run.Needed, Inputs: []driver.Input{in}, Digest: digest}); err != nil {
		return Round{}, err
	}
	return Round{}, ve.t.apply(run.Event{Kind: run.Supplied, Input: in.ID, Via: runs.CoreDriver, Answer: &driver.Answer{
		InputID: in.ID, Value: s.Raw, Provenance: driver.AgentReported, Via: runs.CoreDriver,
	}})
}

// maxRounds bounds how often a challenge driver may ask for more about one step.
const maxRounds = 32

// maxOutput bounds what later steps see of a step, in bytes.
const maxOutput = 256 << 10

func orNull(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("null")
	}
	return raw
}
