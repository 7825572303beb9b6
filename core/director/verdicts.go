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

// advance lets the challenge driver judge the answers so far.
func advance(ctx context.Context, t *turn, k input.Task) (plan.Action, error) {
	if k.Free() {
		return advanceFree(ctx, t, k)
	}
	drv, ok := t.e.Drivers.Challenge(k.Use)
	if !ok {
		return nil, plan.Unavailable("driver %s, which judges challenges of type %q, is not configured", k.Use, k.Common.Type)
	}
	s := t.Run.Step
	if s.Round >= maxRounds {
		return nil, plan.Unavailable("driver %s asked for input %d times without a verdict on step %d", k.Use, s.Round, s.Index)
	}
	c, recovering, err := ready(ctx, t, run.Call{Driver: k.Use})
	if err != nil {
		return nil, err
	}
	res, err := drv.Advance(ctx, driver.AdvanceRequest{
		Challenge: k.Challenge, Step: k.Where, Client: t.Caller.Client, Answers: s.Answers, State: s.State, Round: s.Round,
		Approved: s.Approval != nil, IdempotencyKey: c.Key, Attempt: c.Attempt, Recover: recovering, Cancel: c.Cancelled,
	})
	l := plan.Deferral{Pending: res.Pending, Unknown: res.Unknown, NotDone: res.NotDone}
	t.tick()
	if err == nil {
		err = plan.Breach(t.State, c, recovering, l)
	}
	if lost, err := lost(t, c, recovering, l, err); lost || err != nil {
		return nil, err
	}
	switch {
	case err == nil && res.Pending != nil:
		if err := plan.Keeps(t.State, k, res.State); err != nil {
			return nil, err
		}
		return deferCall(t, c, *res.Pending, res.State)
	case err != nil:
		return nil, fault.Wrap(err, fault.DriverUnavailable, "driver %s failed to judge step %d, nothing is lost: %s", k.Use, s.Index, plain.Clip(err.Error(), 600))
	case res.Accepted != nil:
		return judge(ctx, t, k, *res.Accepted)
	case res.Rejected != nil:
		looked := ""
		if plan.JudgeLooks(t.State, k) {
			looked = k.Use
		}
		return plan.Reject(looked, fault.OfDriver(k.Use, res.Rejected.Code), res.Rejected.Message), nil
	case res.Declined != nil:
		said, ok := plan.EvidenceOf(t.Run.Step)
		if !ok {
			return nil, plan.Unavailable("driver %s reports a decline that nobody gave", k.Use)
		}
		return plan.Decline(driver.Input{ID: said.InputID}, said.Via, res.Declined.Reason, 0), nil
	case len(res.NeedInput) > 0:
		return nil, need(ctx, t, k, res)
	case res.Unavailable != nil:
		if err := settleCall(t, "unavailable: "+plain.Clip(res.Unavailable.Reason, 500)); err != nil {
			return nil, err
		}
		return nil, plan.Unavailable("driver %s cannot judge step %d: %s", k.Use, s.Index, res.Unavailable.Reason)
	}
	return nil, plan.Unavailable("driver %s gave no outcome for step %d", k.Use, s.Index)
}

// keepEarlier: evidence of the agent that no driver has judged yet, because it did not
// answer then, is judged now. The reply says that the evidence of this call is not used.
func keepEarlier(t *turn) {
	s := t.Run.Step
	if said, ok := plan.EvidenceOf(s); !ok || said.Provenance != driver.AgentReported || len(s.Inputs) > 0 || s.Call != nil || s.Withheld != nil {
		return
	}
	t.Solution = nil
	t.Note = plain.Sentences(t.Note, fmt.Sprintf("The evidence that an earlier call sent for step %d was not judged then; it is judged now, "+
		"and what this call sent was not used.", s.Index))
}

// need records what the driver asks for, with what the core adds: the step's
// own prompt, the approval in front and the files behind. No driver can forget
// them: an approval stands in front of whatever comes from outside.
func need(ctx context.Context, t *turn, k input.Task, res driver.AdvanceResult) error {
	if err := plan.Keeps(t.State, k, res.State); err != nil {
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
			gated, err := plan.Gated(t.State, k, in)
			if err != nil {
				return err
			}
			if !gated {
				if gated, err = gates(ctx, t, in); err != nil {
					return err
				}
			}
			ev.Gated = ev.Gated || gated
		}
	}
	if len(outside) == 0 {
		return t.apply(ev)
	}
	var err error
	phrase := ""
	if ev.Gated {
		phrase = plan.PhraseOf(t.State, k)
	}
	if ev.Digest, err = input.ApprovedDigest(outside, phrase); err != nil {
		return plan.Unavailable("driver %s asks for an input that cannot be encoded: %v", k.Use, err)
	}
	if !filecheck.None(k.Common.Files) {
		files, err := input.Files(k, *t.Run)
		if err != nil {
			return err
		}
		ev.Inputs = append(ev.Inputs, files)
	}
	if err := t.apply(ev); err != nil {
		return err
	}
	if _, told := plan.EvidenceOf(t.Run.Step); told {
		return moreDue(t)
	}
	return nil
}

