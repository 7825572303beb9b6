package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/director/present"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/filecheck"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// View is what this call may show of the run.
func View(s *State) present.View {
	return present.View{Run: *s.Run, Chain: *s.Chain, Note: s.Note, Solved: s.Solved}
}

// shownAsIs is the challenge as the step states it, for inputs that the server
// obtains without the agent.
func shownAsIs(s *State, k *input.Task, in driver.Input) driver.AgentChallenge {
	shown := driver.AgentChallenge{Type: cmp.Or(k.Common.Type, typeOf(s, OpenStep(s))), Display: in.Display}
	switch {
	case TakesNoReport(s, k, in):
		shown.Description = notByReport + ": call kairos_next with the placeholder solution, and the server asks them."
		return shown
	case input.Of(in.Kind).Approves:
		shown.Description = "A person must approve this step before anything is done. Do not do its work: call kairos_next, and the server asks them."
		return shown
	}
	shown.Description = plain.Sentences(in.Description, "The server obtains this itself: call kairos_next with the placeholder solution, and do not make anything up.")
	return shown
}

func sentence(s *State, inputID string) string {
	if why := troubles(s, inputID); why != "" {
		return "Tried before" + why + "."
	}
	return ""
}

// waitsForApproval: the open step needs an approval that the server obtains.
func waitsForApproval(s *State) bool {
	desc, _, _ := s.Drivers.Describe(s.Trying)
	return input.Of(s.Due).Approves && !desc.Has(driver.FeatureAgent)
}

// declineStands: a person declined, and no call of this client has them asked again.
func declineStands(s *State) bool {
	for inputID := range s.Run.Step.Declines {
		if !declinedByAgent(s) && !askedAgain(s, inputID) {
			return true
		}
	}
	return false
}

// declinedByAgent reports whether the agent reported the decline: it can correct that.
func declinedByAgent(s *State) bool {
	for _, by := range s.Run.Step.Declines {
		desc, _, _ := s.Drivers.Describe(by)
		if !desc.Has(driver.FeatureAgent) {
			return false
		}
	}
	return true
}

// askAgain is the call that lets the server ask the person once more.
func askAgain(s *State, k *input.Task) string {
	return fmt.Sprintf(`call kairos_next with %s and solution {"type":%q,"nonce":%q} from a client that can ask the person, or call kairos_attest with outcome failure`,
		protocol.URI(k.Step.UUID), k.Common.Type, s.Run.Step.Nonce)
}

// callFilled is the call with a solution that the agent has to fill in.
func callFilled(s *State, k *input.Task, in driver.Input, shown driver.AgentChallenge) *api.NextCall {
	solution := map[string]any{"type": shown.Type, "nonce": s.Run.Step.Nonce, "proof_hash": s.Run.ProofHash()}
	if !k.Free() {
		solution[placeOf(s, k, in, shown)] = api.Form(in.Schema)
	}
	return View(s).Next(api.SolutionForm(solution))
}

// placeOf is the field of a solution that the input's value goes into: the one
// named like the type, where clients know of one, but for what has a shape of
// its own.
func placeOf(s *State, k *input.Task, in driver.Input, shown driver.AgentChallenge) string {
	personsForm := input.Of(in.Kind).Evidence && in.Person && len(k.Common.OutputSchema) > 0
	if input.Of(in.Kind).OwnShape || personsForm || !slices.Contains(s.Options.SolutionFields, shown.Type) {
		return "evidence"
	}
	return shown.Type
}

// LastSolved lists the last n proofs, whose reply nobody may have seen.
func LastSolved(s *State, n int) []api.Solved {
	var solved []api.Solved
	for i := max(len(s.Run.Proofs)-n, 0); i < len(s.Run.Proofs); i++ {
		solved = append(solved, present.Solved(*s.Run, *s.Chain, i))
	}
	return solved
}

// FailureReply turns a reply that shows the open step into the reply to a counted failure.
func FailureReply(s *State, r api.StepReply, f Failure) api.StepReply {
	count := s.Run.Step.Failures
	r.RetryCount = &count
	r.ErrorCode = string(f.Code)
	r.Message = plain.Sentences(f.Why, r.Message)
	if r.MustObey { // else nothing that the agent submits helps
		r = retried(s, r, f)
	}
	if count >= maxFailures {
		r.ErrorCode = string(fault.MaxRetriesExceeded)
		r.Message = plain.Sentences(r.Message, fmt.Sprintf("This was failure %d of this step (%s).", count, f.Code))
		r = present.WaysOut(r)
	}
	return r
}

