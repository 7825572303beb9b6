package plan

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/drivers"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/filecheck"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// failedAnyway reports whether the evidence of a step passes only because the
// challenge does not require a good result.
func failedAnyway(k *input.Task, ev run.Evidence) bool {
	if k.Common.IsRequired() {
		return false
	}
	if failed, _ := run.FailedProof(ev.Proof); failed {
		return true
	}
	return slices.ContainsFunc(ev.Answers, func(a driver.Answer) bool {
		check := input.ByID(a.InputID).Check
		if check == nil {
			return false
		}
		why, err := check(k, a)
		return err == nil && why != ""
	})
}

// EvidenceOf is the answer that came from outside, which a verdict has to rest on.
func EvidenceOf(s run.Step) (driver.Answer, bool) {
	for _, a := range s.Answers {
		if a.Via != runs.CoreDriver && !input.ByID(a.InputID).Judges {
			return a, true
		}
	}
	return driver.Answer{}, false
}

// unjudged is what happens where nobody can judge.
func unjudged(s *State, k *input.Task) Action {
	why := "nobody can judge the result" + troubles(s, input.JudgementKind.Name)
	if k.Common.Judge.Required {
		code, again := fault.JudgeUnavailable, "from a client that offers sampling, or once the operator has a model that judges"
		switch {
		case budgetExhausted(s, input.JudgementKind.Name):
			code = fault.SamplingBudgetExceeded
			again = "once the budget that the message names has room (that of an hour comes back by itself, that of a run only where the operator raises it)"
		case troubles(s, input.JudgementKind.Name) != "":
			again = "once what the message names is fixed"
		}
		return Halt{Fault: fault.New(code, "Step %d demands that its result is judged, and %s. The result is kept", s.Run.Step.Index, why).
			WithNext("tell the user, and call kairos_next with %s again %s, or call kairos_attest with outcome failure", protocol.URI(k.Step.UUID), again)}
	}
	value, _ := json.Marshal(driver.JudgeValue{Reason: runs.NotJudged + plain.Clip(why, 1000)}) // two texts
	return Apply{
		Note: fmt.Sprintf("The result of step %d is not judged: %s.", s.Run.Step.Index, plain.Clip(why, 300)),
		Events: []run.Event{{Kind: run.Supplied, Input: input.JudgementKind.Name, Via: runs.CoreDriver, Answer: &driver.Answer{
			InputID: input.JudgementKind.Name, Value: value, Via: runs.CoreDriver, // nobody vouches for what nobody said
		}}},
	}
}

// accepted checks what the driver accepted against what the step says of its
// output, and writes the proof.
func accepted(s *State, k *input.Task, a driver.Accepted) Action {
	if len(a.Output) == 0 {
		a.Output = a.Proof
	}
	if !json.Valid(a.Proof) || !json.Valid(a.Output) {
		return Halt{Fault: Unavailable("driver %s accepted step %d without a proof that is JSON", k.Use, s.Run.Step.Index)}
	}
	evidence, ok := EvidenceOf(s.Run.Step)
	if !ok {
		return Halt{Fault: Unavailable("driver %s accepted step %d without asking for any evidence", k.Use, s.Run.Step.Index)}
	}
	if len(a.Output) > maxOutput {
		return tooLarge(s, k, evidence, len(a.Output))
	}
	looked := ""
	if a.Observed {
		looked = k.Use
		desc, _, _ := s.Drivers.Describe(k.Use)
		if !drivers.MayClaim(desc, driver.ServerObserved) {
			return Halt{Fault: Unavailable("driver %s says that it observed step %d itself, but its descriptor says that it looks at nothing (effect %s)",
				k.Use, s.Run.Step.Index, desc.Effect)}
		}
		evidence = driver.Answer{Via: k.Use, Provenance: limitedTo(s, k.Use, driver.ServerObserved)}
	}
	if why := notCountedBecause(s, k, evidence); why != "" {
		return Reject(looked, fault.EvidenceNotAccepted, why)
	}
	if problems := input.OutputProblems(k, isReport(s, evidence), a.Output); len(problems) > 0 {
		return Reject(looked, fault.OutputInvalid, "the result does not match the step's output_schema: "+input.Describe(problems))
	}
	proved := Accept{Task: k, Judge: Ref(s, k.Use), Proof: a.Proof, Output: a.Output, Evidence: evidence}
	if k.Common.Judge != nil {
		return Withhold(s, proved)
	}
	return proved
}

