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

// presentStep shows the open step to the agent, whose turn it is.
func presentStep(ctx context.Context, t *turn, k input.Task, in driver.Input, shown driver.AgentChallenge) (Round, error) {
	r := plan.View(t.State).Reply(k.Step, shown)
	r.NextCall = plan.CallFilled(t.State, k, in, shown)
	if !input.Of(in.Kind).Approves { // for which routes are left that were never tried
		r.Message = plain.Sentences(r.Message, plan.Sentence(t.State, in.ID))
	}
	return show(ctx, t, r, fmt.Sprintf("and a solution of type %s, once what challenge.description demands is really done; "+
		"copy nonce and proof_hash from challenge", shown.Type))
}

// presentDriven shows the open step, whose input the server will obtain itself
// when it is called for it.
func presentDriven(ctx context.Context, t *turn, k input.Task, in driver.Input) (Round, error) {
	r := plan.View(t.State).Reply(k.Step, plan.ShownAsIs(t.State, k, in))
	r.NextCall = plan.View(t.State).LeaveToServer(k.Common.Type)
	then := "the server obtains the proof itself"
	if input.Of(in.Kind).Approves {
		then = plan.ApprovalFirst
	}
	return show(ctx, t, r, fmt.Sprintf(`and solution {"type":%q,"nonce":%q}; %s`, k.Common.Type, t.Run.Step.Nonce, then))
}

func show(ctx context.Context, t *turn, r api.StepReply, how string) (Round, error) {
	where := present.Where(r.CurrentStep.URI, t.Run.ID)
	r.NextAction = fmt.Sprintf("call kairos_next with %s, %s", where, how)
	if t.Run.Step.Index == len(t.Chain.Steps) {
		r.NextAction += "; this is the last step: finally call kairos_attest with " + where
	}
	return t.reply(ctx, r)
}

// presentOpen shows the open step whatever is due at it, asking nobody.
func presentOpen(ctx context.Context, t *turn) (Round, error) {
	detached := t.Caller.Detached
	t.Caller.Detached = true
	defer func() { t.Caller.Detached = detached }()
	return t.drive(ctx)
}

// completed: every step is solved.
func completed(ctx context.Context, t *turn) (Round, error) {
	last := t.Chain.Steps[len(t.Chain.Steps)-1]
	r := plan.View(t.State).Reply(last, driver.AgentChallenge{Type: t.e.TypeOf(last), Description: "No challenge is open: every step of this run is solved."})
	r.ProofHash = t.Run.ProofHash()
	r.Message = plain.Sentences(r.Message, "All steps are complete.")
	r.NextAction = fmt.Sprintf("call kairos_attest with %s, outcome success or failure, and a message that sums up the run",
		present.Where(r.CurrentStep.URI, t.Run.ID))
	r.NextCall = present.Attest(r.CurrentStep.URI, t.Run.ID)
	return t.reply(ctx, r)
}

// leftOut: an input that only the agent can give was not submitted. No retry
// is counted.
func leftOut(ctx context.Context, t *turn, k input.Task, in driver.Input, shown driver.AgentChallenge, why string) (Round, error) {
	r := plan.View(t.State).Reply(k.Step, shown)
	r.ErrorCode = string(fault.MissingField)
	if failed := plan.FailedRoute(t.State, in.ID); failed != "" {
		r.ErrorCode = string(fault.OfRoute(failed))
	}
	if plan.Exhausted(t.State, in.ID) {
		r.ErrorCode = string(fault.SamplingBudgetExceeded)
	}
	r.Message = plain.Sentences(r.Message, why, plan.Sentence(t.State, in.ID))
	r.NextCall = plan.CallFilled(t.State, k, in, shown)
	r.RetryCount = &t.Run.Step.Failures
	r.NextAction = fmt.Sprintf("retry kairos_next with %s and a solution of type %s, with nonce and proof_hash from challenge", r.CurrentStep.URI, shown.Type)
	return t.reply(ctx, r)
}

