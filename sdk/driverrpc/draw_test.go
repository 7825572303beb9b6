package driverrpc_test

import (
	"encoding/json"

	"pgregory.net/rapid"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

func drawText(t *rapid.T) string { return rapid.String().Draw(t, "text") }

// drawJSON draws a document that may be left out.
func drawJSON(t *rapid.T) json.RawMessage {
	if rapid.Bool().Draw(t, "left out") {
		return nil
	}
	return drawDocument(t)
}

// drawDocument draws a document in the form in which encoding/json hands it on.
func drawDocument(t *rapid.T) json.RawMessage {
	raw, err := json.Marshal(rapid.SampledFrom([]any{
		true, drawText(t), rapid.Float64().Draw(t, "number"), []any{}, []any{drawText(t), nil},
		map[string]any{}, map[string]any{drawText(t): drawText(t), "deep": map[string]any{"list": []any{1, "\u2028<&>"}}},
	}).Draw(t, "document"))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func drawFloat(t *rapid.T) *float64 {
	if rapid.Bool().Draw(t, "has float") {
		f := rapid.Float64Range(0, 2).Draw(t, "float")
		return &f
	}
	return nil
}

func drawCount(t *rapid.T) int { return rapid.IntRange(0, 1<<31).Draw(t, "count") }

func drawList[T any](t *rapid.T, one func(*rapid.T) T) []T {
	n := rapid.IntRange(0, 3).Draw(t, "length")
	var out []T
	for range n {
		out = append(out, one(t))
	}
	return out
}

func drawDiagnostic(t *rapid.T) driver.Diagnostic {
	return driver.Diagnostic{
		Severity: rapid.SampledFrom([]driver.Severity{driver.SeverityError, driver.SeverityWarning}).Draw(t, "severity"),
		Pointer:  drawText(t), Message: drawText(t),
	}
}

func drawTemplate(t *rapid.T) driver.Template {
	all := []driver.Escaping{driver.EscapeText, driver.EscapeJSON, driver.EscapeShell, driver.EscapeQuote}
	return driver.Template{Pointer: drawText(t), Escaping: rapid.SampledFrom(all).Draw(t, "escaping")}
}

func drawStep(t *rapid.T) driver.Step {
	return driver.Step{
		Protocol: drawText(t), Label: drawText(t), Text: drawText(t), Index: drawCount(t), Count: drawCount(t),
	}
}

func drawClient(t *rapid.T) driver.Client {
	return driver.Client{
		Name: drawText(t), Version: drawText(t), Era: drawText(t), Transport: drawText(t),
		ElicitationForm: rapid.Bool().Draw(t, "form"), ElicitationURL: rapid.Bool().Draw(t, "url"),
		Sampling: rapid.Bool().Draw(t, "sampling"), Roots: rapid.Bool().Draw(t, "roots"),
		Capabilities: drawJSON(t),
	}
}

func drawInput(t *rapid.T) driver.Input {
	in := driver.Input{
		ID: drawText(t), Kind: drawText(t), Description: drawText(t), System: drawText(t), User: drawText(t),
		Schema: drawJSON(t), Type: drawText(t), Display: drawJSON(t), Temperature: drawFloat(t), TopP: drawFloat(t),
		MaxTokens: drawCount(t),
		Approval:  rapid.SampledFrom([]driver.ApprovalMode{"", driver.ApprovalAuto, driver.ApprovalUser}).Draw(t, "approval"),
		Person:    rapid.Bool().Draw(t, "person"), Sensitive: rapid.Bool().Draw(t, "sensitive"),
		Action: drawJSON(t),
	}
	if rapid.Bool().Draw(t, "has similarity") {
		in.Similarity = &driver.Similarity{Text: drawText(t), Reference: drawText(t)}
	}
	return in
}

func drawAnswer(t *rapid.T) driver.Answer {
	all := []driver.Provenance{
		driver.AgentReported, driver.ModelGenerated, driver.LinkHolder, driver.ClientAttested, driver.ServerObserved,
	}
	a := driver.Answer{
		InputID: drawText(t), Value: drawDocument(t), Provenance: rapid.SampledFrom(all).Draw(t, "provenance"),
		Via: drawText(t), Model: drawText(t), StopReason: drawText(t),
	}
	if rapid.Bool().Draw(t, "has usage") {
		a.Usage = &driver.Usage{InputTokens: drawCount(t), OutputTokens: drawCount(t)}
	}
	return a
}

func drawState(t *rapid.T) driver.State {
	return driver.State{Version: drawCount(t), Data: drawJSON(t)}
}

func drawValidateResult(t *rapid.T) driver.ValidateResult {
	return driver.ValidateResult{
		Diagnostics: drawList(t, drawDiagnostic), Challenge: drawJSON(t), Templates: drawList(t, drawTemplate),
	}
}

func drawAdvanceRequest(t *rapid.T) driver.AdvanceRequest {
	return driver.AdvanceRequest{
		Challenge: drawDocument(t), Step: drawStep(t), Client: drawClient(t), Answers: drawList(t, drawAnswer),
		State: drawState(t), Round: drawCount(t), Approved: rapid.Bool().Draw(t, "approved"),
		IdempotencyKey: drawText(t), Attempt: drawCount(t), Recover: rapid.Bool().Draw(t, "recover"), Cancel: rapid.Bool().Draw(t, "cancel"),
	}
}

func drawAdvanceResult(t *rapid.T) driver.AdvanceResult {
	outcomes := []driver.AdvanceResult{
		driver.Need(drawInput(t), drawInput(t)),
		driver.Accept(drawJSON(t), drawJSON(t)),
		driver.Observe(drawJSON(t), drawJSON(t)),
		driver.Reject(drawText(t), drawText(t)),
		{Rejected: &driver.Rejected{Code: drawText(t)}},
		driver.Decline(drawText(t)),
		driver.CannotAdvance(drawText(t)),
		{Pending: drawPending(t)},
		driver.AdvanceUnknown(drawText(t)),
		driver.AdvanceNotDone(drawText(t)),
	}
	out := rapid.SampledFrom(outcomes).Draw(t, "outcome")
	out.State = drawState(t)
	return out
}

func drawRenderRequest(t *rapid.T) driver.RenderRequest {
	return driver.RenderRequest{
		Input: drawInput(t), Step: drawStep(t), Client: drawClient(t), Links: driver.Links{Approval: drawText(t)},
		Diagnostics:    drawList(t, drawDiagnostic),
		IdempotencyKey: drawText(t), Attempt: drawCount(t), Recover: rapid.Bool().Draw(t, "recover"), Cancel: rapid.Bool().Draw(t, "cancel"),
		Plan: drawJSON(t), How: drawList(t, drawText),
	}
}

func drawPreviewRequest(t *rapid.T) driver.PreviewRequest {
	return driver.PreviewRequest{Input: drawInput(t), Step: drawStep(t), Client: drawClient(t), Proposal: drawJSON(t)}
}

func drawPreviewResult(t *rapid.T) driver.PreviewResult {
	return rapid.SampledFrom([]driver.PreviewResult{
		driver.Planned(driver.Plan{Text: drawText(t), Data: drawJSON(t), Effect: driver.EffectReads, Action: drawJSON(t)}),
		driver.ProposalNeeded(drawJSON(t), drawText(t)),
		driver.ProposalInvalid(drawList(t, drawDiagnostic)...),
		driver.CannotPreview(drawText(t)),
	}).Draw(t, "outcome")
}

func drawPending(t *rapid.T) *driver.Pending {
	p := driver.Pending{Reason: drawText(t), RetryAfter: rapid.Float64Range(0, 1e6).Draw(t, "retry"), Message: drawText(t)}
	if rapid.Bool().Draw(t, "has progress") {
		p.Progress = new(rapid.Float64Range(0, 1).Draw(t, "progress"))
	}
	return &p
}

func drawRenderResult(t *rapid.T) driver.RenderResult {
	answer := drawAnswer(t)
	out := rapid.SampledFrom([]driver.RenderResult{
		driver.AskClient(drawText(t), drawJSON(t)),
		driver.AskAgent(driver.AgentChallenge{Type: drawText(t), Description: drawText(t), Display: drawJSON(t)}),
		{Answer: &answer},
		driver.CannotRender(drawText(t)),
		driver.AskedInVain(drawText(t)),
		driver.ReviewedByClient(drawText(t)),
		driver.RenderedInvalid(drawList(t, drawDiagnostic)...),
		{Pending: drawPending(t)},
		driver.RenderUnknown(drawText(t)),
		driver.RenderNotDone(drawText(t)),
	}).Draw(t, "outcome")
	out.How = drawText(t)
	return out
}

func drawInterpretRequest(t *rapid.T) driver.InterpretRequest {
	req := driver.InterpretRequest{Input: drawInput(t), Step: drawStep(t), Client: drawClient(t), Raw: drawJSON(t),
		IdempotencyKey: drawText(t), Attempt: drawCount(t), How: drawText(t)}
	if rapid.Bool().Draw(t, "client error") {
		req.ClientError = &driver.ClientError{Code: rapid.IntRange(-40000, 40000).Draw(t, "code"), Message: drawText(t)}
	}
	return req
}

func drawInterpretResult(t *rapid.T) driver.InterpretResult {
	return rapid.SampledFrom([]driver.InterpretResult{
		{Answer: new(drawAnswer(t))},
		driver.PersonDeclined(drawText(t)),
		driver.NotAnAnswer(drawList(t, drawDiagnostic)...),
		driver.CannotInterpret(drawText(t)),
		driver.LeftOut(drawText(t)),
		driver.PersonDismissed(drawText(t)),
	}).Draw(t, "outcome")
}
