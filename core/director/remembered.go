package director

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/kairos-mcp/kairos/core/declines"
	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// remembered is what people declined in other runs, or earlier in this one.
type remembered struct {
	t *turn
	// decline is of the action that was looked up last; nil: there is none.
	decline *declines.Decline
	part    bool // of what was looked up, which permits more
	// approved is the action that a person has approved, until that is stored.
	approved declines.Action
}

// action is what an approval of the open step would permit.
func (re *remembered) action() (declines.Action, error) {
	return re.actionOf(re.t.approvals.gatedInput())
}

// actionOf is what an approval in front of the input would permit.
func (re *remembered) actionOf(in driver.Input) (declines.Action, error) {
	asked := declines.Asked{Type: in.Type, Shown: in.Display}
	if len(asked.Shown) == 0 { // then the words are all that there is
		words, err := json.Marshal([]string{in.Description, in.User})
		if err != nil {
			return nil, err
		}
		asked.Shown = words
	}
	if len(in.Action) > 0 {
		asked.Stated = append(asked.Stated, in.Action)
	}
	switch p := re.t.Run.Step.Plan; {
	case p == nil:
	case len(p.Action) > 0:
		asked.Stated = append(asked.Stated, p.Action)
	default:
		asked.Proposed = p.Proposed
	}
	return asked.Action()
}

// look returns the decline of the action that counts for the run; nil: there is none.
func (re *remembered) look(ctx context.Context, a declines.Action) (*declines.Decline, error) {
	if re.t.Absent().Declines {
		return nil, nil
	}
	return re.t.e.declines.Remembered(ctx, re.t.Run.Principal, re.t.Run.Space, a)
}

// load looks up whether a person declined what is to be approved.
func (re *remembered) load(ctx context.Context) error {
	action, err := re.action()
	if err != nil {
		return err
	}
	re.decline, err = re.look(ctx, action)
	re.part = re.decline != nil && !re.decline.Action.Includes(action)
	return err
}

// gates reports whether an approval stands in front of the input although the step
// asks for none, because a person declined the same: a copy of the protocol could
// leave the approval out.
func (re *remembered) gates(ctx context.Context, in driver.Input) (bool, error) {
	if input.Of(in.Kind).Ungated {
		return false, nil
	}
	action, err := re.actionOf(in)
	if err != nil {
		// Nothing tells it from what was declined.
		action = declines.Any(in.Type)
	}
	d, err := re.look(ctx, action)
	return d != nil, err
}

// bars says why a route may not approve what a person declined; empty: it may.
func (re *remembered) bars(in driver.Input, desc driver.Descriptor) string {
	if re.decline == nil || !input.Of(in.Kind).Approves || desc.Has(driver.FeatureHuman) {
		return ""
	}
	return plain.Sentences("only a person can approve what a person declined.", re.said())
}

// byLink reports whether the holder of a link may approve: not what a person declined,
// because the holder is not identified.
func (re *remembered) byLink() bool {
	_, no := re.t.Run.Step.Declines[input.ApprovalKind.Name]
	return re.decline == nil && !no
}

// way is how a person's decline is taken back if they are not asked again.
func (re *remembered) way() string {
	return fmt.Sprintf("The operator of this server can take the decline back with `kairos runs undecline %s`", re.t.Run.ID)
}

// askedAgain reports whether the client can have the person asked again who declined the input: not
// by a link, for which byLink is the rule.
func (re *remembered) askedAgain(inputID string) bool {
	desc, _, _ := re.t.e.Drivers.Describe(re.t.Run.Step.Declines[inputID])
	forms := re.t.caller.Client.ElicitationForm || !slices.Contains(desc.Needs, driver.NeedElicitation)
	return forms && !slices.Contains(desc.Needs, driver.NeedApprovalPage)
}

// said describes the decline; empty if there is none, or if it was made in this run, whose
// replies describe it.
func (re *remembered) said() string {
	d := re.decline
	if last := re.t.Run.Step.LastDecline; d == nil && last != nil && !last.TakenBack.IsZero() {
		said := fmt.Sprintf("This was declined at %s (%s), and the decline was taken back at %s by %s",
			last.At.UTC().Format(time.DateTime+" UTC"), last.Reason, last.TakenBack.UTC().Format(time.DateTime+" UTC"), last.By)
		if last.Why != "" {
			said += ": " + last.Why
		}
		return plain.Sentences(said)
	}
	if d == nil || d.Run == re.t.Run.ID {
		return ""
	}
	what := "this"
	if re.part {
		what = "something that this permits"
	}
	said := fmt.Sprintf("A person declined %s %s ago", what, ago(re.t.e.opt.Clock.Now().Sub(d.At)))
	if !re.t.caller.Reads(d.Space) {
		return said + ", in another space."
	}
	return fmt.Sprintf("%s, in run %s (%q of %q).", said, d.Run, d.Label, d.Title)
}

// ago is a duration in words, rounded down.
func ago(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%d seconds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d minutes", int(d.Minutes()))
	}
	return fmt.Sprintf("%d hours", int(d.Hours()))
}

// remember keeps that a person declined what was to be approved.
func (re *remembered) remember(ctx context.Context, in driver.Input, via string) error {
	desc, _, _ := re.t.e.Drivers.Describe(via)
	if !input.Of(in.Kind).Approves || !desc.Has(driver.FeatureHuman) {
		return nil
	}
	action, err := re.action()
	if err != nil {
		return err
	}
	s := re.t.Run.Step
	defer re.t.Stored()
	return re.t.e.declines.Remember(ctx, declines.Decline{
		Principal: re.t.Run.Principal, Space: re.t.Run.Space, Action: action, Run: re.t.Run.ID, Step: s.Index, Label: re.t.Chain.Steps[s.Index-1].Label, Title: re.t.Chain.Title, Via: via,
	})
}

// approve notes that a person has approved the action. The holder of a link is not
// known to be one.
func (re *remembered) approve(a *run.Approval) (err error) {
	if a == nil || a.Provenance != driver.ClientAttested {
		return nil
	}
	re.approved, err = re.action()
	return err
}

// forget removes the declines of what a person has approved, now that this is stored:
// another server may have taken a decline before.
func (re *remembered) forget(ctx context.Context) {
	if re.approved == nil {
		return
	}
	if err := re.t.e.declines.Forget(ctx, re.t.Run.Principal, re.t.Run.Space, re.approved); err != nil {
		re.t.e.log.WarnContext(ctx, "a decline is still remembered, so that a person will be asked again", "run", re.t.Run.ID, "error", err)
	}
	re.approved = nil
}