// retried says how to try again after a counted failure.
func retried(s *State, r api.StepReply, f Failure) api.StepReply {
	uri := r.CurrentStep.URI
	r.NextAction = fmt.Sprintf("retry kairos_next with %s and a solution of type %s; take nonce and proof_hash from this reply's challenge", uri, r.Challenge.Type)
	switch {
	case f.Code == fault.UserDeclined && !declinedByAgent(s):
		r = outOfDecline(s, r)
	case f.Code == fault.EvidenceNotAccepted:
		r.NextAction = fmt.Sprintf(`retry kairos_next with %s and solution {"type":%q,"nonce":%q}, so that the server asks the person`, uri, r.Challenge.Type, r.Challenge.Nonce)
		r.NextCall = View(s).LeaveToServer(r.Challenge.Type)
	case waitsForApproval(s):
		r.Message = plain.Sentences(r.Message, "Each attempt needs an approval of its own: nothing is done again before it is given")
		r.NextAction = fmt.Sprintf(`retry kairos_next with %s and solution {"type":%q,"nonce":%q}; %s`, uri, r.Challenge.Type, r.Challenge.Nonce, approvalFirst)
	}
	return r
}

// OmissionReply turns a reply that shows the open step into the reply to a submission
// that lacks something. No retry is counted.
func OmissionReply(s *State, r api.StepReply) api.StepReply {
	r.ErrorCode = cmp.Or(r.ErrorCode, string(fault.MissingField))
	r.Message = plain.Sentences(s.Omission, r.Message)
	r.RetryCount = &s.Run.Step.Failures
	return r
}

// Uncounted is said of work that came before its approval.
const Uncounted = "The work that was sent is not counted: it was not approved before it was done."

// approvalFirst is what the placeholder call does for a step that waits for an approval.
const approvalFirst = "the server obtains the approval, and its reply then says what is left to do"

// maxFailures is how many refused submissions an agent must obey before it may
// use its own judgement.
const maxFailures = 3

// NothingGiven says why an input that only the agent can give is still missing.
const NothingGiven = "Solution is missing: nobody but you can give it for this step."

// outOfDecline says what is left to do. None of it is to be done without the person.
func outOfDecline(s *State, r api.StepReply) api.StepReply {
	uri, when := r.CurrentStep.URI, "if they want to be asked again"
	if declineStands(s) {
		when = "after the decline was taken back"
	}
	r.MustObey, r.NextCall = false, nil
	r.NextAction = fmt.Sprintf("tell the person, and do what they choose: call kairos_attest with %s and outcome failure to end the run; "+
		`or, %s, call kairos_next with %s and solution {"type":%q,"nonce":%q}, and the server asks them`, uri, when, uri, r.Challenge.Type, r.Challenge.Nonce)
	return r
}

// StepReply shows the open step to the agent, whose turn it is.
func StepReply(s *State, k *input.Task, in driver.Input, shown driver.AgentChallenge) api.StepReply {
	r := View(s).Reply(k.Step, shown)
	r.NextCall = callFilled(s, k, in, shown)
	if !input.Of(in.Kind).Approves { // for which routes are left that were never tried
		r.Message = plain.Sentences(r.Message, sentence(s, in.ID))
	}
	return withAction(s, r, fmt.Sprintf("and a solution of type %s, once it is really done", shown.Type))
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
		r.NextAction += "; finally call kairos_attest with " + r.CurrentStep.URI
	}
	return r
}

