package present

import (
	"fmt"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/run"
)

// Next is the call of kairos_next for the open step with this solution.
func (v View) Next(solution map[string]any) *api.NextCall {
	return api.NewCall(api.ToolNext, map[string]any{
		"uri": v.OpenURI(), "run_id": string(v.Run.ID), "solution": solution,
	})
}

// LeaveToServer is the call of kairos_next that lets the server obtain what is due, or show again what the agent
// has to give. It is never counted as a failure.
func (v View) LeaveToServer(kind string) *api.NextCall {
	return v.Next(map[string]any{"type": kind, "nonce": v.Run.Step.Nonce})
}

// Attest is the call that closes the run, for the agent to fill in.
func Attest(uri string, id run.ID) *api.NextCall {
	return api.NewCall(api.ToolAttest, map[string]any{
		"uri": uri, "run_id": string(id), "outcome": outcomeForm, "message": MessageForm,
	})
}

// Placeholders of an attestation. The first is not an outcome, so it is refused anyway.
const (
	outcomeForm = "<success or failure>"
	MessageForm = "<string: what was achieved, or why it failed>"
)

// Where names the step and the run in the words of a call: without the run, a call means
// one of several that are open. The URI is followed by a blank, as clients expect.
func Where(uri string, id run.ID) string { return fmt.Sprintf("%s and run_id %s", uri, id) }

// Resume is the arguments of the kairos_begin that shows a run's open step.
func Resume(uri, id string) map[string]any { return map[string]any{"uri": uri, "session_id": id} }

// WaysOut leaves an agent that failed often enough its own judgement.
func WaysOut(r api.StepReply) api.StepReply {
	uri, where := r.CurrentStep.URI, Where(r.CurrentStep.URI, run.ID(r.RunID))
	r.MustObey, r.NextCall = false, nil
	r.NextAction = fmt.Sprintf("choose: call kairos_update with %s if the step itself is wrong, and begin again, because this run keeps the step as it was; "+
		"call kairos_attest with %s and outcome failure to give up; or ask the user what to do and retry kairos_next with %s", uri, where, where)
	return r
}
