package director

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/director/present"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// maxFailures is how many refused submissions an agent must obey before it may
// use its own judgement.
const maxFailures = 3

// view is what this call may show of the run.
func (rp *replies) view() present.View {
	return present.View{Run: rp.t.Run, Chain: rp.t.Chain, Note: rp.note, Solved: rp.solved}
}

// present shows the open step to the agent, whose turn it is.
func (rp *replies) present(ctx context.Context, k input.Task, in driver.Input, shown driver.AgentChallenge) (Round, error) {
	r := rp.view().Reply(k.Step, shown)
	r.NextCall = rp.callFilled(k, in, shown)
	if !input.Of(in.Kind).Approves { // for which routes are left that were never tried
		r.Message = plain.Sentences(r.Message, rp.sentence(in.ID))
	}
	return rp.show(ctx, r, fmt.Sprintf("and a solution of type %s, once what challenge.description demands is really done; "+
		"copy nonce and proof_hash from challenge", shown.Type))
}

// approvalFirst is what the placeholder call does for a step that waits for an approval.
const approvalFirst = "the server obtains the approval, and its reply then says what is left to do"

// presentDriven shows the open step, whose input the server will obtain itself
// when it is called for it.
func (rp *replies) presentDriven(ctx context.Context, k input.Task, in driver.Input) (Round, error) {
	r := rp.view().Reply(k.Step, rp.shownAsIs(k, in))
	r.NextCall = rp.view().LeaveToServer(k.Common.Type)
	then := "the server obtains the proof itself"
	if input.Of(in.Kind).Approves {
		then = approvalFirst
	}
	return rp.show(ctx, r, fmt.Sprintf(`and solution {"type":%q,"nonce":%q}; %s`, k.Common.Type, rp.t.Run.Step.Nonce, then))
}

func (rp *replies) show(ctx context.Context, r api.StepReply, how string) (Round, error) {
	where := present.Where(r.CurrentStep.URI, rp.t.Run.ID)
	r.NextAction = fmt.Sprintf("call kairos_next with %s, %s", where, how)
	if rp.t.Run.Step.Index == len(rp.t.Chain.Steps) {
		r.NextAction += "; this is the last step: finally call kairos_attest with " + where
	}
	return rp.t.reply(ctx, r)
}

// presentOpen shows the open step whatever is due at it, asking nobody.
func (rp *replies) presentOpen(ctx context.Context) (Round, error) {
	detached := rp.t.caller.Detached
	rp.t.caller.Detached = true
	defer func() { rp.t.caller.Detached = detached }()
	return rp.t.drive(ctx)
}

// shownAsIs is the challenge as the step states it, for inputs that the server
// obtains without the agent.
func (rp *replies) shownAsIs(k input.Task, in driver.Input) driver.AgentChallenge {
	shown := driver.AgentChallenge{Type: cmp.Or(k.Common.Type, rp.t.e.TypeOf(rp.t.step())), Display: in.Display}
	switch {
	case rp.t.approvals.takesNoReport(k, in):
		shown.Description = notByReport + ": call kairos_next with the placeholder solution, and the server asks them."
		return shown
	case input.Of(in.Kind).Approves:
		shown.Description = "A person must approve this step before anything is done. Do not do its work: call kairos_next, and the server asks them."
		return shown
	}
	shown.Description = plain.Sentences(in.Description, "The server obtains this itself: call kairos_next with the placeholder solution, and do not make anything up.")
	return shown
}

// completed: every step is solved.
func (rp *replies) completed(ctx context.Context) (Round, error) {
	last := rp.t.Chain.Steps[len(rp.t.Chain.Steps)-1]
	r := rp.view().Reply(last, driver.AgentChallenge{Type: rp.t.e.TypeOf(last), Description: "No challenge is open: every step of this run is solved."})
	r.ProofHash = rp.t.Run.ProofHash()
	r.Message = plain.Sentences(r.Message, "All steps are complete.")
	r.NextAction = fmt.Sprintf("call kairos_attest with %s, outcome success or failure, and a message that sums up the run",
		present.Where(r.CurrentStep.URI, rp.t.Run.ID))
	r.NextCall = present.Attest(r.CurrentStep.URI, rp.t.Run.ID)
	return rp.t.reply(ctx, r)
}