// CompletedReply is the reply once every step is solved.
func CompletedReply(s *State) api.StepReply {
	last := s.Chain.Steps[len(s.Chain.Steps)-1]
	r := View(s).Reply(last, driver.AgentChallenge{Type: typeOf(s, last), Description: "No challenge is open."})
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
	r.NextAction = cmp.Or(f.NextAction, fmt.Sprintf("%s; then call kairos_next with %s, or call kairos_attest with %s and outcome failure to give up",
		fault.RowOf(f.Code).Advice, r.CurrentStep.URI, r.CurrentStep.URI))
	switch r.NextCall = api.CallOf(f); {
	case r.NextCall != nil:
	case f.Code == fault.UserDeclined:
		return outOfDecline(s, r)
	case f.Code == fault.FilesUnverified && rootsMayHelp(s):
		return beginWithRoots(s, r)
	case f.Code == fault.NonceMismatch: // both are to be taken from this reply
		r.NextCall = View(s).Next(map[string]any{"type": r.Challenge.Type, "nonce": s.Run.Step.Nonce, "proof_hash": s.Run.ProofHash()})
	case f.Code == fault.EvidenceNotAccepted && s.Solution.Supplied(): // without it the server asks, or looks itself
		r.NextCall = View(s).LeaveToServer(r.Challenge.Type)
	default: // the same call would come to the same reply: a person or the operator has to act first
		r.MustObey = false
		return r
	}
	if s.Run.Step.Failures >= maxFailures {
		r = present.WaysOut(r)
	}
	return r
}

// rootsMayHelp reports whether the files of the step may be looked at in another run: one that
// says which folders it works in, for a client of this machine that lists none itself.
func rootsMayHelp(s *State) bool {
	return len(s.Run.Roots) == 0 && !s.Caller.Client.Roots && filecheck.Local(s.Caller.Client)
}

// beginWithRoots is the reply of a run that began without the folders it works in, which are fixed.
func beginWithRoots(s *State, r api.StepReply) api.StepReply {
	uri := protocol.URI(s.Chain.Steps[0].UUID)
	with := map[string]any{"uri": uri, "roots": []string{"<string: absolute path of a folder that the run works in>"}}
	if len(s.Run.Input) > 0 {
		with["input"] = s.Run.Input
	}
	r.NextCall = api.NewCall(api.ToolBegin, with)
	r.NextAction = fmt.Sprintf("call kairos_begin with %s and roots, the absolute paths of the folders that you work in: this run began without them, and they cannot be added to it. "+
		"Then call kairos_attest with %s and outcome failure to end this run", uri, present.Where(r.CurrentStep.URI, s.Run.ID))
	return r
}

// WithLink ends the message with the link of the reply, if there is one: no other word and no mark
// follows it, because readers would take that for a part of it.
func WithLink(r api.StepReply) api.StepReply {
	if r.ApprovalURL != "" {
		r.Message = strings.TrimSpace(r.Message + " " + api.LinkSentence(r.ApprovalURL))
	}
	return r
}

// askPersonAgain is after how long it makes sense to call again while a person is asked.
const askPersonAgain = 5 * time.Second

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
	approves := input.Of(q.Input.Kind).Approves
	if approves || q.Elsewhere != "" {
		with = "with the placeholder solution of next_call"
	}
	if approves && s.Solution.Supplied() {
		r.Message = plain.Sentences(r.Message, Uncounted)
	}
	r.NextAction = fmt.Sprintf("call kairos_next with %s again, %s", r.CurrentStep.URI, with)
	if linkHolds(s, &q) {
		r.ApprovalURL = MarkedURL(s, q.Link)
		where = append(where, "on the approval page")
	}
	said := "The person was asked and has not answered yet."
	switch {
	case !q.Human:
		said = "The client was asked and has not answered yet."
	case !q.Closed.IsZero():
		said, r.NextAction = dismissal(s, q, r.NextAction)
	}
	if q.Elsewhere != "" {
		said, where = plain.Sentences(q.Elsewhere, "Nobody has answered yet."), []string{"on the approval page"}
		if missing := WhoIsMissing(s, k); approves && missing != "" {
			said = plain.Sentences(q.Elsewhere, missing, "Only people who log in can approve")
		}
		r.NextAction = fmt.Sprintf("show the person approval_url, then call kairos_next with %s again, %s; "+
			"the link is theirs alone, and good until %s", r.CurrentStep.URI, with, q.Link.ExpiresAt.UTC().Format(time.RFC3339))
	}
	open := strings.TrimSpace("The question stays open " + strings.Join(where, ", and "))
	r.Message = plain.Sentences(r.Message, said, open+"; calling kairos_next again continues it")
	r.RetryAfter = new(askPersonAgain.Seconds())
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