// judge checks what the driver accepted against what the step says of its
// output, and writes the proof.
func judge(ctx context.Context, t *turn, k input.Task, a driver.Accepted) (plan.Action, error) {
	if len(a.Output) == 0 {
		a.Output = a.Proof
	}
	if !json.Valid(a.Proof) || !json.Valid(a.Output) {
		return nil, plan.Unavailable("driver %s accepted step %d without a proof that is JSON", k.Use, t.Run.Step.Index)
	}
	evidence, ok := plan.EvidenceOf(t.Run.Step)
	if !ok {
		return nil, plan.Unavailable("driver %s accepted step %d without asking for any evidence", k.Use, t.Run.Step.Index)
	}
	if len(a.Output) > maxOutput {
		return tooLarge(ctx, t, k, evidence, len(a.Output))
	}
	looked := ""
	if a.Observed {
		looked = k.Use
		desc, _, _ := t.e.Drivers.Describe(k.Use)
		if !drivers.MayClaim(desc, driver.ServerObserved) {
			return nil, plan.Unavailable("driver %s says that it observed step %d itself, but its descriptor says that it looks at nothing (effect %s)",
				k.Use, t.Run.Step.Index, desc.Effect)
		}
		evidence = driver.Answer{Via: k.Use, Provenance: plan.Limited(t.State, k.Use, driver.ServerObserved)}
	}
	if why := plan.Counted(t.State, k, evidence); why != "" {
		return plan.Reject(looked, fault.EvidenceNotAccepted, why), nil
	}
	if problems := input.OutputProblems(k, plan.Reported(t.State, evidence), a.Output); len(problems) > 0 {
		return plan.Reject(looked, fault.OutputInvalid, "the result does not match the step's output_schema: "+input.Describe(problems)), nil
	}
	if k.Common.Judge != nil {
		return nil, withhold(t, k, a, evidence)
	}
	return nil, accept(t, k, plan.Ref(t.State, k.Use), run.Evidence{Proof: a.Proof, Output: a.Output}, evidence)
}

// tooLarge refuses an output. The evidence has to be shorter, unless the driver
// made a large output of small evidence.
func tooLarge(ctx context.Context, t *turn, k input.Task, evidence driver.Answer, output int) (plan.Action, error) {
	why := fmt.Sprintf("the output of step %d has %d bytes, and at most %d are kept for later steps", t.Run.Step.Index, output, maxOutput)
	submitted := 0
	for _, a := range t.Run.Step.Answers {
		submitted += len(a.Value)
	}
	if submitted <= maxOutput {
		return nil, plan.Unavailable("driver %s cannot be used: %s", k.Use, why)
	}
	if plan.Reported(t.State, evidence) {
		why += ": submit a shorter result"
	}
	return plan.Reject("", fault.OutputInvalid, why), nil
}

// accept proves the step and opens the next one.
func accept(t *turn, k input.Task, judge run.DriverRef, ev run.Evidence, evidence driver.Answer) error {
	ev.Answers = t.Run.Step.Answers
	ev.Approval, ev.Tries = t.Run.Step.Approval, t.Run.Step.Unsuccessful()
	ev.Salt = newSalt()
	ev.Failed = plan.FailedAnyway(t.State, k, ev)
	permission, err := plan.Permission(t.State, evidence)
	if err != nil {
		return err
	}
	ev.Permission = permission
	digest, err := ev.Digest()
	if err != nil {
		ev = wellFormedEvidence(ev)
		if digest, err = ev.Digest(); err != nil {
			return plan.Unavailable("the evidence of step %d cannot be digested: %v", t.Run.Step.Index, err)
		}
	}
	challenge, err := run.Digest(orNull(k.Challenge))
	if err != nil {
		return err
	}
	proof, err := run.Proof{
		Previous: t.Run.ProofHash(), Run: t.Run.ID, Step: t.Run.Step.Index, StepUUID: k.Step.UUID,
		ChallengeDigest: challenge, EvidenceDigest: digest, Provenance: evidence.Provenance,
		Driver: judge, Via: plan.Ref(t.State, evidence.Via), At: t.change.Now(),
	}.Seal()
	if err != nil {
		return err
	}
	accepted := run.Event{Kind: run.Accepted, Proof: &proof, Evidence: &ev, Nonce: newNonce(t.Run.ID), Solves: t.Run.Step.Nonce}
	if err := t.apply(accepted); err != nil {
		return err
	}
	// What is left of the submission was for the step that is solved now.
	t.Solution = nil
	t.taken()
	t.Solved = append(t.Solved, present.Solved(*t.Run, t.Chain, len(t.Run.Proofs)-1))
	return nil
}

// advanceFree passes a step without a challenge on any well-formed solution.
func advanceFree(ctx context.Context, t *turn, k input.Task) (plan.Action, error) {
	if len(t.Run.Step.Answers) > 0 {
		a := t.Run.Step.Answers[0]
		if len(a.Value) > maxOutput {
			return tooLarge(ctx, t, k, a, len(a.Value))
		}
		return nil, accept(t, k, run.DriverRef{Name: runs.CoreDriver}, run.Evidence{Proof: json.RawMessage(`{"challenge":null}`), Output: a.Value}, a)
	}
	in := driver.Input{
		ID: input.EvidenceKind.Name, Kind: input.EvidenceKind.Name, Type: k.Common.Type,
		Description: "This step has no challenge. Do what it says, then report it; any well-formed solution is taken.",
	}
	shown := driver.AgentChallenge{Type: in.Type, Description: in.Description}
	s := t.Solution
	if s == nil {
		if t.Run.Step.Index == t.Target {
			return plan.Reply{StepReply: plan.LeftOutReply(t.State, k, in, shown, plan.NothingGiven)}, nil
		}
		return plan.Reply{StepReply: plan.StepReply(t.State, k, in, shown)}, nil
	}
	t.Solution = nil
	digest, err := input.Digest([]driver.Input{in})
	if err != nil {
		return nil, err
	}
	if err := t.apply(run.Event{Kind: run.Needed, Inputs: []driver.Input{in}, Digest: digest}); err != nil {
		return nil, err
	}
	return nil, t.apply(run.Event{Kind: run.Supplied, Input: in.ID, Via: runs.CoreDriver, Answer: &driver.Answer{
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