// nothingGiven says why an input that only the agent can give is still missing.
const nothingGiven = "Solution is missing: nobody but you can give it for this step."

// leftOut: an input that only the agent can give was not submitted. No retry
// is counted.
func (rp *replies) leftOut(ctx context.Context, k input.Task, in driver.Input, shown driver.AgentChallenge, why string) (Round, error) {
	r := rp.view().Reply(k.Step, shown)
	r.ErrorCode = string(fault.MissingField)
	if failed := rp.t.tries.failedRoute(in.ID); failed != "" {
		r.ErrorCode = string(fault.OfRoute(failed))
	}
	if rp.t.tries.exhausted(in.ID) {
		r.ErrorCode = string(fault.SamplingBudgetExceeded)
	}
	r.Message = plain.Sentences(r.Message, why, rp.sentence(in.ID))
	r.NextCall = rp.callFilled(k, in, shown)
	r.RetryCount = &rp.t.Run.Step.Failures
	r.NextAction = fmt.Sprintf("retry kairos_next with %s and a solution of type %s, with nonce and proof_hash from challenge", r.CurrentStep.URI, shown.Type)
	return rp.t.reply(ctx, r)
}

// omitted turns a reply that shows the open step into the reply to a submission
// that lacks something. No retry is counted.
func (rp *replies) omitted(r api.StepReply) api.StepReply {
	r.ErrorCode = cmp.Or(r.ErrorCode, string(fault.MissingField))
	r.Message = plain.Sentences(rp.omission, r.Message)
	r.RetryCount = &rp.t.Run.Step.Failures
	return r
}

func (rp *replies) sentence(inputID string) string {
	if why := rp.t.tries.troubles(inputID); why != "" {
		return "Tried before" + why + "."
	}
	return ""
}

// refuse counts a submission that nobody judged: wrong hash, type or form.
func (rp *replies) refuse(ctx context.Context, code fault.Code, why string) (Round, error) {
	if err := rp.t.apply(run.Event{Kind: run.Refused, Code: string(code), Reason: plain.Clip(why, 2000)}); err != nil {
		return Round{}, err
	}
	return rp.fail(ctx, code, why)
}

// reject counts evidence that its driver refused.
func (rp *replies) reject(ctx context.Context, code fault.Code, why string) (Round, error) {
	return rp.rejectSeen(ctx, "", code, why)
}

// rejectSeen is reject of what a challenge driver observed itself; empty: it did not.
func (rp *replies) rejectSeen(ctx context.Context, via string, code fault.Code, why string) (Round, error) {
	why = plain.Clip(why, 2000)
	refused := []driver.Diagnostic{driver.Problem("", fmt.Sprintf("%s: %s", code, why))}
	if err := rp.t.apply(run.Event{Kind: run.Rejected, Via: via, Code: string(code), Reason: why, Diagnostics: refused}); err != nil {
		return Round{}, err
	}
	return rp.fail(ctx, code, why)
}

// decline records a person's no. It proves nothing and advances nothing.
func (rp *replies) decline(ctx context.Context, in driver.Input, via, reason string, seq int64) (Round, error) {
	reason = plain.Clip(reason, 500)
	if err := rp.t.remembered.remember(ctx, in, via); err != nil {
		return Round{}, err
	}
	if err := rp.t.apply(run.Event{Kind: run.Declined, Input: in.ID, Via: via, Reason: reason, Seq: seq}); err != nil {
		return Round{}, err
	}
	if err := rp.t.apply(run.Event{Kind: run.Refused, Code: string(fault.UserDeclined), Reason: reason}); err != nil {
		return Round{}, err
	}
	return rp.fail(ctx, fault.UserDeclined, declinedText(reason))
}

