package driverrpc

import (
	"reflect"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/driverpb"
)

func toValidateRequest(_ *conversion, r driver.ValidateRequest) *driverpb.ValidateRequest {
	return &driverpb.ValidateRequest{ChallengeJson: r.Challenge}
}

func fromValidateRequest(_ *conversion, r *driverpb.ValidateRequest) driver.ValidateRequest {
	return driver.ValidateRequest{Challenge: fromBytes(r.GetChallengeJson())}
}

func toValidateResult(c *conversion, r driver.ValidateResult) *driverpb.ValidateResponse {
	return &driverpb.ValidateResponse{
		Diagnostics:   toDiagnostics(c, r.Diagnostics),
		ChallengeJson: r.Challenge,
		Templates: convertAll(c, r.Templates, func(c *conversion, t driver.Template) *driverpb.Template {
			return &driverpb.Template{Pointer: t.Pointer, Escaping: toEnum(c, escapings, t.Escaping)}
		}),
		Action: r.Action,
	}
}

func fromValidateResult(c *conversion, r *driverpb.ValidateResponse) driver.ValidateResult {
	return driver.ValidateResult{
		Diagnostics: fromDiagnostics(c, r.GetDiagnostics()),
		Challenge:   fromBytes(r.GetChallengeJson()),
		Templates: convertAll(c, r.GetTemplates(), func(c *conversion, t *driverpb.Template) driver.Template {
			return driver.Template{Pointer: t.GetPointer(), Escaping: fromEnum(c, escapings, t.GetEscaping())}
		}),
		Action: fromBytes(r.GetAction()),
	}
}

func toAdvanceRequest(c *conversion, r driver.AdvanceRequest) *driverpb.AdvanceRequest {
	return &driverpb.AdvanceRequest{
		ChallengeJson: r.Challenge,
		Step:          toStep(c, r.Step),
		Client:        toClient(r.Client),
		Answers:       convertAll(c, r.Answers, toAnswer),
		State:         toState(c, r.State),
		Round:         toUint32(c, "round", r.Round),
		Approved:      r.Approved,

		IdempotencyKey: r.IdempotencyKey, Attempt: toUint32(c, "attempt", r.Attempt), Recover: r.Recover, Cancel: r.Cancel,
	}
}

func fromAdvanceRequest(c *conversion, r *driverpb.AdvanceRequest) driver.AdvanceRequest {
	return driver.AdvanceRequest{
		Challenge: fromBytes(r.GetChallengeJson()),
		Step:      fromStep(r.GetStep()),
		Client:    fromClient(r.GetClient()),
		Answers:   convertAll(c, r.GetAnswers(), fromAnswer),
		State:     fromState(r.GetState()),
		Round:     int(r.GetRound()),
		Approved:  r.GetApproved(),

		IdempotencyKey: r.GetIdempotencyKey(), Attempt: int(r.GetAttempt()), Recover: r.GetRecover(), Cancel: r.GetCancel(),
	}
}

func toAdvanceResult(c *conversion, r driver.AdvanceResult) *driverpb.AdvanceResponse {
	out := &driverpb.AdvanceResponse{State: toState(c, r.State)}
	switch {
	case len(r.NeedInput) > 0:
		out.Outcome = &driverpb.AdvanceResponse_NeedInput{
			NeedInput: &driverpb.NeedInput{Inputs: convertAll(c, r.NeedInput, toInput)},
		}
	case r.Accepted != nil:
		out.Outcome = &driverpb.AdvanceResponse_Accepted{
			Accepted: &driverpb.Accepted{Proof: r.Accepted.Proof, Output: r.Accepted.Output, Observed: r.Accepted.Observed},
		}
	case r.Rejected != nil:
		out.Outcome = &driverpb.AdvanceResponse_Rejected{Rejected: &driverpb.Rejected{
			ErrorCode: r.Rejected.Code, Message: r.Rejected.Message, Retryable: r.Rejected.Retryable,
		}}
	case r.Declined != nil:
		out.Outcome = &driverpb.AdvanceResponse_Declined{Declined: &driverpb.Declined{Reason: r.Declined.Reason}}
	case r.Unavailable != nil:
		out.Outcome = &driverpb.AdvanceResponse_Unavailable{Unavailable: &driverpb.Unavailable{Reason: r.Unavailable.Reason}}
	case r.Pending != nil:
		out.Outcome = &driverpb.AdvanceResponse_Pending{Pending: toPending(c, *r.Pending)}
	case r.Unknown != nil:
		out.Outcome = &driverpb.AdvanceResponse_Unknown{Unknown: &driverpb.Unknown{Reason: r.Unknown.Reason}}
	case r.NotDone != nil:
		out.Outcome = &driverpb.AdvanceResponse_NotDone{NotDone: &driverpb.NotDone{Reason: r.NotDone.Reason}}
	}
	oneOutcome(c, "Advance", r)
	return out
}

