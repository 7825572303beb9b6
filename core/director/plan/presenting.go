package plan

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/director/present"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// StepReply shows the open step to the agent, whose turn it is.
func StepReply(s *State, k *input.Task, in driver.Input, shown driver.AgentChallenge) api.StepReply {
	r := View(s).Reply(k.Step, shown)
	r.NextCall = callFilled(s, k, in, shown)
	if !input.Of(in.Kind).Approves { // for which routes are left that were never tried
		r.Message = plain.Sentences(r.Message, sentence(s, in.ID))
	}
	return withAction(s, r, fmt.Sprintf("and a solution of type %s, once what challenge.description demands is really done; "+
		"copy nonce and proof_hash from challenge", shown.Type))
}

// DrivenReply shows the open step, whose input the server will obtain itself
// when it is called for it.
func DrivenReply(s *State, k *input.Task, in driver.Input) api.StepReply {
	r := View(s).Reply(k.Step, shownAsIs(s, k, in))
	r.NextCall = View(s).LeaveToServer(k.Common.Type)
	then := "the server obtains the proof itself"
	if input.Of(in.Kind).Approves {
		then = approvalFirst
	}
	return withAction(s, r, fmt.Sprintf(`and solution {"type":%q,"nonce":%q}; %s`, k.Common.Type, s.Run.Step.Nonce, then))
}

func withAction(s *State, r api.StepReply, how string) api.StepReply {
	where := present.Where(r.CurrentStep.URI, s.Run.ID)
	r.NextAction = fmt.Sprintf("call kairos_next with %s, %s", where, how)
	if s.Run.Step.Index == len(s.Chain.Steps) {
		r.NextAction += "; this is the last step: finally call kairos_attest with " + where
	}
	return r
}

// CompletedReply is the reply once every step is solved.
func CompletedReply(s *State) api.StepReply {
	last := s.Chain.Steps[len(s.Chain.Steps)-1]
	r := View(s).Reply(last, driver.AgentChallenge{Type: typeOf(s, last), Description: "No challenge is open: every step of this run is solved."})
	r.ProofHash = s.Run.ProofHash()
	r.Message = plain.Sentences(r.Message, "All steps are complete.")
	r.NextAction = fmt.Sprintf("call kairos_attest with %s, outcome success or failure, and a message that sums up the run",
		present.Where(r.CurrentStep.URI, s.Run.ID))
	r.NextCall = present.Attest(r.CurrentStep.URI, s.Run.ID)
	return r
}

// LeftOutReply is the reply when an input that only the agent can give was not submitted. No retry
// is counted.
func LeftOutReply(s *State, k *input.Task, in driver.Input, shown driver.AgentChallenge, why string) api.StepReply {
	r := View(s).Reply(k.Step, shown)
	r.ErrorCode = string(fault.MissingField)
	if failed := failedRoute(s, in.ID); failed != "" {
		r.ErrorCode = string(fault.OfRoute(failed))
	}
	if budgetExhausted(s, in.ID) {
		r.ErrorCode = string(fault.SamplingBudgetExceeded)
	}
	r.Message = plain.Sentences(r.Message, why, sentence(s, in.ID))
	r.NextCall = callFilled(s, k, in, shown)
	r.RetryCount = &s.Run.Step.Failures
	r.NextAction = fmt.Sprintf("retry kairos_next with %s and a solution of type %s, with nonce and proof_hash from challenge", r.CurrentStep.URI, shown.Type)
	return r
}

// HaltReply is the reply when the run waits for something that is not the agent's
// fault. No retry is counted and the step stays open.
func HaltReply(s *State, f *fault.Error) api.StepReply {
	step := OpenStep(s)
	r := View(s).Reply(step, driver.AgentChallenge{Type: typeOf(s, step), Description: f.Message})
	r.ErrorCode = string(f.Code)
	r.Message = plain.Sentences(r.Message, f.Message)
	r.RetryCount = &s.Run.Step.Failures
	r.NextAction = cmp.Or(f.NextAction, fmt.Sprintf("call kairos_next with %s again once this is fixed, or call kairos_attest with %s and outcome failure to give up",
		r.CurrentStep.URI, r.CurrentStep.URI))
	if r.NextCall = api.CallOf(f); r.NextCall == nil {
		r.NextCall = View(s).LeaveToServer(r.Challenge.Type)
	}
	switch {
	case f.Code == fault.UserDeclined && declineStands(s):
		r = outOfDecline(r)
	case s.Run.Step.Failures >= maxFailures:
		r = present.WaysOut(r)
	}
	return r
}

