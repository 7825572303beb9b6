package plan

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/rules"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// ruled adds to a step what the rules of the operator demand of it, now that its challenge
// driver asks for these inputs, and another one plans this, or nil: both say what is done. It
// refuses a step for which nothing can meet that.
func ruled(s *State, k *input.Task, asked []driver.Input, p *run.Plan) *fault.Error {
	sub := subject(s, k, asked, p)
	k.Demand = s.Rules.For(sub)
	k.ByAction = s.Rules.ForAction(sub)
	if before := s.Run.Step.Demand; before != nil {
		k.ByAction = k.ByAction.And(demandOf(*before))
		k.Demand = k.Demand.And(demandOf(*before))
	}
	if k.Demand.Judge != "" {
		k.Common.Judge = required(k.Common.Judge)
	}
	k.Demand = k.Demand.Narrowed(k.Common.Evidence.Provenances())
	return possible(k, s.Realm)
}

// Demanded works out anew what is demanded of the step and how it is approved, now that its
// driver asks for these inputs, or another one plans this.
func Demanded(s *State, k *input.Task, asked []driver.Input, p *run.Plan) *fault.Error {
	if err := ruled(s, k, asked, p); err != nil {
		return err
	}
	return approve(s, k)
}

// subject is the step as rules see it. Its action is known once its driver has asked for
// something, or a driver has made a plan.
func subject(s *State, k *input.Task, asked []driver.Input, p *run.Plan) rules.Subject {
	sub := rules.Subject{Facts: Facts(s, k, input.EvidenceKind.Name)}
	if k.Free() {
		sub.Facts.Challenge.Type = "" // the type under which it is shown is of no challenge
		return sub
	}
	for _, in := range asked {
		if kind := input.Of(in.Kind); kind.Internal || kind.Reserved {
			continue
		}
		a := rules.Action{Drivers: []string{k.Use}, Stated: []json.RawMessage{in.Action}}
		if p != nil {
			a.Drivers = append(a.Drivers, p.Driver)
			a.Stated = append(a.Stated, p.Action)
		}
		sub.Actions = append(sub.Actions, a)
	}
	return sub
}

// required is a judgement without which the step does not pass, with the question of the
// challenge, if it has one.
func required(own *protocol.Judge) *protocol.Judge {
	j := protocol.Judge{Required: true}
	if own != nil {
		j.Question = own.Question
	}
	return &j
}

// demandOf is what was demanded of the open step when its driver asked for its inputs.
func demandOf(d run.Demand) rules.Demand {
	return rules.Demand{Evidence: d.Evidence, Judge: d.Judge, By: d.By}
}

// kept is what the record keeps of a demand, for the calls in which the inputs that say what is
// done are answered; nil: nothing.
func kept(d rules.Demand) *run.Demand {
	if d.Evidence == nil && d.Judge == "" {
		return nil
	}
	return &run.Demand{Evidence: slices.Clone(d.Evidence), Judge: d.Judge, By: d.By}
}

// JudgedBy is the driver through which alone the input may be judged; empty: the tree decides.
func JudgedBy(k *input.Task, in driver.Input) string {
	if !input.Of(in.Kind).Judges || k == nil {
		return ""
	}
	return k.Demand.Judge
}

// reopen starts the challenge over where the operator changed, since its driver asked for its
// inputs, how the step is approved: an approval is demanded now, or the one that was given
// does not count any more. Evidence that was taken before stays.
func reopen(s *State) Action {
	k, step, why := s.Task, s.Run.Step, ""
	if _, taken := EvidenceOf(step); taken || k.Free() || step.Call != nil || step.Withheld != nil {
		return nil
	}
	gated := func(in driver.Input) bool { return !input.Of(in.Kind).Ungated && Gated(s, k, in) }
	switch a := step.Approval; {
	case a != nil && !approvesNow(k, *a):
		why = fmt.Sprintf("The approval of step %d does not count any more, because what is demanded of it was changed: %s", step.Index, k.Approval.Words())
	case !step.Gated && slices.ContainsFunc(step.Inputs, gated):
		why = fmt.Sprintf("Step %d has to be approved now, because what is demanded of it was changed: %s", step.Index, k.Approval.Words())
	default:
		return nil
	}
	return Apply{Events: []run.Event{{Kind: run.Restarted, Reason: why}}, Note: why}
}

// approvesNow reports whether an approval that was given meets what is demanded of it now.
func approvesNow(k *input.Task, a run.Approval) bool {
	return slices.Contains(k.Approval.How, a.Basis.Way()) && a.Has(k.Approval.Phrase) && countsInTime(k, a) && byThosePeople(k, a)
}

// countsInTime reports whether the approval took as long as is demanded. One of the page was looked at when
// it was given.
func countsInTime(k *input.Task, a run.Approval) bool {
	return a.Basis.Way() == driver.ByPage || inTime(k.Approval.After, a.Delay)
}