// refuse counts a submission that nobody judged: wrong hash, type or form.
func refuse(ctx context.Context, t *turn, code fault.Code, why string) (Round, error) {
	if err := t.apply(run.Event{Kind: run.Refused, Code: string(code), Reason: plain.Clip(why, 2000)}); err != nil {
		return Round{}, err
	}
	return fail(ctx, t, code, why)
}

// reject counts evidence that its driver refused.
func reject(ctx context.Context, t *turn, code fault.Code, why string) (Round, error) {
	return rejectSeen(ctx, t, "", code, why)
}

// rejectSeen is reject of what a challenge driver observed itself; empty: it did not.
func rejectSeen(ctx context.Context, t *turn, via string, code fault.Code, why string) (Round, error) {
	why = plain.Clip(why, 2000)
	refused := []driver.Diagnostic{driver.Problem("", fmt.Sprintf("%s: %s", code, why))}
	if err := t.apply(run.Event{Kind: run.Rejected, Via: via, Code: string(code), Reason: why, Diagnostics: refused}); err != nil {
		return Round{}, err
	}
	return fail(ctx, t, code, why)
}

// decline records a person's no. It proves nothing and advances nothing.
func decline(ctx context.Context, t *turn, in driver.Input, via, reason string, seq int64) (Round, error) {
	reason = plain.Clip(reason, 500)
	if err := remember(ctx, t, in, via); err != nil {
		return Round{}, err
	}
	if err := t.apply(run.Event{Kind: run.Declined, Input: in.ID, Via: via, Reason: reason, Seq: seq}); err != nil {
		return Round{}, err
	}
	if err := t.apply(run.Event{Kind: run.Refused, Code: string(fault.UserDeclined), Reason: reason}); err != nil {
		return Round{}, err
	}
	return fail(ctx, t, fault.UserDeclined, declinedText(reason))
}

// fail shows the open step again and says what went wrong.
func fail(ctx context.Context, t *turn, code fault.Code, why string) (Round, error) {
	t.Solution, t.Target, t.Due = nil, 0, ""
	t.Failure = &plan.Failure{Code: code, Why: why}
	return presentOpen(ctx, t)
}

// halt is the reply when the run waits for something that is not the agent's
// fault. No retry is counted and the step stays open.
func halt(ctx context.Context, t *turn, f *fault.Error) (Round, error) {
	if t.change.New() && (f.Code == fault.MissingInput || f.Code == fault.InvalidArgument) {
		return Round{}, f // nothing began
	}
	step := plan.OpenStep(t.State)
	r := plan.View(t.State).Reply(step, driver.AgentChallenge{Type: t.e.TypeOf(step), Description: f.Message})
	r.ErrorCode = string(f.Code)
	r.Message = plain.Sentences(r.Message, f.Message)
	r.RetryCount = &t.Run.Step.Failures
	r.NextAction = cmp.Or(f.NextAction, fmt.Sprintf("call kairos_next with %s again once this is fixed, or call kairos_attest with %s and outcome failure to give up",
		r.CurrentStep.URI, r.CurrentStep.URI))

	if r.NextCall = api.CallOf(f); r.NextCall == nil {
		r.NextCall = plan.View(t.State).LeaveToServer(r.Challenge.Type)
	}
	switch {
	case f.Code == fault.UserDeclined && plan.DeclineStands(t.State):
		r = plan.OutOfDecline(r)
	case t.Run.Step.Failures >= plan.MaxFailures:
		r = present.WaysOut(r)
	}
	t.e.log.WarnContext(ctx, "step waits", "run", t.Run.ID, "step", t.Run.Step.Index, "code", f.Code, "error", f)
	return t.reply(ctx, r)
}

// notifyDecline reports a decline on the approval page.
func notifyDecline(ctx context.Context, t *turn) (Round, error) {
	why := t.Run.Step.PendingDecline
	if err := t.apply(run.Event{Kind: run.Told}); err != nil {
		return Round{}, err
	}
	return fail(ctx, t, fault.UserDeclined, "The person declined ("+why+"). Nothing is recorded as proof")
}