func fromAdvanceResult(c *conversion, r *driverpb.AdvanceResponse) driver.AdvanceResult {
	out := driver.AdvanceResult{State: fromState(r.GetState())}
	switch o := r.GetOutcome().(type) {
	case *driverpb.AdvanceResponse_NeedInput:
		out.NeedInput = convertAll(c, o.NeedInput.GetInputs(), fromInput)
	case *driverpb.AdvanceResponse_Accepted:
		out.Accepted = &driver.Accepted{
			Proof: fromBytes(o.Accepted.GetProof()), Output: fromBytes(o.Accepted.GetOutput()),
			Observed: o.Accepted.GetObserved(),
		}
	case *driverpb.AdvanceResponse_Rejected:
		out.Rejected = &driver.Rejected{
			Code: o.Rejected.GetErrorCode(), Message: o.Rejected.GetMessage(), Retryable: o.Rejected.GetRetryable(),
		}
	case *driverpb.AdvanceResponse_Declined:
		out.Declined = &driver.Declined{Reason: o.Declined.GetReason()}
	case *driverpb.AdvanceResponse_Unavailable:
		out.Unavailable = &driver.Unavailable{Reason: o.Unavailable.GetReason()}
	case *driverpb.AdvanceResponse_Pending:
		out.Pending = fromPending(c, o.Pending)
	case *driverpb.AdvanceResponse_Unknown:
		out.Unknown = &driver.Unknown{Reason: o.Unknown.GetReason()}
	case *driverpb.AdvanceResponse_NotDone:
		out.NotDone = &driver.NotDone{Reason: o.NotDone.GetReason()}
	}
	oneOutcome(c, "Advance", out)
	return out
}

func toRenderRequest(c *conversion, r driver.RenderRequest) *driverpb.RenderRequest {
	return &driverpb.RenderRequest{
		Input:       toInput(c, r.Input),
		Step:        toStep(c, r.Step),
		Client:      toClient(r.Client),
		Links:       &driverpb.Links{Approval: r.Links.Approval},
		Diagnostics: toDiagnostics(c, r.Diagnostics),

		IdempotencyKey: r.IdempotencyKey, Attempt: toUint32(c, "attempt", r.Attempt), Recover: r.Recover, Cancel: r.Cancel,
		Plan: r.Plan, How: r.How,
	}
}

func fromRenderRequest(c *conversion, r *driverpb.RenderRequest) driver.RenderRequest {
	return driver.RenderRequest{
		Input:       fromInput(c, r.GetInput()),
		Step:        fromStep(r.GetStep()),
		Client:      fromClient(r.GetClient()),
		Links:       driver.Links{Approval: r.GetLinks().GetApproval()},
		Diagnostics: fromDiagnostics(c, r.GetDiagnostics()),

		IdempotencyKey: r.GetIdempotencyKey(), Attempt: int(r.GetAttempt()), Recover: r.GetRecover(), Cancel: r.GetCancel(),
		Plan: fromBytes(r.GetPlan()), How: r.GetHow(),
	}
}

