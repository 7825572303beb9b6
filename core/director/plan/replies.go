package plan

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/director/present"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/sdk/driver"
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
		solution[placeOf(s, k, in, shown)] = input.Form(in.Schema)
	}
	return View(s).Next(solution)
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
	uri, count := r.CurrentStep.URI, s.Run.Step.Failures
	r.RetryCount = &count
	r.ErrorCode = string(f.Code)
	r.Message = plain.Sentences(f.Why, r.Message)
	r.NextAction = fmt.Sprintf("retry kairos_next with %s and a solution of type %s; take nonce and proof_hash from this reply's challenge", uri, r.Challenge.Type)
	switch {
	case f.Code == fault.UserDeclined && declineStands(s):
		r = outOfDecline(r)
	case f.Code == fault.UserDeclined && !declinedByAgent(s):
		r.NextAction = fmt.Sprintf(`retry kairos_next with %s and solution {"type":%q,"nonce":%q}, so that the server asks the person again; `+
			"do that only if they want to be asked, else call kairos_attest with %s and outcome failure", uri, r.Challenge.Type, r.Challenge.Nonce, uri)
		r.NextCall = View(s).LeaveToServer(r.Challenge.Type)
	case f.Code == fault.EvidenceNotAccepted:
		r.NextAction = fmt.Sprintf(`retry kairos_next with %s and solution {"type":%q,"nonce":%q}, so that the server asks the person`, uri, r.Challenge.Type, r.Challenge.Nonce)
		r.NextCall = View(s).LeaveToServer(r.Challenge.Type)
	case waitsForApproval(s):
		r.Message = plain.Sentences(r.Message, "Each attempt needs an approval of its own: nothing is done again before it is given")
		r.NextAction = fmt.Sprintf(`retry kairos_next with %s and solution {"type":%q,"nonce":%q}; %s`, uri, r.Challenge.Type, r.Challenge.Nonce, approvalFirst)
	}
	if count >= maxFailures {
		r.ErrorCode = string(fault.MaxRetriesExceeded)
		r.Message = plain.Sentences(r.Message, fmt.Sprintf("This was failure %d of this step (%s).", count, f.Code))
		r = present.WaysOut(r)
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
func outOfDecline(r api.StepReply) api.StepReply {
	uri := r.CurrentStep.URI
	r.MustObey, r.NextCall = false, nil
	r.NextAction = fmt.Sprintf("tell the person, and do what they choose: call kairos_attest with %s and outcome failure to end the run; "+
		`or, after the decline was taken back, call kairos_next with %s and solution {"type":%q,"nonce":%q}, and the person is asked again`, uri, uri, r.Challenge.Type, r.Challenge.Nonce)
	return r
}