// WaitingReply says that a person, or the client, was asked and has not answered.
func WaitingReply(s *State, k *input.Task, q run.Question) api.StepReply {
	r := View(s).Reply(OpenStep(s), shownAsIs(s, k, q.Input))
	r.ErrorCode = string(fault.WaitingForUser)
	r.RetryCount = &s.Run.Step.Failures
	where := []string{"in the client that was asked"}
	if !q.Closed.IsZero() {
		where = nil // the client shows it no more
	}
	with := "with the same solution"
	if input.Of(q.Input.Kind).Approves {
		with = "with the placeholder solution of next_call"
		if s.Solution.Supplied() {
			r.Message = plain.Sentences(r.Message, Uncounted)
		}
	}
	r.NextAction = fmt.Sprintf("call kairos_next with %s again, %s", r.CurrentStep.URI, with)
	if linkHolds(s, &q) {
		r.ApprovalURL = MarkedURL(s, q.Link)
		where = append(where, "on the approval page "+r.ApprovalURL)
	}
	said := "The person was asked and has not answered yet."
	switch {
	case !q.Human:
		said = "The client was asked and has not answered yet."
	case !q.Closed.IsZero():
		said, r.NextAction = dismissal(s, q, r.NextAction)
	}
	if q.Elsewhere != "" {
		said, where = plain.Sentences(q.Elsewhere, "Nobody has answered yet."), []string{"on the approval page " + r.ApprovalURL}
		r.NextAction = fmt.Sprintf("show the person approval_url, then call kairos_next with %s again, %s; "+
			"the link is theirs alone, and good until %s", r.CurrentStep.URI, with, q.Link.ExpiresAt.UTC().Format(time.RFC3339))
	}
	open := strings.TrimSpace("The question stays open " + strings.Join(where, ", and "))
	r.Message = plain.Sentences(r.Message, said, open+"; calling kairos_next again continues it")
	r.NextCall = View(s).LeaveToServer(r.Challenge.Type)
	return r
}

// DriverReply says that the run waits for a driver.
func DriverReply(s *State, c run.Call) api.StepReply {
	step := OpenStep(s)
	said := fmt.Sprintf("Step %d waits for driver %s: %s.", s.Run.Step.Index, c.Driver, c.Pending.Reason)
	if c.Cancelled {
		said = fmt.Sprintf("Step %d is being cancelled: driver %s is told to end it when it is asked next.", s.Run.Step.Index, c.Driver)
	}
	r := View(s).Reply(step, driver.AgentChallenge{Type: typeOf(s, step), Description: said + " Nothing is needed of you until then."})
	r.ErrorCode = string(fault.WaitingForDriver)
	r.RetryCount = &s.Run.Step.Failures
	r.Message = plain.Sentences(r.Message, said, c.Pending.Message)
	if p := c.Pending.Progress; p != nil {
		r.Message = plain.Sentences(r.Message, fmt.Sprintf("%.0f %% is done", *p*100))
	}
	if s.Solution.Supplied() {
		r.Message = plain.Sentences(r.Message, "What was sent with this call is not used, and not counted")
	}
	wait := RetryIn(s, c)
	r.RetryAfter = new(wait.Round(time.Millisecond).Seconds())
	r.Progress, r.ProgressMessage = c.Pending.Progress, c.Pending.Message
	r.NextAction = fmt.Sprintf("call kairos_next with %s again in %s, with the placeholder solution of next_call", protocol.URI(step.UUID), wait.Round(time.Second))
	if desc, _, _ := s.Drivers.Describe(c.Driver); desc.Has(driver.FeatureCancel) && !c.Cancelled {
		r.NextAction += "; if the user wants it to end, add cancel true"
	}
	r.NextCall = View(s).LeaveToServer(r.Challenge.Type)
	return r
}
