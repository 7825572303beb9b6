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
	switch {
	case r.Plan != nil:
		out.Outcome = &driverpb.PreviewResponse_Plan{Plan: &driverpb.Plan{Text: r.Plan.Text, Data: r.Plan.Data, Effect: toEnum(c, effects, r.Plan.Effect), Action: r.Plan.Action}}
	case r.Propose != nil:
		out.Outcome = &driverpb.PreviewResponse_Propose{Propose: &driverpb.Propose{Schema: r.Propose.Schema, Description: r.Propose.Description}}
	case r.Invalid != nil:
		out.Outcome = &driverpb.PreviewResponse_Invalid{Invalid: &driverpb.Invalid{Diagnostics: toDiagnostics(c, r.Invalid.Diagnostics)}}
	case r.Unavailable != nil:
		out.Outcome = &driverpb.PreviewResponse_Unavailable{Unavailable: &driverpb.Unavailable{Reason: r.Unavailable.Reason}}
	}
	oneOutcome(c, MethodPreview, r)
	return out
}

func fromPreviewResult(c *conversion, r *driverpb.PreviewResponse) driver.PreviewResult {
	var out driver.PreviewResult
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
	}
	oneOutcome(c, MethodPreview, out)
	return out
}