// tooLarge refuses an output. The evidence has to be shorter, unless the driver
// made a large output of small evidence.
func tooLarge(s *State, k *input.Task, evidence driver.Answer, output int) Action {
	why := fmt.Sprintf("the output of step %d has %d bytes, and at most %d are kept for later steps", s.Run.Step.Index, output, maxOutput)
	submitted := 0
	for _, a := range s.Run.Step.Answers {
		submitted += len(a.Value)
	}
	if submitted <= maxOutput {
		return Halt{Fault: Unavailable("driver %s cannot be used: %s", k.Use, why)}
	}
	if isReport(s, evidence) {
		why += ": submit a shorter result"
	}
	return Reject("", fault.OutputInvalid, why)
}

// Withhold keeps a verdict until the judge has spoken: the challenge driver is not
// asked a second time, because its call may have changed the world. What was submitted is
// taken: another submission under the same nonce is none for the judge.
func Withhold(s *State, a Accept) Apply {
	verdict := run.WithheldVerdict{Proof: a.Proof, Output: a.Output, Provenance: a.Evidence.Provenance, Via: a.Evidence.Via, Driver: Ref(s, a.Task.Use)}
	return Apply{
		Events: []run.Event{{Kind: run.Withheld, Withheld: &verdict, Inputs: []driver.Input{input.Judgement(a.Task, a.Output, s.Run.Step.Sensitive)}}},
		Then:   Renew{},
	}
}

// Proved is the event that proves the step and opens the next one, under the nonce.
func Proved(s *State, a Accept, salt, nonce string) (run.Event, error) {
	k, evidence := a.Task, a.Evidence
	ev := run.Evidence{Proof: a.Proof, Output: a.Output, Answers: s.Run.Step.Answers, Salt: salt}
	ev.Delays = s.Run.Step.Delays
	ev.Approval, ev.Tries = s.Run.Step.Approval, s.Run.Step.Unsuccessful()
	ev.Failed = failedAnyway(k, ev)
	permission, err := permissionOf(s, evidence)
	if err != nil {
		return run.Event{}, err
	}
	ev.Permission = permission
	digest, err := ev.Digest()
	if err != nil {
		ev = ev.WellFormed()
		if digest, err = ev.Digest(); err != nil {
			return run.Event{}, Unavailable("the evidence of step %d cannot be digested: %v", s.Run.Step.Index, err)
		}
	}
	challenge, err := run.Digest(orNull(k.Challenge))
	if err != nil {
		return run.Event{}, err
	}
	proof, err := run.Proof{
		Previous: s.Run.ProofHash(), Run: s.Run.ID, Step: s.Run.Step.Index, StepUUID: k.Step.UUID,
		ChallengeDigest: challenge, EvidenceDigest: digest, Provenance: evidence.Provenance,
		Driver: a.Judge, Via: Ref(s, evidence.Via), At: At(s),
	}.Seal()
	if err != nil {
		return run.Event{}, err
	}
	return run.Event{Kind: run.Accepted, Proof: &proof, Evidence: &ev, Nonce: nonce, Solves: s.Run.Step.Nonce}, nil
}

// JudgeFree passes a step without a challenge on any well-formed solution.
func JudgeFree(s *State, k *input.Task) Action {
	if len(s.Run.Step.Answers) > 0 {
		a := s.Run.Step.Answers[0]
		if len(a.Value) > maxOutput {
			return tooLarge(s, k, a, len(a.Value))
		}
		return Accept{Task: k, Judge: run.DriverRef{Name: runs.CoreDriver}, Proof: json.RawMessage(`{"challenge":null}`), Output: a.Value, Evidence: a}
	}
	in := driver.Input{
		ID: input.EvidenceKind.Name, Kind: input.EvidenceKind.Name, Type: k.Common.Type,
		Description: "This step has no challenge. Do what it says, then report it; any well-formed solution is taken.",
	}
	shown := driver.AgentChallenge{Type: in.Type, Description: in.Description}
	given := s.Solution
	if given == nil {
		if s.Run.Step.Index == s.Target {
			return Reply{LeftOutReply(s, k, in, shown, NothingGiven)}
		}
		return Reply{StepReply(s, k, in, shown)}
	}
	digest, err := input.Digest([]driver.Input{in})
	if err != nil {
		return Halt{Fault: Unavailable("the input of step %d cannot be digested: %v", s.Run.Step.Index, err)}
	}
	said := driver.Answer{InputID: in.ID, Value: given.Raw, Provenance: driver.AgentReported, Via: runs.CoreDriver}
	return Apply{Events: []run.Event{
		{Kind: run.Needed, Inputs: []driver.Input{in}, Digest: digest}, {Kind: run.Supplied, Input: in.ID, Via: runs.CoreDriver, Answer: &said},
	}}
}

// MaxRounds bounds how often a challenge driver may ask for more about one step.
const MaxRounds = 32

