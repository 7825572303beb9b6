package driverhost

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// Every text that a driver returns is made fit to be shown, whatever outcome it belongs to.
func TestNoTextOfADriverIsShownAsItIs(t *testing.T) {
	const raw = "RAW"
	found := []driver.Diagnostic{driver.Problem("/a", raw)}
	fit := func(string) string { return "fit" }
	for _, r := range []driver.AdvanceResult{
		driver.Need(driver.Input{Description: raw, System: raw, User: raw}), driver.Reject("CODE", raw), {Declined: &driver.Declined{Reason: raw}}, driver.CannotAdvance(raw),
		{Pending: &driver.Pending{Reason: raw, Message: raw}}, {Unknown: &driver.Unknown{Reason: raw}}, {NotDone: &driver.NotDone{Reason: raw}},
	} {
		shows(t, raw, r, fit, soundAdvance)
	}
	for _, r := range []driver.RenderResult{
		driver.CannotRender(raw), driver.RenderUnknown(raw), driver.RenderNotDone(raw), driver.RenderLater(raw, 0), driver.AnswerElsewhere(raw), {Invalid: &driver.Invalid{Diagnostics: found}},
		driver.AskAgent(driver.AgentChallenge{Description: raw}), {ClientReview: &driver.ClientReview{Reason: raw}},
	} {
		shows(t, raw, r, fit, soundRender)
	}
	for _, r := range []driver.PreviewResult{
		driver.CannotPreview(raw), driver.Planned(driver.Plan{Text: raw, Data: json.RawMessage(`{}`)}), {Propose: &driver.Propose{Description: raw}}, {Invalid: &driver.Invalid{Diagnostics: found}},
	} {
		shows(t, raw, r, fit, soundPreview)
	}
	for _, r := range []driver.InterpretResult{
		driver.CannotInterpret(raw), driver.NotAnAnswer(found...), driver.LeftOut(raw), {Declined: &driver.Declined{Reason: raw}}, {Dismissed: &driver.Dismissed{Reason: raw}},
	} {
		shows(t, raw, r, fit, soundInterpret)
	}
	shows(t, raw, driver.ValidateResult{Diagnostics: found}, fit, soundValidate)
	if _, err := soundValidate(driver.ValidateResult{Challenge: json.RawMessage("{")}, fit); err == nil {
		t.Error("a challenge that is not JSON is sound")
	}
}

func shows[Res any](t *testing.T, raw string, r Res, fit func(string) string, sound func(Res, func(string) string) (Res, error)) {
	t.Helper()
	r, err := sound(r, fit)
	b, encoding := json.Marshal(r)
	if err != nil || encoding != nil || strings.Contains(string(b), raw) || !strings.Contains(string(b), "fit") {
		t.Errorf("%T is shown as %s, %v, %v", r, b, err, encoding)
	}
}
