package director

import (
	"context"

	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/director/plan"
	"github.com/kairos-mcp/kairos/core/run"
)

// short asks for an approval once more with a short form, after a client failed at the whole:
// what is to be approved must not lead away from the person by its length.
type short struct{ qs *questions }

// possible reports whether the client may take a short form where it failed at this question.
func (s short) possible(q run.Question) bool {
	return input.Of(q.Input.Kind).Approves && q.Human && !q.Short && s.qs.t.Caller.Client.ElicitationForm &&
		!sentToAddress(q.Ask) && input.MayBeTooLong(q.Input) && s.qs.t.Run.Step.Call == nil
}

func (s short) ask(ctx context.Context, k input.Task, q run.Question, r decision.Route) (Round, error) {
	q.Short = true
	q.Input = plan.ShortQuestion(s.qs.t.State, k, plan.GatedInput(s.qs.t.State))
	return s.qs.render(ctx, k, q, r, nil)
}