// maxOutput bounds what later steps see of a step, in bytes.
const maxOutput = 256 << 10

func orNull(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("null")
	}
	return raw
}

// Needed records what the driver asks for, with what the core adds: the step's
// own prompt, the approval in front and the files behind. No driver can forget
// them: an approval stands in front of whatever comes from outside. In front of the inputs that
// are remembered one stands because a person declined the same.
func Needed(s *State, k *input.Task, res driver.AdvanceResult, remembered map[string]bool) (Apply, error) {
	if f := keeps(s, k, res.State); f != nil {
		return Apply{}, f
	}
	ev := run.Event{Kind: run.Needed, State: res.State, Demand: kept(k.ByAction)}
	var outside []driver.Input
	seen := map[string]bool{}
	for _, in := range res.NeedInput {
		kind := input.Of(in.Kind)
		if in.ID == "" || seen[in.ID] || seen[in.Kind] || kind.Reserved || input.ByID(in.ID).Reserved {
			return Apply{}, Unavailable("driver %s asks for an input of kind %q and id %q: it cannot, or asks twice", k.Use, in.Kind, in.ID)
		}
		seen[in.ID] = true
		if kind.Evidence {
			in = input.Prompted(in, k)
		}
		ev.Inputs = append(ev.Inputs, in)
		if !kind.Internal {
			outside = append(outside, in)
			ev.Gated = ev.Gated || Gated(s, k, in) || remembered[in.ID]
		}
	}
	if len(outside) == 0 {
		return Apply{Events: []run.Event{ev}}, nil
	}
	var err error
	phrase := ""
	if ev.Gated {
		phrase = k.Approval.Phrase
	}
	if ev.Digest, err = input.ApprovedDigest(outside, phrase); err != nil {
		return Apply{}, Unavailable("driver %s asks for an input that cannot be encoded: %v", k.Use, err)
	}
	if !filecheck.None(k.Common.Files) {
		files, err := input.Files(k, *s.Run)
		if err != nil {
			return Apply{}, err
		}
		ev.Inputs = append(ev.Inputs, files)
	}
	needed := Apply{Events: []run.Event{ev}}
	if _, told := EvidenceOf(s.Run.Step); told {
		needed.Then = Look(renewIfDue)
	}
	return needed, nil
}

// Verdict is what follows from what the challenge driver said of the open step.
func Verdict(s *State, k *input.Task, res driver.AdvanceResult) Action {
	switch {
	case res.Accepted != nil:
		return accepted(s, k, *res.Accepted)
	case res.Rejected != nil:
		looked := ""
		if judgeLooks(s, k) {
			looked = k.Use
		}
		return Reject(looked, fault.OfDriver(k.Use, res.Rejected.Code), res.Rejected.Message)
	case res.Declined != nil:
		said, ok := EvidenceOf(s.Run.Step)
		if !ok {
			return Halt{Fault: Unavailable("driver %s reports a decline that nobody gave", k.Use)}
		}
		return Decline(s, driver.Input{ID: said.InputID}, said.Via, res.Declined.Reason, 0)
	case res.Unavailable != nil:
		return Apply{
			Events: settle(s, "unavailable: "+plain.Clip(res.Unavailable.Reason, 500)),
			Then:   Halt{Fault: Unavailable("driver %s cannot judge step %d: %s", k.Use, s.Run.Step.Index, res.Unavailable.Reason)},
		}
	}
	return Halt{Fault: Unavailable("driver %s gave no outcome for step %d", k.Use, s.Run.Step.Index)}
}

// Judging is what a challenge driver made of the answers so far.
type Judging struct {
	Made
	Result driver.AdvanceResult
}

// Judged is what follows from a call of the challenge driver.
func Judged(s *State, k *input.Task, made Judging) Action {
	res := made.Result
	again := func(s *State, m Made) Action { return Judged(s, k, Judging{m, res}) }
	if a := made.unfinished(s, Deferral{Pending: res.Pending, Unknown: res.Unknown, NotDone: res.NotDone}, again); a != nil {
		return a
	}
	switch {
	case made.Err != nil:
		return Halt{Fault: fault.Wrap(made.Err, fault.DriverUnavailable, "driver %s failed to judge step %d, nothing is lost: %s",
			k.Use, s.Run.Step.Index, plain.Clip(made.Err.Error(), 600))}
	case res.Pending != nil:
		if f := keeps(s, k, res.State); f != nil {
			return Halt{Fault: f}
		}
		return deferred(s, made.Call, *res.Pending, res.State)
	case len(res.NeedInput) > 0:
		return Gate{res}
	}
	return Verdict(s, k, res)
}