func toRenderResult(c *conversion, r driver.RenderResult) *driverpb.RenderResponse {
	out := &driverpb.RenderResponse{How: r.How}
	switch {
	case r.ClientRequest != nil:
		out.Outcome = &driverpb.RenderResponse_ClientRequest{
			ClientRequest: &driverpb.ClientRequest{Method: r.ClientRequest.Method, Params: r.ClientRequest.Params},
		}
	case r.AgentChallenge != nil:
		out.Outcome = &driverpb.RenderResponse_AgentChallenge{AgentChallenge: &driverpb.AgentChallenge{
			Type: r.AgentChallenge.Type, Description: r.AgentChallenge.Description, Display: r.AgentChallenge.Display,
		}}
	case r.Answer != nil:
		out.Outcome = &driverpb.RenderResponse_Answer{Answer: toAnswer(c, *r.Answer)}
	case r.Unavailable != nil:
		out.Outcome = &driverpb.RenderResponse_Unavailable{Unavailable: &driverpb.Unavailable{Reason: r.Unavailable.Reason, Asked: r.Unavailable.Asked}}
	case r.ClientReview != nil:
		out.Outcome = &driverpb.RenderResponse_ClientReview{ClientReview: &driverpb.ClientReview{Reason: r.ClientReview.Reason}}
	case r.Invalid != nil:
		out.Outcome = &driverpb.RenderResponse_Invalid{
			Invalid: &driverpb.Invalid{Diagnostics: toDiagnostics(c, r.Invalid.Diagnostics)},
		}
	case r.Elsewhere != nil:
		out.Outcome = &driverpb.RenderResponse_Elsewhere{Elsewhere: &driverpb.Elsewhere{Message: r.Elsewhere.Message}}
	case r.Pending != nil:
		out.Outcome = &driverpb.RenderResponse_Pending{Pending: toPending(c, *r.Pending)}
	case r.Unknown != nil:
		out.Outcome = &driverpb.RenderResponse_Unknown{Unknown: &driverpb.Unknown{Reason: r.Unknown.Reason}}
	case r.NotDone != nil:
		out.Outcome = &driverpb.RenderResponse_NotDone{NotDone: &driverpb.NotDone{Reason: r.NotDone.Reason}}
	}
	oneOutcome(c, "Render", r)
	return out
}

func fromRenderResult(c *conversion, r *driverpb.RenderResponse) driver.RenderResult {
	out := driver.RenderResult{How: r.GetHow()}
	switch o := r.GetOutcome().(type) {
	case *driverpb.RenderResponse_ClientRequest:
		out.ClientRequest = &driver.ClientRequest{
			Method: o.ClientRequest.GetMethod(), Params: fromBytes(o.ClientRequest.GetParams()),
		}
	case *driverpb.RenderResponse_AgentChallenge:
		out.AgentChallenge = &driver.AgentChallenge{
			Type: o.AgentChallenge.GetType(), Description: o.AgentChallenge.GetDescription(),
			Display: fromBytes(o.AgentChallenge.GetDisplay()),
		}
	case *driverpb.RenderResponse_Answer:
		a := fromAnswer(c, o.Answer)
		out.Answer = &a
	case *driverpb.RenderResponse_Unavailable:
		out.Unavailable = &driver.Unavailable{Reason: o.Unavailable.GetReason(), Asked: o.Unavailable.GetAsked()}
	case *driverpb.RenderResponse_ClientReview:
		out.ClientReview = &driver.ClientReview{Reason: o.ClientReview.GetReason()}
	case *driverpb.RenderResponse_Invalid:
		out.Invalid = &driver.Invalid{Diagnostics: fromDiagnostics(c, o.Invalid.GetDiagnostics())}
	case *driverpb.RenderResponse_Elsewhere:
		out.Elsewhere = &driver.Elsewhere{Message: o.Elsewhere.GetMessage()}
	case *driverpb.RenderResponse_Pending:
		out.Pending = fromPending(c, o.Pending)
	case *driverpb.RenderResponse_Unknown:
		out.Unknown = &driver.Unknown{Reason: o.Unknown.GetReason()}
	case *driverpb.RenderResponse_NotDone:
		out.NotDone = &driver.NotDone{Reason: o.NotDone.GetReason()}
	}
	oneOutcome(c, "Render", out)
	return out
}

