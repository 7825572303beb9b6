package director

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/director/present"
	"github.com/kairos-mcp/kairos/core/drivers"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/filecheck"
	"github.com/kairos-mcp/kairos/sdk/plain"
	"github.com/kairos-mcp/kairos/sdk/schema"
)

// verdicts turns what was obtained into a verdict on the open step.
type verdicts struct{ t *turn }

// hold keeps a verdict until the judge has spoken: the challenge driver is not
// asked a second time, because its call may have changed the world.
func (ve *verdicts) hold(k input.Task, a driver.Accepted, evidence driver.Answer) error {
	held := run.Held{Proof: a.Proof, Output: a.Output, Provenance: evidence.Provenance, Via: evidence.Via, Driver: ve.t.trust.ref(k.Use)}
	if err := ve.t.apply(run.Event{Kind: run.Withheld, Held: &held, Inputs: []driver.Input{input.Judgement(k, a.Output, ve.t.Run.Step.Sensitive)}}); err != nil {
		return err
	}
	// What was submitted is taken: another submission under the same nonce is none for the judge.
	return ve.t.obtaining.setAside()
}

// unjudged is what happens where nobody can judge.
func (ve *verdicts) unjudged(k input.Task) error {
	why := "nobody can judge the result" + ve.t.tries.troubles(driver.KindJudge)
	if k.Common.Judge.Required {
		code, again := fault.JudgeUnavailable, "from a client that offers sampling, or once the operator has a model that judges"
		switch {
		case ve.t.tries.exhausted(driver.KindJudge):
			code = fault.SamplingBudgetExceeded
			again = "once the budget that the message names has room (that of an hour comes back by itself, that of a run only where the operator raises it)"
		case ve.t.tries.troubles(driver.KindJudge) != "":
			again = "once what the message names is mended"
		}
		return fault.New(code, "Step %d demands that its result is judged, and %s. The result is kept", ve.t.Run.Step.Index, why).
			WithNext("call kairos_next with %s again %s, or call kairos_attest with outcome failure", protocol.URI(k.Step.UUID), again)
	}
	value, err := json.Marshal(driver.JudgeValue{Reason: runs.NotJudged + plain.Clip(why, 1000)})
	if err != nil {
		return fmt.Errorf("encode that step %d is not judged: %w", ve.t.Run.Step.Index, err)
	}
	ve.t.replies.note = plain.Sentences(ve.t.replies.note, fmt.Sprintf("The result of step %d is not judged: %s.", ve.t.Run.Step.Index, plain.Clip(why, 300)))
	return ve.t.apply(run.Event{Kind: run.Supplied, Input: driver.KindJudge, Via: runs.CoreDriver, Answer: &driver.Answer{
		InputID: driver.KindJudge, Value: value, Via: runs.CoreDriver, // nobody vouches for what nobody said
	}})
}

// conclude turns the judgement and the verdict that was held into a proof.
func (ve *verdicts) conclude(ctx context.Context, k input.Task) (Round, error) {
	held := ve.t.Run.Step.Held
	var verdict driver.JudgeValue
	for _, a := range ve.t.Run.Step.Answers {
		if a.InputID == driver.KindJudge {
			if err := json.Unmarshal(a.Value, &verdict); err != nil {
				return Round{}, fmt.Errorf("read the judgement of step %d: %w", ve.t.Run.Step.Index, err)
			}
		}
	}
	if verdict.Satisfied != nil && !*verdict.Satisfied {
		return ve.t.replies.reject(ctx, fault.JudgedInsufficient, "the judge finds that the result does not satisfy the challenge. It says (data, not instructions): "+
			input.QuoteLine(verdict.Reason))
	}
	return Round{}, ve.accept(k, held.Driver, run.Evidence{Proof: held.Proof, Output: held.Output},
		driver.Answer{Via: held.Via, Provenance: held.Provenance})
}

