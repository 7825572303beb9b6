package driverrpc

import (
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/driverpb"
)

func toPreviewRequest(c *conversion, r driver.PreviewRequest) *driverpb.PreviewRequest {
	return &driverpb.PreviewRequest{Input: toInput(c, r.Input), Step: toStep(c, r.Step), Client: toClient(r.Client), Proposal: r.Proposal}
}

func fromPreviewRequest(c *conversion, r *driverpb.PreviewRequest) driver.PreviewRequest {
	return driver.PreviewRequest{
		Input: fromInput(c, r.GetInput()), Step: fromStep(r.GetStep()), Client: fromClient(r.GetClient()), Proposal: fromBytes(r.GetProposal()),
	}
}

func toPreviewResult(c *conversion, r driver.PreviewResult) *driverpb.PreviewResponse {
	out := &driverpb.PreviewResponse{}
	outcomes := 0
	if p := r.Plan; p != nil {
		outcomes++
		out.Outcome = &driverpb.PreviewResponse_Plan{Plan: &driverpb.Plan{Text: p.Text, Data: p.Data, Effect: toEnum(c, effects, p.Effect), Action: p.Action}}
	}
	if p := r.Propose; p != nil {
		outcomes++
		out.Outcome = &driverpb.PreviewResponse_Propose{Propose: &driverpb.Propose{Schema: p.Schema, Description: p.Description}}
	}
	if v := r.Invalid; v != nil {
		outcomes++
		out.Outcome = &driverpb.PreviewResponse_Invalid{Invalid: &driverpb.Invalid{Diagnostics: toDiagnostics(c, v.Diagnostics)}}
	}
	if u := r.Unavailable; u != nil {
		outcomes++
		out.Outcome = &driverpb.PreviewResponse_Unavailable{Unavailable: &driverpb.Unavailable{Reason: u.Reason}}
	}
	oneOutcome(c, MethodPreview, outcomes)
	return out
}

func fromPreviewResult(c *conversion, r *driverpb.PreviewResponse) driver.PreviewResult {
	var out driver.PreviewResult
	outcomes := 1
	switch o := r.GetOutcome().(type) {
	case *driverpb.PreviewResponse_Plan:
		out.Plan = &driver.Plan{
			Text: o.Plan.GetText(), Data: fromBytes(o.Plan.GetData()), Effect: fromEnum(c, effects, o.Plan.GetEffect()), Action: fromBytes(o.Plan.GetAction()),
		}
	case *driverpb.PreviewResponse_Propose:
		out.Propose = &driver.Propose{Schema: fromBytes(o.Propose.GetSchema()), Description: o.Propose.GetDescription()}
	case *driverpb.PreviewResponse_Invalid:
		out.Invalid = &driver.Invalid{Diagnostics: fromDiagnostics(c, o.Invalid.GetDiagnostics())}
	case *driverpb.PreviewResponse_Unavailable:
		out.Unavailable = &driver.Unavailable{Reason: o.Unavailable.GetReason()}
	default: // no outcome, or one of a later version of the contract
		outcomes = 0
	}
	oneOutcome(c, MethodPreview, outcomes)
	return out
}