// fail shows the open step again and says what went wrong.
func (rp *replies) fail(ctx context.Context, code fault.Code, why string) (Round, error) {
	rp.t.solution, rp.t.target, rp.t.observation.due = nil, 0, ""
	rp.failure = &failure{code: code, why: why}
	return rp.presentOpen(ctx)
}

// failed turns a reply that shows the open step into the reply to a counted failure.
func (rp *replies) failed(r api.StepReply, f failure) api.StepReply {
	uri, count := r.CurrentStep.URI, rp.t.Run.Step.Failures
	r.RetryCount = &count
	r.ErrorCode = string(f.code)
	r.Message = plain.Sentences(f.why, r.Message)
	r.NextAction = fmt.Sprintf("retry kairos_next with %s and a solution of type %s; take nonce and proof_hash from this reply's challenge", uri, r.Challenge.Type)
	switch {
	case f.code == fault.UserDeclined && rp.declineStands():
		r = outOfDecline(r)
	case f.code == fault.UserDeclined && !rp.declinedByAgent():
		r.NextAction = fmt.Sprintf(`retry kairos_next with %s and solution {"type":%q,"nonce":%q}, so that the server asks the person again; `+
			"do that only if they want to be asked, else call kairos_attest with %s and outcome failure", uri, r.Challenge.Type, r.Challenge.Nonce, uri)
		r.NextCall = rp.view().LeaveToServer(r.Challenge.Type)
	case f.code == fault.EvidenceNotAccepted:
		r.NextAction = fmt.Sprintf(`retry kairos_next with %s and solution {"type":%q,"nonce":%q}, so that the server asks the person`, uri, r.Challenge.Type, r.Challenge.Nonce)
		r.NextCall = rp.view().LeaveToServer(r.Challenge.Type)
	case rp.waitsForApproval():
		r.Message = plain.Sentences(r.Message, "Each attempt needs an approval of its own: nothing is done again before it is given")
		r.NextAction = fmt.Sprintf(`retry kairos_next with %s and solution {"type":%q,"nonce":%q}; %s`, uri, r.Challenge.Type, r.Challenge.Nonce, approvalFirst)
	}
	if count >= maxFailures {
		r.ErrorCode = string(fault.MaxRetriesExceeded)
		r.Message = plain.Sentences(r.Message, fmt.Sprintf("This was failure %d of this step (%s).", count, f.code))
		r = present.WaysOut(r)
	}
	return r
}

// waitsForApproval: the open step needs an approval that the server obtains.
func (rp *replies) waitsForApproval() bool {
	desc, _, _ := rp.t.e.Drivers.Describe(rp.t.observation.trying)
	return input.Of(rp.t.observation.due).Approves && !desc.Has(driver.FeatureAgent)
}

// declineStands: a person declined, and no call of this client has them asked again.
func (rp *replies) declineStands() bool {
	for inputID := range rp.t.Run.Step.Declines {
		if !rp.declinedByAgent() && !rp.t.remembered.askedAgain(inputID) {
			return true
		}
	}
	return false
}

// outOfDecline says what is left to do. None of it is to be done without the person.
func outOfDecline(r api.StepReply) api.StepReply {
	uri := r.CurrentStep.URI
	r.MustObey, r.NextCall = false, nil
	r.NextAction = fmt.Sprintf("tell the person, and do what they choose: call kairos_attest with %s and outcome failure to end the run; "+
		`or, after the decline was taken back, call kairos_next with %s and solution {"type":%q,"nonce":%q}, and the person is asked again`, uri, uri, r.Challenge.Type, r.Challenge.Nonce)
	return r
}

// declinedByAgent: the no came from the agent's own report, which it can correct.
func (rp *replies) declinedByAgent() bool {
	for _, by := range rp.t.Run.Step.Declines {
		desc, _, _ := rp.t.e.Drivers.Describe(by)
		if !desc.Has(driver.FeatureAgent) {
			return false
		}
	}
	return true
}