func toInterpretRequest(c *conversion, r driver.InterpretRequest) *driverpb.InterpretRequest {
	out := &driverpb.InterpretRequest{
		Input:  toInput(c, r.Input),
		Step:   toStep(c, r.Step),
		Client: toClient(r.Client),
		Raw:    r.Raw,

		IdempotencyKey: r.IdempotencyKey, Attempt: toUint32(c, "attempt", r.Attempt), How: r.How,
	}
	if e := r.ClientError; e != nil {
		out.ClientError = &driverpb.ClientError{Code: int64(e.Code), Message: e.Message}
	}
	return out
}

func fromInterpretRequest(c *conversion, r *driverpb.InterpretRequest) driver.InterpretRequest {
	out := driver.InterpretRequest{
		Input:  fromInput(c, r.GetInput()),
		Step:   fromStep(r.GetStep()),
		Client: fromClient(r.GetClient()),
		Raw:    fromBytes(r.GetRaw()),

		IdempotencyKey: r.GetIdempotencyKey(), Attempt: int(r.GetAttempt()), How: r.GetHow(),
	}
	if e := r.GetClientError(); e != nil {
		out.ClientError = &driver.ClientError{Code: int(e.Code), Message: e.Message}
	}
	return out
}

func toInterpretResult(c *conversion, r driver.InterpretResult) *driverpb.InterpretResponse {
	out := &driverpb.InterpretResponse{}
	switch {
	case r.Answer != nil:
		out.Outcome = &driverpb.InterpretResponse_Answer{Answer: toAnswer(c, *r.Answer)}
	case r.Declined != nil:
		out.Outcome = &driverpb.InterpretResponse_Declined{Declined: &driverpb.Declined{Reason: r.Declined.Reason}}
	case r.Invalid != nil:
		out.Outcome = &driverpb.InterpretResponse_Invalid{
			Invalid: &driverpb.Invalid{Diagnostics: toDiagnostics(c, r.Invalid.Diagnostics)},
		}
	case r.Unavailable != nil:
		out.Outcome = &driverpb.InterpretResponse_Unavailable{Unavailable: &driverpb.Unavailable{Reason: r.Unavailable.Reason}}
	case r.Missing != nil:
		out.Outcome = &driverpb.InterpretResponse_Missing{Missing: &driverpb.Missing{Reason: r.Missing.Reason}}
	case r.Dismissed != nil:
		out.Outcome = &driverpb.InterpretResponse_Dismissed{Dismissed: &driverpb.Dismissed{Reason: r.Dismissed.Reason}}
	}
	oneOutcome(c, "Interpret", r)
	return out
}

func fromInterpretResult(c *conversion, r *driverpb.InterpretResponse) driver.InterpretResult {
	var out driver.InterpretResult
	switch o := r.GetOutcome().(type) {
	case *driverpb.InterpretResponse_Answer:
		a := fromAnswer(c, o.Answer)
		out.Answer = &a
	case *driverpb.InterpretResponse_Declined:
		out.Declined = &driver.Declined{Reason: o.Declined.GetReason()}
	case *driverpb.InterpretResponse_Invalid:
		out.Invalid = &driver.Invalid{Diagnostics: fromDiagnostics(c, o.Invalid.GetDiagnostics())}
	case *driverpb.InterpretResponse_Unavailable:
		out.Unavailable = &driver.Unavailable{Reason: o.Unavailable.GetReason()}
	case *driverpb.InterpretResponse_Missing:
		out.Missing = &driver.Missing{Reason: o.Missing.GetReason()}
	case *driverpb.InterpretResponse_Dismissed:
		out.Dismissed = &driver.Dismissed{Reason: o.Dismissed.GetReason()}
	}
	oneOutcome(c, "Interpret", out)
	return out
}

// oneOutcome looks for exactly one outcome in a result: each is a pointer, or a list that
// is not empty. None may be one of a later version of the contract.
func oneOutcome(c *conversion, call string, result any) {
	outcomes := 0
	for _, field := range reflect.ValueOf(result).Fields() {
		if k := field.Kind(); k == reflect.Pointer && !field.IsNil() || k == reflect.Slice && field.Len() > 0 {
			outcomes++
		}
	}
	if outcomes != 1 {
		c.fail("%s: %w, it has %d", call, errOutcome, outcomes)
	}
}
