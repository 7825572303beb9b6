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
	details = map[string]string{"step": strconv.Itoa(ev.Step), "via": ev.Via}
	switch {
	case ev.Approval != nil:
		details["how"], details["by"] = string(ev.Approval.Basis), ev.Approval.By
		return audit.ApprovalGive, details
	case ev.Kind == run.PartlyApproved:
		details["how"], details["by"] = string(run.BasisPage), ev.Vote.By
		return audit.ApprovalGive, details
	case ev.Kind == run.Declined:
		details["by"] = ev.By // a principal
		return audit.ApprovalDecline, details
	case ev.Kind == run.Undeclined:
		return audit.ApprovalUndo, details
	case ev.Kind == run.Cancelled:
		return audit.RunCancel, details
	case ev.Kind == run.Decided:
		details["happened"] = strconv.FormatBool(ev.Decision.Happened)
		return audit.RunDecide, details
	}
	return "", nil
}
