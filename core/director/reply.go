package director

import (
	"cmp"
	"context"
	"fmt"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/director/plan"
	"github.com/kairos-mcp/kairos/core/director/present"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// present shows the open step to the agent, whose turn it is.
func (rp *replies) present(ctx context.Context, k input.Task, in driver.Input, shown driver.AgentChallenge) (Round, error) {
	r := plan.View(rp.t.State).Reply(k.Step, shown)
	r.NextCall = plan.CallFilled(rp.t.State, k, in, shown)
	if !input.Of(in.Kind).Approves { // for which routes are left that were never tried
		r.Message = plain.Sentences(r.Message, plan.Sentence(rp.t.State, in.ID))
	}
	return rp.show(ctx, r, fmt.Sprintf("and a solution of type %s, once what challenge.description demands is really done; "+
		"copy nonce and proof_hash from challenge", shown.Type))
}

// presentDriven shows the open step, whose input the server will obtain itself
// when it is called for it.
func (rp *replies) presentDriven(ctx context.Context, k input.Task, in driver.Input) (Round, error) {
	r := plan.View(rp.t.State).Reply(k.Step, plan.ShownAsIs(rp.t.State, k, in))
	r.NextCall = plan.View(rp.t.State).LeaveToServer(k.Common.Type)
	then := "the server obtains the proof itself"
	if input.Of(in.Kind).Approves {
		then = plan.ApprovalFirst
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
	detached := rp.t.Caller.Detached
	rp.t.Caller.Detached = true
	defer func() { rp.t.Caller.Detached = detached }()
	return rp.t.drive(ctx)
}

// completed: every step is solved.
func (rp *replies) completed(ctx context.Context) (Round, error) {
	last := rp.t.Chain.Steps[len(rp.t.Chain.Steps)-1]
	r := plan.View(rp.t.State).Reply(last, driver.AgentChallenge{Type: rp.t.e.TypeOf(last), Description: "No challenge is open: every step of this run is solved."})
	r.ProofHash = rp.t.Run.ProofHash()
	r.Message = plain.Sentences(r.Message, "All steps are complete.")
	r.NextAction = fmt.Sprintf("call kairos_attest with %s, outcome success or failure, and a message that sums up the run",
		present.Where(r.CurrentStep.URI, rp.t.Run.ID))
	r.NextCall = present.Attest(r.CurrentStep.URI, rp.t.Run.ID)
	return rp.t.reply(ctx, r)
}

// leftOut: an input that only the agent can give was not submitted. No retry
// is counted.
func (rp *replies) leftOut(ctx context.Context, k input.Task, in driver.Input, shown driver.AgentChallenge, why string) (Round, error) {
	r := plan.View(rp.t.State).Reply(k.Step, shown)
	r.ErrorCode = string(fault.MissingField)
	if failed := plan.FailedRoute(rp.t.State, in.ID); failed != "" {
		r.ErrorCode = string(fault.OfRoute(failed))
	}
	if plan.Exhausted(rp.t.State, in.ID) {
		r.ErrorCode = string(fault.SamplingBudgetExceeded)
	}
	r.Message = plain.Sentences(r.Message, why, plan.Sentence(rp.t.State, in.ID))
	r.NextCall = plan.CallFilled(rp.t.State, k, in, shown)
	r.RetryCount = &rp.t.Run.Step.Failures
	r.NextAction = fmt.Sprintf("retry kairos_next with %s and a solution of type %s, with nonce and proof_hash from challenge", r.CurrentStep.URI, shown.Type)
	return rp.t.reply(ctx, r)
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
	rp.t.Solution, rp.t.Target, rp.t.Due = nil, 0, ""
	rp.t.Failure = &plan.Failure{Code: code, Why: why}
	return rp.presentOpen(ctx)
}

// halt is the reply when the run waits for something that is not the agent's
// fault. No retry is counted and the step stays open.
func (rp *replies) halt(ctx context.Context, f *fault.Error) (Round, error) {
	if rp.t.change.New() && (f.Code == fault.MissingInput || f.Code == fault.InvalidArgument) {
		return Round{}, f // nothing began
	}
	step := plan.OpenStep(rp.t.State)
	r := plan.View(rp.t.State).Reply(step, driver.AgentChallenge{Type: rp.t.e.TypeOf(step), Description: f.Message})
	r.ErrorCode = string(f.Code)
	r.Message = plain.Sentences(r.Message, f.Message)
	r.RetryCount = &rp.t.Run.Step.Failures
	r.NextAction = cmp.Or(f.NextAction, fmt.Sprintf("call kairos_next with %s again once this is fixed, or call kairos_attest with %s and outcome failure to give up",
		r.CurrentStep.URI, r.CurrentStep.URI))

	if r.NextCall = api.CallOf(f); r.NextCall == nil {
		r.NextCall = plan.View(rp.t.State).LeaveToServer(r.Challenge.Type)
	}
	switch {
	case f.Code == fault.UserDeclined && plan.DeclineStands(rp.t.State):
		r = plan.OutOfDecline(r)
	case rp.t.Run.Step.Failures >= plan.MaxFailures:
		r = present.WaysOut(r)
	}
	rp.t.e.log.WarnContext(ctx, "step waits", "run", rp.t.Run.ID, "step", rp.t.Run.Step.Index, "code", f.Code, "error", f)
	return rp.t.reply(ctx, r)
}

// replies makes the replies of the call.
type replies struct{ t *turn }

// notifyDecline reports a decline on the approval page.
func (rp *replies) notifyDecline(ctx context.Context) (Round, error) {
	why := rp.t.Run.Step.PendingDecline
	if err := rp.t.apply(run.Event{Kind: run.Told}); err != nil {
		return Round{}, err
	}
	return rp.fail(ctx, fault.UserDeclined, "The person declined ("+why+"). Nothing is recorded as proof")
}
