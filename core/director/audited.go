package director

import (
	"context"
	"strconv"

	"github.com/kairos-mcp/kairos/core/audit"
	"github.com/kairos-mcp/kairos/core/run"
)

// audited has audited what people decided in a call, while do stores it: one act in the other.
func audited(ctx context.Context, t *turn, events []run.Event, do func() error) error {
	for i, ev := range events {
		action, details := decisionOf(ev)
		if action == "" {
			continue
		}
		details["step"], details["via"] = strconv.Itoa(ev.Step), ev.Via
		act := audit.Act{Action: action, Space: t.Chain.Space, Object: string(ev.Run), Details: details, Anyway: stops(ev)}
		return t.e.opt.Audit.Do(ctx, t.Caller, act, func(*audit.Doing) error { return audited(ctx, t, events[i+1:], do) })
	}
	return do()
}

// stops reports whether the decision stops something. It counts also where nobody can audit it.
func stops(ev run.Event) bool { return ev.Kind == run.Declined || ev.Kind == run.Cancelled }

// decisionOf is what the audit log says of an event: of a decision of somebody what it is, else
// nothing. The caller stands beside it; who answered a form is not known.
func decisionOf(ev run.Event) (action audit.Action, details map[string]string) {
	switch {
	case ev.Approval != nil:
		return audit.ApprovalGive, map[string]string{"how": string(ev.Approval.Basis), "by": ev.Approval.By}
	case ev.Kind == run.PartlyApproved:
		return audit.ApprovalGive, map[string]string{"how": string(run.BasisPage), "by": ev.Vote.By}
	case ev.Kind == run.Declined:
		return audit.ApprovalDecline, map[string]string{"by": ev.By} // a principal
	case ev.Kind == run.Undeclined:
		return audit.ApprovalUndo, map[string]string{}
	case ev.Kind == run.Cancelled:
		return audit.RunCancel, map[string]string{}
	case ev.Kind == run.Decided:
		return audit.RunDecide, map[string]string{"happened": strconv.FormatBool(ev.Decision.Happened)}
	}
	return "", nil
}