// askAgain is the call that lets the server ask the person once more.
func (rp *replies) askAgain(k input.Task) string {
	return fmt.Sprintf(`call kairos_next with %s and solution {"type":%q,"nonce":%q} from a client that can ask the person, or call kairos_attest with outcome failure`,
		protocol.URI(k.Step.UUID), k.Common.Type, rp.t.Run.Step.Nonce)
}

// halt is the reply when the run waits for something that is not the agent's
// fault. No retry is counted and the step stays open.
func (rp *replies) halt(ctx context.Context, f *fault.Error) (Round, error) {
	if rp.t.New() && (f.Code == fault.MissingInput || f.Code == fault.InvalidArgument) {
		return Round{}, f // nothing began
	}
	step := rp.t.step()
	r := rp.view().Reply(step, driver.AgentChallenge{Type: rp.t.e.TypeOf(step), Description: f.Message})
	r.ErrorCode = string(f.Code)
	r.Message = plain.Sentences(r.Message, f.Message)
	r.RetryCount = &rp.t.Run.Step.Failures
	r.NextAction = cmp.Or(f.NextAction, fmt.Sprintf("call kairos_next with %s again once this is fixed, or call kairos_attest with %s and outcome failure to give up",
		r.CurrentStep.URI, r.CurrentStep.URI))

	if r.NextCall = api.CallOf(f); r.NextCall == nil {
		r.NextCall = rp.view().LeaveToServer(r.Challenge.Type)
	}
	switch {
	case f.Code == fault.UserDeclined && rp.declineStands():
		r = outOfDecline(r)
	case rp.t.Run.Step.Failures >= maxFailures:
		r = present.WaysOut(r)
	}
	rp.t.e.log.WarnContext(ctx, "step waits", "run", rp.t.Run.ID, "step", rp.t.Run.Step.Index, "code", f.Code, "error", f)
	return rp.t.reply(ctx, r)
}

// replies makes the replies of the call.
type replies struct {
	t *turn
	// failure is what the reply reports beside the open step.
	failure *failure
	// omission says what the submission lacks, where nothing of it was used or counted.
	omission string
	solved   []api.Solved
	// tried is what the call tried, for replies that it did not work.
	tried string
	// note is what the reply should say besides.
	note string
}

// unheard lists the last n proofs, whose reply nobody may have seen.
func (rp *replies) unheard(n int) []api.Solved {
	var solved []api.Solved
	for i := max(len(rp.t.Run.Proofs)-n, 0); i < len(rp.t.Run.Proofs); i++ {
		solved = append(solved, present.Solved(rp.t.Run, rp.t.Chain, i))
	}
	return solved
}

// notifyDecline reports a decline on the approval page.
func (rp *replies) notifyDecline(ctx context.Context) (Round, error) {
	why := rp.t.Run.Step.PendingDecline
	if err := rp.t.apply(run.Event{Kind: run.Told}); err != nil {
		return Round{}, err
	}
	return rp.fail(ctx, fault.UserDeclined, "The person declined ("+why+"). Nothing is recorded as proof")
}

// callFilled is the call with a solution that the agent has to fill in.
func (rp *replies) callFilled(k input.Task, in driver.Input, shown driver.AgentChallenge) *api.NextCall {
	solution := map[string]any{"type": shown.Type, "nonce": rp.t.Run.Step.Nonce, "proof_hash": rp.t.Run.ProofHash()}
	if !k.Free() {
		solution[rp.placeOf(k, in, shown)] = input.Form(in.Schema)
	}
	return rp.view().Next(solution)
}

// placeOf is the field of a solution that the input's value goes into: the one
// named like the type, where clients know of one, but for what has a shape of
// its own.
func (rp *replies) placeOf(k input.Task, in driver.Input, shown driver.AgentChallenge) string {
	personsForm := input.Of(in.Kind).Evidence && in.Person && len(k.Common.OutputSchema) > 0
	if input.Of(in.Kind).OwnShape || personsForm || !slices.Contains(rp.t.e.opt.SolutionFields, shown.Type) {
		return "evidence"
	}
	return shown.Type
}
