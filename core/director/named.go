package director

import (
	"context"
	"slices"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/director/approval"
	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/run"
)

// workOut finds out what the step of an approval demands, as long as that matters.
func (l *linked) workOut(ctx context.Context) (err error) {
	t, asked := l.turn, l.shown.State(l.turn.Now) == approval.Open || l.turn.Run.Step.Call != nil
	l.shown.Task = nil
	if asked && input.Of(l.shown.Question.Input.Kind).Approves && t.Run.State.Live() && t.Run.Step.Index == l.shown.Step {
		l.shown.Task, err = askedTask(ctx, t, l.shown.Question)
	}
	return err
}

// unknown reports whether the step cannot be worked out that people may have to log in for.
func (l *linked) unknown() bool {
	k := l.shown.Task
	return k != nil && k.Use == "" && l.turn.Realm != ""
}

// maySee returns an error unless the caller reads the space of the run, or was asked for by name or group
// and has logged in.
func (l *linked) maySee(ctx context.Context) error {
	c := l.turn.Caller
	switch ev := l.shown.Decided; {
	case c.Reads(l.turn.Chain.Space):
		return nil
	case c.Method != access.ByLogin:
		return noApproval() // of others, or left the group meanwhile, as in usable
	case ev != nil && (ev.By == c.Principal || ev.Approval != nil && slices.ContainsFunc(ev.Approval.Votes, func(v run.Vote) bool { return v.By == c.Principal })):
		return nil // to see what came of their answer
	}
	if err := l.workOut(ctx); err != nil {
		return err
	}
	if k := l.shown.Task; k != nil && len(k.Approval.As(c.Principal, c.MemberOf)) > 0 {
		return nil
	}
	return noApproval()
}
