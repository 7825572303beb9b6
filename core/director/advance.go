package director

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/director/present"
	"github.com/kairos-mcp/kairos/core/drivers"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/filecheck"
	"github.com/kairos-mcp/kairos/sdk/plain"
	"github.com/kairos-mcp/kairos/sdk/schema"
)

// maxRounds bounds how often a challenge driver may ask for more about one step.
const maxRounds = 32

// advance lets the challenge driver judge the answers so far.
func (ve *verdicts) advance(ctx context.Context, k task) (Round, error) {
	if k.free() {
		return ve.advanceFree(ctx, k)
	}
	drv, ok := ve.t.e.Drivers.Challenge(k.use)
	if !ok {
		return Round{}, unavailable("driver %s, which judges challenges of type %q, is not configured", k.use, k.common.Type)
	}
	s := ve.t.Run.Step
	if s.Round >= maxRounds {
		return Round{}, unavailable("driver %s asked for input %d times without a verdict on step %d", k.use, s.Round, s.Index)
	}
	c, recovering, err := ve.t.calls.ready(ctx, run.Call{Driver: k.use})
	if err != nil {
		return Round{}, err
	}
	res, err := drv.Advance(ctx, driver.AdvanceRequest{
		Challenge: k.challenge, Step: k.where, Client: ve.t.caller.Client, Answers: s.Answers, State: s.State, Round: s.Round,
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
		return Round{}, fault.Wrap(err, fault.DriverUnavailable, "driver %s failed to judge step %d, nothing is lost: %s", k.use, s.Index, plain.Clip(err.Error(), 600))
	case res.Accepted != nil:
		return ve.judge(ctx, k, *res.Accepted)
	case res.Rejected != nil:
		return ve.t.replies.reject(ctx, fault.OfDriver(k.use, res.Rejected.Code), res.Rejected.Message)
	case res.Declined != nil:
		said, ok := evidenceOf(ve.t.Run.Step)
		if !ok {
			return Round{}, unavailable("driver %s reports a no that nobody gave", k.use)
		}
		return ve.t.replies.decline(ctx, driver.Input{ID: said.InputID, Kind: driver.KindEvidence}, said.Via, res.Declined.Reason, 0)
	case len(res.NeedInput) > 0:
		return Round{}, ve.need(k, res)
	case res.Unavailable != nil:
		if err := ve.t.calls.settle("unavailable: " + plain.Clip(res.Unavailable.Reason, 500)); err != nil {
			return Round{}, err
		}
		return Round{}, unavailable("driver %s cannot judge step %d: %s", k.use, s.Index, res.Unavailable.Reason)
	}
	return Round{}, unavailable("driver %s gave no outcome for step %d", k.use, s.Index)
}

// startOver begins the challenge again where its driver does not read what
// another version of it kept, and reports whether it did.
func (ve *verdicts) startOver(k task) (bool, error) {
	v := ve.t.Run.Step.State.Version
	if v == 0 || k.free() || ve.t.Run.Step.Held != nil {
		return false, nil
	}
	desc, _, ok := ve.t.e.Drivers.Describe(k.use)
	if !ok || ve.t.trust.readsState(k.use) {
		return false, nil
	}
	why := fmt.Sprintf("The challenge of step %d starts over: driver %s %s does not read what another version of it kept.",
		ve.t.Run.Step.Index, k.use, desc.Version)
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

// readsState reports whether the driver reads the state that is kept for the step.
func (tr *trust) readsState(name string) bool {
	v := tr.t.Run.Step.State.Version
	desc, _, _ := tr.t.e.Drivers.Describe(name)
	return v == 0 || slices.Contains(desc.StateVersions, v)
}

// need records what the driver asks for, with what the core adds: the step's
// own prompt, the approval in front and the files behind. No driver can forget
// them: an approval stands in front of whatever comes from outside.
func (ve *verdicts) need(k task, res driver.AdvanceResult) error {
	if err := ve.t.trust.keeps(k, res.State); err != nil {
		return err
	}
	ev := run.Event{Kind: run.Needed, State: res.State}
	var outside []driver.Input
	seen := map[string]bool{driver.KindApproval: true, driver.KindRunInput: true, driver.KindFiles: true, driver.KindJudge: true}
	for _, in := range res.NeedInput {
		if in.ID == "" || seen[in.ID] || seen[in.Kind] {
			return unavailable("driver %s asks for an input of kind %q and id %q: it cannot, or asks twice", k.use, in.Kind, in.ID)
		}
		seen[in.ID] = true
		if in.Kind == driver.KindEvidence {
			in = withStepPrompt(in, k)
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
	if ev.Digest, err = approvedDigest(outside, phrase); err != nil {
		return unavailable("driver %s asks for an input that cannot be encoded: %v", k.use, err)
	}
	if !filecheck.None(k.common.Files) {
		files, err := ve.t.obtaining.filesInput(k)
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

// keeps refuses state of a version that the driver does not list.
func (tr *trust) keeps(k task, s driver.State) error {
	desc, _, _ := tr.t.e.Drivers.Describe(k.use)
	if s.Version != 0 && !slices.Contains(desc.StateVersions, s.Version) {
		return unavailable("driver %s keeps state of version %d, which its descriptor does not list", k.use, s.Version)
	}
	return nil
}

// withStepPrompt applies the challenge's `sampling` block and approval mode.
func withStepPrompt(in driver.Input, k task) driver.Input {
	if in.Type == "" {
		in.Type = k.common.Type
	}
	if k.approval != "" {
		in.Approval = k.approval
	}
	s := k.common.Sampling.Sound()
	if s == nil {
		return in
	}
	in.System = cmp.Or(s.System, in.System)
	in.User = cmp.Or(s.User, in.User)
	if s.MaxTokens != nil {
		in.MaxTokens = *s.MaxTokens
	}
	in.Temperature = cmp.Or(s.Temperature, in.Temperature)
	in.TopP = cmp.Or(s.TopP, in.TopP)
	return in
}

// approvedDigest is of what a person approves: the inputs, and what they have to
// type for it, if anything.
func approvedDigest(inputs []driver.Input, phrase string) (string, error) {
	if phrase == "" {
		return inputDigest(inputs)
	}
	b, err := json.Marshal(struct {
		Inputs []driver.Input `json:"inputs"`
		Phrase string         `json:"phrase"`
	}{inputs, phrase})
	if err != nil {
		return "", err
	}
	return run.Digest(b)
}

func inputDigest(inputs []driver.Input) (string, error) {
	b, err := json.Marshal(inputs)
	if err != nil {
		return "", err
	}
	return run.Digest(b)
}

// judge checks what the driver accepted against what the step says of its
// output, and writes the proof.
func (ve *verdicts) judge(ctx context.Context, k task, a driver.Accepted) (Round, error) {
	if len(a.Output) == 0 {
		a.Output = a.Proof
	}
	if !json.Valid(a.Proof) || !json.Valid(a.Output) {
		return Round{}, unavailable("driver %s accepted step %d without a proof that is JSON", k.use, ve.t.Run.Step.Index)
	}
	evidence, ok := evidenceOf(ve.t.Run.Step)
	if !ok {
		return Round{}, unavailable("driver %s accepted step %d without asking for any evidence", k.use, ve.t.Run.Step.Index)
	}
	if len(a.Output) > maxOutput {
		return ve.tooLarge(ctx, k, len(a.Output))
	}
	if a.Observed {
		desc, _, _ := ve.t.e.Drivers.Describe(k.use)
		if !drivers.MayClaim(desc, driver.ServerObserved) {
			return Round{}, unavailable("driver %s says that it observed step %d itself, but its descriptor says that it looks at nothing (effect %s)",
				k.use, ve.t.Run.Step.Index, desc.Effect)
		}
		evidence = driver.Answer{Via: k.use, Provenance: ve.t.trust.limited(k.use, driver.ServerObserved)}
	}
	if problems := outputProblems(k, ve.t.trust.reported(evidence), a.Output); len(problems) > 0 {
		return ve.t.replies.reject(ctx, fault.OutputInvalid, "the result does not match the step's output_schema: "+describe(problems))
	}
	if k.common.Judge != nil {
		return Round{}, ve.hold(k, a, evidence)
	}
	return Round{}, ve.accept(k, ve.t.trust.ref(k.use), run.Evidence{Proof: a.Proof, Output: a.Output}, evidence)
}

// maxOutput bounds what later steps see of a step, in bytes.
const maxOutput = 256 << 10

// tooLarge refuses an output. The evidence has to be shorter, unless the driver
// made a large output of small evidence.
func (ve *verdicts) tooLarge(ctx context.Context, k task, output int) (Round, error) {
	why := fmt.Sprintf("the output of step %d has %d bytes, and at most %d are kept for later steps", ve.t.Run.Step.Index, output, maxOutput)
	submitted := 0
	for _, a := range ve.t.Run.Step.Answers {
		submitted += len(a.Value)
	}
	if submitted <= maxOutput {
		return Round{}, unavailable("driver %s cannot be used: %s", k.use, why)
	}
	return ve.t.replies.reject(ctx, fault.OutputInvalid, why+": submit a shorter result")
}

// evidenceOf is the answer that came from outside, which a verdict has to rest on.
func evidenceOf(s run.Step) (driver.Answer, bool) {
	for _, a := range s.Answers {
		if a.Via != runs.CoreDriver && a.InputID != driver.KindJudge {
			return a, true
		}
	}
	return driver.Answer{}, false
}

// outputProblems: what the server obtained itself is held to the strict form
// of the schema, what an agent reports to the schema as written.
func outputProblems(k task, reported bool, output json.RawMessage) []driver.Diagnostic {
	if len(k.common.OutputSchema) == 0 {
		return nil
	}
	s := k.common.OutputSchema
	if !reported {
		strict, err := schema.Strict(s)
		if err != nil {
			return []driver.Diagnostic{driver.Problem("/output_schema", err.Error())}
		}
		s = strict
	}
	return schema.Validate(s, output)
}

// accept proves the step and opens the next one.
func (ve *verdicts) accept(k task, judge run.DriverRef, ev run.Evidence, evidence driver.Answer) error {
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
	challenge, err := run.Digest(orNull(k.challenge))
	if err != nil {
		return err
	}
	proof, err := run.Proof{
		Previous: ve.t.Run.ProofHash(), Run: ve.t.Run.ID, Step: ve.t.Run.Step.Index, StepUUID: k.step.UUID,
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
func (ve *verdicts) failedAnyway(k task, ev run.Evidence) bool {
	if k.common.IsRequired() {
		return false
	}
	if failed, _ := run.FailedProof(ev.Proof); failed {
		return true
	}
	return slices.ContainsFunc(ev.Answers, func(a driver.Answer) bool {
		if a.InputID != driver.KindFiles {
			return false
		}
		why, err := mismatch(k, a)
		return err == nil && why != ""
	})
}

func orNull(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("null")
	}
	return raw
}

// advanceFree passes a step without a challenge on any well-formed solution.
func (ve *verdicts) advanceFree(ctx context.Context, k task) (Round, error) {
	if len(ve.t.Run.Step.Answers) > 0 {
		a := ve.t.Run.Step.Answers[0]
		if len(a.Value) > maxOutput {
			return ve.tooLarge(ctx, k, len(a.Value))
		}
		return Round{}, ve.accept(k, run.DriverRef{Name: runs.CoreDriver}, run.Evidence{Proof: json.RawMessage(`{"challenge":null}`), Output: a.Value}, a)
	}
	in := driver.Input{
		ID: driver.KindEvidence, Kind: driver.KindEvidence, Type: k.common.Type,
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
	digest, err := inputDigest([]driver.Input{in})
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

// answerSimilarity answers how close two texts are, without a callback from
// the driver that wants to know.
func (ob *obtaining) answerSimilarity(ctx context.Context, in driver.Input) error {
	value := driver.SimilarityValue{Method: library.MethodLexical}
	if in.Similarity != nil {
		value = ob.t.e.Similarity(access.InSpace(ctx, ob.t.Run.Space), *in.Similarity)
	}
	b, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return ob.t.apply(run.Event{Kind: run.Supplied, Input: in.ID, Via: runs.CoreDriver, Answer: &driver.Answer{
		InputID: in.ID, Value: b, Provenance: driver.ServerObserved, Via: runs.CoreDriver,
	}})
}