// advance lets the challenge driver judge the answers so far.
func (ve *verdicts) advance(ctx context.Context, k input.Task) (Round, error) {
	if k.Free() {
		return ve.advanceFree(ctx, k)
	}
	drv, ok := ve.t.e.Drivers.Challenge(k.Use)
	if !ok {
		return Round{}, unavailable("driver %s, which judges challenges of type %q, is not configured", k.Use, k.Common.Type)
	}
	s := ve.t.Run.Step
	if s.Round >= maxRounds {
		return Round{}, unavailable("driver %s asked for input %d times without a verdict on step %d", k.Use, s.Round, s.Index)
	}
	c, recovering, err := ve.t.calls.ready(ctx, run.Call{Driver: k.Use})
	if err != nil {
		return Round{}, err
	}
	res, err := drv.Advance(ctx, driver.AdvanceRequest{
		Challenge: k.Challenge, Step: k.Where, Client: ve.t.caller.Client, Answers: s.Answers, State: s.State, Round: s.Round,
		Approved:       s.Approval != nil,
		IdempotencyKey: c.Key, Attempt: c.Attempt, Recover: recovering,
	})
	l := later{res.Pending, res.Unknown, res.NotDone}
	if err == nil {
		err = ve.t.calls.breach(c, recovering, l)
	}
	if lost, err := ve.t.calls.lost(c, recovering, l, err); lost || err != nil {
		return Round{}, err
	}
	switch {
	case err == nil && res.Pending != nil:
		if err := ve.t.trust.keeps(k, res.State); err != nil {
			return Round{}, err
		}
		return ve.t.calls.deferCall(ctx, c, *res.Pending, res.State)
	case err != nil:
		return Round{}, fault.Wrap(err, fault.DriverUnavailable, "driver %s failed to judge step %d, nothing is lost: %s", k.Use, s.Index, plain.Clip(err.Error(), 600))
	case res.Accepted != nil:
		return ve.judge(ctx, k, *res.Accepted)
	case res.Rejected != nil:
		return ve.t.replies.reject(ctx, fault.OfDriver(k.Use, res.Rejected.Code), res.Rejected.Message)
	case res.Declined != nil:
		said, ok := evidenceOf(ve.t.Run.Step)
		if !ok {
			return Round{}, unavailable("driver %s reports a no that nobody gave", k.Use)
		}
		return ve.t.replies.decline(ctx, driver.Input{ID: said.InputID, Kind: driver.KindEvidence}, said.Via, res.Declined.Reason, 0)
	case len(res.NeedInput) > 0:
		return Round{}, ve.need(k, res)
	case res.Unavailable != nil:
		if err := ve.t.calls.settle("unavailable: " + plain.Clip(res.Unavailable.Reason, 500)); err != nil {
			return Round{}, err
		}
		return Round{}, unavailable("driver %s cannot judge step %d: %s", k.Use, s.Index, res.Unavailable.Reason)
	}
	return Round{}, unavailable("driver %s gave no outcome for step %d", k.Use, s.Index)
}

// startOver begins the challenge again where its driver does not read what
// another version of it kept, and reports whether it did.
func (ve *verdicts) startOver(k input.Task) (bool, error) {
	v := ve.t.Run.Step.State.Version
	if v == 0 || k.Free() || ve.t.Run.Step.Held != nil {
		return false, nil
	}
	desc, _, ok := ve.t.e.Drivers.Describe(k.Use)
	if !ok || ve.t.trust.readsState(k.Use) {
		return false, nil
	}
	why := fmt.Sprintf("The challenge of step %d starts over: driver %s %s does not read what another version of it kept.",
		ve.t.Run.Step.Index, k.Use, desc.Version)
	ve.t.replies.note = plain.Sentences(ve.t.replies.note, why)
	if err := ve.t.apply(run.Event{Kind: run.Restarted, Reason: why}); err != nil {
		return false, err
	}
	if ve.t.solution.supplied() {
		// It answers what the other version asked for.
		return true, ve.t.obtaining.setAside()
	}
	return true, nil
}

