package director

import (
	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/director/plan"
	"github.com/kairos-mcp/kairos/core/run"
)

// shortPossible reports whether the client may take a short form where it failed at this question.
func shortPossible(t *turn, q run.Question) bool {
	return input.Of(q.Input.Kind).Approves && q.Human && !q.Short && t.Caller.Client.ElicitationForm &&
		!sentToAddress(q.Ask) && input.MayBeTooLong(q.Input) && t.Run.Step.Call == nil
}

// askShort asks for an approval once more with a short form, after a client failed at the whole:
// what is to be approved must not lead away from the person by its length.
func askShort(t *turn, k *input.Task, q run.Question, r decision.Route) plan.Action {
	q.Short = true
	q.Input = plan.ShortQuestion(t.State, k, plan.GatedInput(t.State))
	return plan.Call{Kind: plan.Render, Task: k, Question: &q, Route: r}
}
