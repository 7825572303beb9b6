package director

import (
	"encoding/json"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/schema"
)

// personal reports whether the input asks for a person's own answer. Only the
// driver of a type that is about a person may say so.
func (tr *trust) personal(k task, in driver.Input) bool {
	desc, _, _ := tr.t.e.Drivers.Describe(k.use)
	return in.Person && desc.Approval == driver.ApprovalUser
}

// ownAnswer reports whether nobody but a person may answer the input: it asks for
// their own answer, and the step or the tree states approval mode user.
func (tr *trust) ownAnswer(k task, in driver.Input) bool {
	return k.stated && k.approval == driver.ApprovalUser && tr.personal(k, in)
}

// takesNoReport is ownAnswer for the step's evidence and for the approval in
// front of it, which then is the answer.
func (ap *approvals) takesNoReport(k task, in driver.Input) bool {
	switch in.Kind {
	case driver.KindEvidence:
		return ap.t.trust.ownAnswer(k, in)
	case driver.KindApproval:
		for _, behind := range ap.t.Run.Step.Inputs {
			if ap.t.trust.ownAnswer(k, behind) {
				return true
			}
		}
	}
	return false
}

// gated reports whether an approval stands in front of the input. One in front of
// a person's own answer would be noise, unless it can be that answer itself.
func (ap *approvals) gated(k task, in driver.Input) (bool, error) {
	switch {
	case k.approval != driver.ApprovalUser:
		return false, nil
	case !ap.t.trust.personal(k, in), ap.t.trust.ownAnswer(k, in) && yesOrNo(in):
		return true, nil
	case k.common.ApprovalPhrase != "":
		return false, fault.New(fault.InvalidArgument, "The protocol is at fault: nobody can type the approval_phrase of step %d into the form that it asks for. "+
			"Mint it again without the phrase, or as a question for yes or no.", k.where.Index)
	}
	return false, nil
}

// yesOrNo reports whether the input asks for exactly what an approval says.
func yesOrNo(in driver.Input) bool {
	strict, err := schema.Strict(in.Schema)
	if err != nil {
		return false
	}
	takes := func(word string) bool {
		return len(schema.Validate(strict, json.RawMessage(`{"confirmation":"`+word+`"}`))) == 0
	}
	return takes(saidApproved) && takes(saidRejected) && !takes("another word")
}

// approvedAnswer is what a person has answered to the input by approving; nil:
// they have not, or it asks for more.
func (ap *approvals) approvedAnswer(k task, in driver.Input) *driver.Answer {
	if !ap.t.Run.Step.Gated || !ap.approvalStands() || !ap.t.trust.ownAnswer(k, in) || !yesOrNo(in) {
		return nil
	}
	a := ap.t.Run.Step.Approval
	return &driver.Answer{
		InputID: in.ID, Value: json.RawMessage(`{"confirmation":"` + saidApproved + `"}`), Provenance: a.Provenance, Via: a.Via,
	}
}

// takeApproval makes a person's approval the answer that the step asks for.
func (ap *approvals) takeApproval(in driver.Input, a *driver.Answer) error {
	return ap.t.apply(run.Event{Kind: run.Supplied, Input: in.ID, Via: a.Via, Answer: a, Reason: in.Description})
}

// notByReport says why nobody but the person may answer.
const notByReport = "This step takes only a person's own answer, given to the server itself. Do not answer for them and do not pass their answer on"