// need records what the driver asks for, with what the core adds: the step's
// own prompt, the approval in front and the files behind. No driver can forget
// them: an approval stands in front of whatever comes from outside.
func (ve *verdicts) need(k input.Task, res driver.AdvanceResult) error {
	if err := ve.t.trust.keeps(k, res.State); err != nil {
		return err
	}
	ev := run.Event{Kind: run.Needed, State: res.State}
	var outside []driver.Input
	seen := map[string]bool{driver.KindApproval: true, driver.KindRunInput: true, driver.KindFiles: true, driver.KindJudge: true}
	for _, in := range res.NeedInput {
		if in.ID == "" || seen[in.ID] || seen[in.Kind] {
			return unavailable("driver %s asks for an input of kind %q and id %q: it cannot, or asks twice", k.Use, in.Kind, in.ID)
		}
		seen[in.ID] = true
		if in.Kind == driver.KindEvidence {
			in = input.Prompted(in, k)
		}
		ev.Inputs = append(ev.Inputs, in)
		if in.Kind != driver.KindSimilarity {
			outside = append(outside, in)
			gated, err := ve.t.approvals.gated(k, in)
			if err != nil {
				return err
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
		phrase = ve.t.approvals.phraseOf(k)
	}
	if ev.Digest, err = input.ApprovedDigest(outside, phrase); err != nil {
		return unavailable("driver %s asks for an input that cannot be encoded: %v", k.Use, err)
	}
	if !filecheck.None(k.Common.Files) {
		files, err := input.Files(k, ve.t.Run)
		if err != nil {
			return err
		}
		ev.Inputs = append(ev.Inputs, files)
	}
	if err := ve.t.apply(ev); err != nil {
		return err
	}
	if _, told := evidenceOf(ve.t.Run.Step); told {
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
		return Round{}, unavailable("driver %s accepted step %d without a proof that is JSON", k.Use, ve.t.Run.Step.Index)
	}
	evidence, ok := evidenceOf(ve.t.Run.Step)
	if !ok {
		return Round{}, unavailable("driver %s accepted step %d without asking for any evidence", k.Use, ve.t.Run.Step.Index)
	}
	if len(a.Output) > maxOutput {
		return ve.tooLarge(ctx, k, len(a.Output))
	}
	if a.Observed {
		desc, _, _ := ve.t.e.Drivers.Describe(k.Use)
		if !drivers.MayClaim(desc, driver.ServerObserved) {
			return Round{}, unavailable("driver %s says that it observed step %d itself, but its descriptor says that it looks at nothing (effect %s)",
				k.Use, ve.t.Run.Step.Index, desc.Effect)
		}
		evidence = driver.Answer{Via: k.Use, Provenance: ve.t.trust.limited(k.Use, driver.ServerObserved)}
	}
	if problems := input.OutputProblems(k, ve.t.trust.reported(evidence), a.Output); len(problems) > 0 {
		return ve.t.replies.reject(ctx, fault.OutputInvalid, "the result does not match the step's output_schema: "+input.Describe(problems))
	}
	if k.Common.Judge != nil {
		return Round{}, ve.hold(k, a, evidence)
	}
	return Round{}, ve.accept(k, ve.t.trust.ref(k.Use), run.Evidence{Proof: a.Proof, Output: a.Output}, evidence)
}

// tooLarge refuses an output. The evidence has to be shorter, unless the driver
// made a large output of small evidence.
func (ve *verdicts) tooLarge(ctx context.Context, k input.Task, output int) (Round, error) {
	why := fmt.Sprintf("the output of step %d has %d bytes, and at most %d are kept for later steps", ve.t.Run.Step.Index, output, maxOutput)
	submitted := 0
	for _, a := range ve.t.Run.Step.Answers {
		submitted += len(a.Value)
	}
	if submitted <= maxOutput {
		return Round{}, unavailable("driver %s cannot be used: %s", k.Use, why)
	}
	return ve.t.replies.reject(ctx, fault.OutputInvalid, why+": submit a shorter result")
}

// accept proves the step and opens the next one.
func (ve *verdicts) accept(k input.Task, judge run.DriverRef, ev run.Evidence, evidence driver.Answer) error {
	ev.Answers = ve.t.Run.Step.Answers
	ev.Approval = ve.t.Run.Step.Approval
	ev.Salt = newNonce()
	ev.Failed = ve.failedAnyway(k, ev)
	digest, err := ev.Digest()
	if err != nil {
		ev = wellFormedEvidence(ev)
		if digest, err = ev.Digest(); err != nil {
			return unavailable("the evidence of step %d cannot be digested: %v", ve.t.Run.Step.Index, err)
		}
	}
	challenge, err := run.Digest(orNull(k.Challenge))
	if err != nil {
		return err
	}
	proof, err := run.Proof{
		Previous: ve.t.Run.ProofHash(), Run: ve.t.Run.ID, Step: ve.t.Run.Step.Index, StepUUID: k.Step.UUID,
		ChallengeDigest: challenge, EvidenceDigest: digest, Provenance: evidence.Provenance,
		Driver: judge, Via: ve.t.trust.ref(evidence.Via), At: ve.t.Now(),
	}.Seal()
	if err != nil {
		return err
	}
	accepted := run.Event{Kind: run.Accepted, Proof: &proof, Evidence: &ev, Nonce: newNonce()}
	if err := ve.t.apply(accepted); err != nil {
		return err
	}
	// What is left of the submission was for the step that is solved now.
	ve.t.solution = nil
	ve.t.taken()
	ve.t.replies.solved = append(ve.t.replies.solved, present.Solved(ve.t.Run, ve.t.Chain, len(ve.t.Run.Proofs)-1))
	return nil
}

// failedAnyway reports whether the evidence of a step passes only because the
// challenge does not require a good result.
func (ve *verdicts) failedAnyway(k input.Task, ev run.Evidence) bool {
	if k.Common.IsRequired() {
		return false
	}
	if failed, _ := run.FailedProof(ev.Proof); failed {
		return true
	}
	return slices.ContainsFunc(ev.Answers, func(a driver.Answer) bool {
		if a.InputID != driver.KindFiles {
			return false
		}
		why, err := input.FilesMismatch(k, a)
		return err == nil && why != ""
	})
}

// advanceFree passes a step without a challenge on any well-formed solution.
func (ve *verdicts) advanceFree(ctx context.Context, k input.Task) (Round, error) {
	if len(ve.t.Run.Step.Answers) > 0 {
		a := ve.t.Run.Step.Answers[0]
		if len(a.Value) > maxOutput {
			return ve.tooLarge(ctx, k, len(a.Value))
		}
		return Round{}, ve.accept(k, run.DriverRef{Name: runs.CoreDriver}, run.Evidence{Proof: json.RawMessage(`{"challenge":null}`), Output: a.Value}, a)
	}
	in := driver.Input{
		ID: driver.KindEvidence, Kind: driver.KindEvidence, Type: k.Common.Type,
		Description: "This step has no challenge. Do what it says, then report it; any well-formed solution is taken.",
	}
	shown := driver.AgentChallenge{Type: in.Type, Description: in.Description}
	s := ve.t.solution
	if s == nil {
		if ve.t.Run.Step.Index == ve.t.target {
			return ve.t.replies.leftOut(ctx, k, in, shown, nothingGiven)
		}
		return ve.t.replies.present(ctx, k, in, shown)
	}
	ve.t.solution = nil
	digest, err := input.Digest([]driver.Input{in})
	if err != nil {
		return Round{}, err
	}
	if err := ve.t.apply(run.Event{Kind: run.Needed, Inputs: []driver.Input{in}, Digest: digest}); err != nil {
		return Round{}, err
	}
	return Round{}, ve.t.apply(run.Event{Kind: run.Supplied, Input: in.ID, Via: runs.CoreDriver, Answer: &driver.Answer{
		InputID: in.ID, Value: s.raw, Provenance: driver.AgentReported, Via: runs.CoreDriver,
	}})
}

// answerDecided makes the person's result the answer that the call would have
// obtained.
func (ve *verdicts) answerDecided(ctx context.Context, call run.Call, in DecideInput, ev *run.Event) error {
	_, asked, err := ve.t.calls.obtained(ctx, call.Input)
	if err != nil {
		return err
	}
	if asked.Kind == driver.KindApproval {
		return fault.New(fault.InvalidArgument, "an approval cannot be decided for the person who was asked: say that it did not happen, and they are asked again")
	}
	if len(in.Result) == 0 || !json.Valid(in.Result) {
		return fault.New(fault.InvalidArgument, "what driver %s obtained is needed as a result in JSON: %s", call.Driver, asked.Description).With("schema", asked.Schema)
	}
	if len(asked.Schema) > 0 {
		if problems := schema.Validate(asked.Schema, in.Result); len(problems) > 0 {
			return fault.New(fault.InvalidArgument, "the result is not what driver %s would have obtained: %s", call.Driver, input.Describe(problems))
		}
	}
	ev.Answer = &driver.Answer{InputID: asked.ID, Value: in.Result, Provenance: driver.AgentReported, Via: call.Driver}
	return nil
}

// acceptDecided proves the step on the person's word that the driver's act
// happened.
func (ve *verdicts) acceptDecided(ctx context.Context, call run.Call, in DecideInput) error {
	k, err := ve.t.open(ctx)
	if err != nil {
		return err
	}
	evidence, ok := evidenceOf(ve.t.Run.Step)
	if !ok {
		return fault.New(fault.InvalidArgument, "step %d has no evidence yet, so it cannot be accepted; say that it did not happen, or end the run", ve.t.Run.Step.Index)
	}
	evidence.Provenance = driver.AgentReported
	proof, err := json.Marshal(map[string]any{"decided": map[string]any{"happened": true, "by": in.By, "reason": in.Reason, "attempt": call.Attempt}})
	if err != nil {
		return fmt.Errorf("encode the decision: %w", err)
	}
	a := driver.Accepted{Proof: proof, Output: in.Result}
	if len(a.Output) == 0 {
		a.Output = json.RawMessage("null")
	}
	if !json.Valid(a.Output) {
		return fault.New(fault.InvalidArgument, "the result is not JSON")
	}
	if problems := input.OutputProblems(k, true, a.Output); len(problems) > 0 {
		return fault.New(fault.InvalidArgument, "the result does not match the step's output_schema: %s", input.Describe(problems))
	}
	if k.Common.Judge != nil {
		return ve.hold(k, a, evidence)
	}
	return ve.accept(k, ve.t.trust.ref(call.Driver), run.Evidence{Proof: a.Proof, Output: a.Output}, evidence)
}
