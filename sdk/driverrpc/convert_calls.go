package driverrpc

import (
	driverv1 "github.com/kairos-mcp/kairos/proto/kairos/driver/v1"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

func (c *conversion) toValidateResult(r driver.ValidateResult) *driverv1.ValidateResponse {
	return &driverv1.ValidateResponse{
		Diagnostics:   c.toDiagnostics(r.Diagnostics),
		ChallengeJson: r.Challenge,
		Templates: toAll(r.Templates, func(t driver.Template) *driverv1.Template {
			return &driverv1.Template{Pointer: t.Pointer, Escaping: toEnum(c, escapings, t.Escaping)}
		}),
	}
}

func (c *conversion) fromValidateResult(r *driverv1.ValidateResponse) driver.ValidateResult {
	return driver.ValidateResult{
		Diagnostics: c.fromDiagnostics(r.GetDiagnostics()),
		Challenge:   fromBytes(r.GetChallengeJson()),
		Templates: toAll(r.GetTemplates(), func(t *driverv1.Template) driver.Template {
			return driver.Template{Pointer: t.GetPointer(), Escaping: fromEnum(c, escapings, t.GetEscaping())}
		}),
	}
}

func (c *conversion) toAdvanceRequest(r driver.AdvanceRequest) *driverv1.AdvanceRequest {
	return &driverv1.AdvanceRequest{
		ChallengeJson: r.Challenge,
		Step:          c.toStep(r.Step),
		Client:        toClient(r.Client),
		Answers:       toAll(r.Answers, c.toAnswer),
		State:         c.toState(r.State),
		Round:         c.toUint32("round", r.Round),
		Approved:      r.Approved,

		IdempotencyKey: r.IdempotencyKey, Attempt: c.toUint32("attempt", r.Attempt), Recover: r.Recover,
	}
}

func (c *conversion) fromAdvanceRequest(r *driverv1.AdvanceRequest) driver.AdvanceRequest {
	return driver.AdvanceRequest{
		Challenge: fromBytes(r.GetChallengeJson()),
		Step:      fromStep(r.GetStep()),
		Client:    fromClient(r.GetClient()),
		Answers:   toAll(r.GetAnswers(), c.fromAnswer),
		State:     fromState(r.GetState()),
		Round:     int(r.GetRound()),
		Approved:  r.GetApproved(),

		IdempotencyKey: r.GetIdempotencyKey(), Attempt: int(r.GetAttempt()), Recover: r.GetRecover(),
	}
}

func (c *conversion) toAdvanceResult(r driver.AdvanceResult) *driverv1.AdvanceResponse {
	out := &driverv1.AdvanceResponse{State: c.toState(r.State)}
	outcomes := 0
	if len(r.NeedInput) > 0 {
		outcomes++
		out.Outcome = &driverv1.AdvanceResponse_NeedInput{
			NeedInput: &driverv1.NeedInput{Inputs: toAll(r.NeedInput, c.toInput)},
		}
	}
	if a := r.Accepted; a != nil {
		outcomes++
		out.Outcome = &driverv1.AdvanceResponse_Accepted{
			Accepted: &driverv1.Accepted{Proof: a.Proof, Output: a.Output, Observed: a.Observed},
		}
	}
	if rej := r.Rejected; rej != nil {
		outcomes++
		out.Outcome = &driverv1.AdvanceResponse_Rejected{Rejected: &driverv1.Rejected{
			ErrorCode: rej.Code, Message: rej.Message, Retryable: rej.Retryable,
		}}
	}
	if d := r.Declined; d != nil {
		outcomes++
		out.Outcome = &driverv1.AdvanceResponse_Declined{Declined: &driverv1.Declined{Reason: d.Reason}}
	}
	if u := r.Unavailable; u != nil {
		outcomes++
		out.Outcome = &driverv1.AdvanceResponse_Unavailable{Unavailable: &driverv1.Unavailable{Reason: u.Reason}}
	}
	if p := r.Pending; p != nil {
		outcomes++
		out.Outcome = &driverv1.AdvanceResponse_Pending{Pending: c.toPending(*p)}
	}
	if u := r.Unknown; u != nil {
		outcomes++
		out.Outcome = &driverv1.AdvanceResponse_Unknown{Unknown: &driverv1.Unknown{Reason: u.Reason}}
	}
	if n := r.NotDone; n != nil {
		outcomes++
		out.Outcome = &driverv1.AdvanceResponse_NotDone{NotDone: &driverv1.NotDone{Reason: n.Reason}}
	}
	c.oneOutcome("Advance", outcomes)
	return out
}

func (c *conversion) fromAdvanceResult(r *driverv1.AdvanceResponse) driver.AdvanceResult {
	out := driver.AdvanceResult{State: fromState(r.GetState())}
	outcomes := 1
	switch o := r.GetOutcome().(type) {
	case *driverv1.AdvanceResponse_NeedInput:
		out.NeedInput = toAll(o.NeedInput.GetInputs(), c.fromInput)
		outcomes = min(1, len(out.NeedInput))
	case *driverv1.AdvanceResponse_Accepted:
		out.Accepted = &driver.Accepted{
			Proof: fromBytes(o.Accepted.GetProof()), Output: fromBytes(o.Accepted.GetOutput()),
			Observed: o.Accepted.GetObserved(),
		}
	case *driverv1.AdvanceResponse_Rejected:
		out.Rejected = &driver.Rejected{
			Code: o.Rejected.GetErrorCode(), Message: o.Rejected.GetMessage(), Retryable: o.Rejected.GetRetryable(),
		}
	case *driverv1.AdvanceResponse_Declined:
		out.Declined = &driver.Declined{Reason: o.Declined.GetReason()}
	case *driverv1.AdvanceResponse_Unavailable:
		out.Unavailable = &driver.Unavailable{Reason: o.Unavailable.GetReason()}
	case *driverv1.AdvanceResponse_Pending:
		out.Pending = c.fromPending(o.Pending)
	case *driverv1.AdvanceResponse_Unknown:
		out.Unknown = &driver.Unknown{Reason: o.Unknown.GetReason()}
	case *driverv1.AdvanceResponse_NotDone:
		out.NotDone = &driver.NotDone{Reason: o.NotDone.GetReason()}
	default: // no outcome, or one of a later version of the contract
		outcomes = 0
	}
	c.oneOutcome("Advance", outcomes)
	return out
}

func (c *conversion) toRenderRequest(r driver.RenderRequest) *driverv1.RenderRequest {
	return &driverv1.RenderRequest{
		Input:       c.toInput(r.Input),
		Step:        c.toStep(r.Step),
		Client:      toClient(r.Client),
		Links:       &driverv1.Links{Approval: r.Links.Approval},
		Diagnostics: c.toDiagnostics(r.Diagnostics),

		IdempotencyKey: r.IdempotencyKey, Attempt: c.toUint32("attempt", r.Attempt), Recover: r.Recover,
	}
}

func (c *conversion) fromRenderRequest(r *driverv1.RenderRequest) driver.RenderRequest {
	return driver.RenderRequest{
		Input:       c.fromInput(r.GetInput()),
		Step:        fromStep(r.GetStep()),
		Client:      fromClient(r.GetClient()),
		Links:       driver.Links{Approval: r.GetLinks().GetApproval()},
		Diagnostics: c.fromDiagnostics(r.GetDiagnostics()),

		IdempotencyKey: r.GetIdempotencyKey(), Attempt: int(r.GetAttempt()), Recover: r.GetRecover(),
	}
}

func (c *conversion) toRenderResult(r driver.RenderResult) *driverv1.RenderResponse {
	out := &driverv1.RenderResponse{}
	outcomes := 0
	if q := r.ClientRequest; q != nil {
		outcomes++
		out.Outcome = &driverv1.RenderResponse_ClientRequest{
			ClientRequest: &driverv1.ClientRequest{Method: q.Method, Params: q.Params},
		}
	}
	if a := r.AgentChallenge; a != nil {
		outcomes++
		out.Outcome = &driverv1.RenderResponse_AgentChallenge{AgentChallenge: &driverv1.AgentChallenge{
			Type: a.Type, Description: a.Description, Display: a.Display,
		}}
	}
	if a := r.Answer; a != nil {
		outcomes++
		out.Outcome = &driverv1.RenderResponse_Answer{Answer: c.toAnswer(*a)}
	}
	if u := r.Unavailable; u != nil {
		outcomes++
		out.Outcome = &driverv1.RenderResponse_Unavailable{Unavailable: &driverv1.Unavailable{Reason: u.Reason, Asked: u.Asked}}
	}
	if v := r.ClientReview; v != nil {
		outcomes++
		out.Outcome = &driverv1.RenderResponse_ClientReview{ClientReview: &driverv1.ClientReview{Reason: v.Reason}}
	}
	if v := r.Invalid; v != nil {
		outcomes++
		out.Outcome = &driverv1.RenderResponse_Invalid{
			Invalid: &driverv1.Invalid{Diagnostics: c.toDiagnostics(v.Diagnostics)},
		}
	}
	if e := r.Elsewhere; e != nil {
		outcomes++
		out.Outcome = &driverv1.RenderResponse_Elsewhere{Elsewhere: &driverv1.Elsewhere{Message: e.Message}}
	}
	if p := r.Pending; p != nil {
		outcomes++
		out.Outcome = &driverv1.RenderResponse_Pending{Pending: c.toPending(*p)}
	}
	if u := r.Unknown; u != nil {
		outcomes++
		out.Outcome = &driverv1.RenderResponse_Unknown{Unknown: &driverv1.Unknown{Reason: u.Reason}}
	}
	if n := r.NotDone; n != nil {
		outcomes++
		out.Outcome = &driverv1.RenderResponse_NotDone{NotDone: &driverv1.NotDone{Reason: n.Reason}}
	}
	c.oneOutcome("Render", outcomes)
	return out
}

func (c *conversion) fromRenderResult(r *driverv1.RenderResponse) driver.RenderResult {
	var out driver.RenderResult
	outcomes := 1
	switch o := r.GetOutcome().(type) {
	case *driverv1.RenderResponse_ClientRequest:
		out.ClientRequest = &driver.ClientRequest{
			Method: o.ClientRequest.GetMethod(), Params: fromBytes(o.ClientRequest.GetParams()),
		}
	case *driverv1.RenderResponse_AgentChallenge:
		out.AgentChallenge = &driver.AgentChallenge{
			Type: o.AgentChallenge.GetType(), Description: o.AgentChallenge.GetDescription(),
			Display: fromBytes(o.AgentChallenge.GetDisplay()),
		}
	case *driverv1.RenderResponse_Answer:
		a := c.fromAnswer(o.Answer)
		out.Answer = &a
	case *driverv1.RenderResponse_Unavailable:
		out.Unavailable = &driver.Unavailable{Reason: o.Unavailable.GetReason(), Asked: o.Unavailable.GetAsked()}
	case *driverv1.RenderResponse_ClientReview:
		out.ClientReview = &driver.ClientReview{Reason: o.ClientReview.GetReason()}
	case *driverv1.RenderResponse_Invalid:
		out.Invalid = &driver.Invalid{Diagnostics: c.fromDiagnostics(o.Invalid.GetDiagnostics())}
	case *driverv1.RenderResponse_Elsewhere:
		out.Elsewhere = &driver.Elsewhere{Message: o.Elsewhere.GetMessage()}
	case *driverv1.RenderResponse_Pending:
		out.Pending = c.fromPending(o.Pending)
	case *driverv1.RenderResponse_Unknown:
		out.Unknown = &driver.Unknown{Reason: o.Unknown.GetReason()}
	case *driverv1.RenderResponse_NotDone:
		out.NotDone = &driver.NotDone{Reason: o.NotDone.GetReason()}
	default: // no outcome, or one of a later version of the contract
		outcomes = 0
	}
	c.oneOutcome("Render", outcomes)
	return out
}

func (c *conversion) toInterpretRequest(r driver.InterpretRequest) *driverv1.InterpretRequest {
	out := &driverv1.InterpretRequest{
		Input:  c.toInput(r.Input),
		Step:   c.toStep(r.Step),
		Client: toClient(r.Client),
		Raw:    r.Raw,

		IdempotencyKey: r.IdempotencyKey, Attempt: c.toUint32("attempt", r.Attempt),
	}
	if e := r.ClientError; e != nil {
		out.ClientError = &driverv1.ClientError{Code: int64(e.Code), Message: e.Message}
	}
	return out
}

func (c *conversion) fromInterpretRequest(r *driverv1.InterpretRequest) driver.InterpretRequest {
	out := driver.InterpretRequest{
		Input:  c.fromInput(r.GetInput()),
		Step:   fromStep(r.GetStep()),
		Client: fromClient(r.GetClient()),
		Raw:    fromBytes(r.GetRaw()),

		IdempotencyKey: r.GetIdempotencyKey(), Attempt: int(r.GetAttempt()),
	}
	if e := r.GetClientError(); e != nil {
		out.ClientError = &driver.ClientError{Code: int(e.Code), Message: e.Message}
	}
	return out
}

func (c *conversion) toInterpretResult(r driver.InterpretResult) *driverv1.InterpretResponse {
	out := &driverv1.InterpretResponse{}
	outcomes := 0
	if a := r.Answer; a != nil {
		outcomes++
		out.Outcome = &driverv1.InterpretResponse_Answer{Answer: c.toAnswer(*a)}
	}
	if d := r.Declined; d != nil {
		outcomes++
		out.Outcome = &driverv1.InterpretResponse_Declined{Declined: &driverv1.Declined{Reason: d.Reason}}
	}
	if i := r.Invalid; i != nil {
		outcomes++
		out.Outcome = &driverv1.InterpretResponse_Invalid{
			Invalid: &driverv1.Invalid{Diagnostics: c.toDiagnostics(i.Diagnostics)},
		}
	}
	if u := r.Unavailable; u != nil {
		outcomes++
		out.Outcome = &driverv1.InterpretResponse_Unavailable{Unavailable: &driverv1.Unavailable{Reason: u.Reason}}
	}
	if m := r.Missing; m != nil {
		outcomes++
		out.Outcome = &driverv1.InterpretResponse_Missing{Missing: &driverv1.Missing{Reason: m.Reason}}
	}
	if d := r.Dismissed; d != nil {
		outcomes++
		out.Outcome = &driverv1.InterpretResponse_Dismissed{Dismissed: &driverv1.Dismissed{Reason: d.Reason}}
	}
	c.oneOutcome("Interpret", outcomes)
	return out
}

func (c *conversion) fromInterpretResult(r *driverv1.InterpretResponse) driver.InterpretResult {
	var out driver.InterpretResult
	outcomes := 1
	switch o := r.GetOutcome().(type) {
	case *driverv1.InterpretResponse_Answer:
		a := c.fromAnswer(o.Answer)
		out.Answer = &a
	case *driverv1.InterpretResponse_Declined:
		out.Declined = &driver.Declined{Reason: o.Declined.GetReason()}
	case *driverv1.InterpretResponse_Invalid:
		out.Invalid = &driver.Invalid{Diagnostics: c.fromDiagnostics(o.Invalid.GetDiagnostics())}
	case *driverv1.InterpretResponse_Unavailable:
		out.Unavailable = &driver.Unavailable{Reason: o.Unavailable.GetReason()}
	case *driverv1.InterpretResponse_Missing:
		out.Missing = &driver.Missing{Reason: o.Missing.GetReason()}
	case *driverv1.InterpretResponse_Dismissed:
		out.Dismissed = &driver.Dismissed{Reason: o.Dismissed.GetReason()}
	default: // no outcome, or one of a later version of the contract
		outcomes = 0
	}
	c.oneOutcome("Interpret", outcomes)
	return out
}

func (c *conversion) oneOutcome(call string, outcomes int) {
	if outcomes != 1 {
		c.fail("%s: %w, it has %d", call, errOutcome, outcomes)
	}
}
