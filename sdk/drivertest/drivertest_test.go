package drivertest_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/drivertest"
)

// evenJudge accepts an even number; each fault breaks one rule of the contract.
type evenJudge struct {
	fault string
	calls atomic.Int64
}

type evenChallenge struct {
	Type string `json:"type"`
	Even struct {
		Min *int `json:"min"`
	} `json:"even"`
}

func (j *evenJudge) Configure(_ context.Context, config json.RawMessage, _ bool) ([]driver.Diagnostic, error) {
	if j.fault == "config/nonsense" || json.Valid(config) {
		return nil, nil
	}
	return []driver.Diagnostic{driver.Problem("", "not JSON")}, nil
}

func (j *evenJudge) CheckHealth(context.Context) error {
	if j.fault == "health/answers" {
		return errors.New("asleep")
	}
	return nil
}

func (j *evenJudge) Validate(_ context.Context, req driver.ValidateRequest) (driver.ValidateResult, error) {
	var c *evenChallenge
	if err := json.Unmarshal(req.Challenge, &c); err != nil || c == nil {
		if j.fault == "challenge/garbage" {
			return driver.ValidateResult{}, nil
		}
		return driver.ValidateResult{Diagnostics: []driver.Diagnostic{driver.Problem("", "not an even challenge")}}, nil
	}
	least := 0
	if c.Even.Min != nil {
		least = *c.Even.Min
		if j.fault == "challenge/normal-form" {
			least++
		}
	}
	c.Even.Min = &least
	normal, err := json.Marshal(c)
	return driver.ValidateResult{Challenge: normal}, err
}

func (j *evenJudge) Advance(_ context.Context, req driver.AdvanceRequest) (driver.AdvanceResult, error) {
	if j.fault == "challenge/unknown-answers" && len(req.Answers) > 1 {
		return driver.Reject("TOO_MANY", "too many answers"), nil
	}
	if j.fault == "call/repeatable" && j.calls.Add(1)%2 == 0 {
		return driver.CannotAdvance("every other time"), nil
	}
	answer, ok := req.Answer("number")
	if !ok {
		return driver.Need(driver.Input{ID: "number", Kind: driver.KindEvidence, Description: "an even number"}), nil
	}
	if string(answer.Value) == `"no"` && (j.fault != "challenge/declined" || req.Round == 0) {
		return driver.Decline("declined"), nil
	}
	var n int
	if err := json.Unmarshal(answer.Value, &n); err != nil {
		if j.fault == "call/hostile-input" {
			panic(err)
		}
		return driver.Reject("NOT_A_NUMBER", "send an even number"), nil
	}
	if n%2 != 0 {
		if j.fault == "call/sound-result" {
			return driver.Reject("odd", "send an even number"), nil
		}
		return driver.Reject("ODD", "send an even number"), nil
	}
	return driver.Accept(answer.Value, nil), nil
}

func judge(fault string) driver.Driver {
	return driver.Driver{
		Descriptor: driver.Descriptor{
			Name: "even", Version: "1.0.0", Role: driver.RoleChallenge, Handles: []string{"even"},
			Effect: driver.EffectPure, ConfigSchema: json.RawMessage(`{"type":"object"}`),
		},
		Challenge: &evenJudge{fault: fault},
	}
}

func number(value string) driver.AdvanceRequest {
	return driver.AdvanceRequest{
		Challenge: json.RawMessage(`{"type":"even","even":{"min":0}}`),
		Answers: []driver.Answer{
			{InputID: "number", Value: json.RawMessage(value), Provenance: driver.AgentReported},
		},
	}
}

func judgeSamples() []drivertest.Sample {
	return []drivertest.Sample{
		{Name: "valid", Request: driver.ValidateRequest{Challenge: json.RawMessage(`{"type":"even","even":{"min":2}}`)},
			Want: drivertest.Valid},
		{Name: "garbage", Request: driver.ValidateRequest{Challenge: json.RawMessage(`[`)}, Want: drivertest.Invalid},
		{Name: "first round", Request: driver.AdvanceRequest{}, Want: drivertest.NeedInput},
		{Name: "even", Request: number(`4`), Want: drivertest.Accepted},
		{Name: "odd", Request: number(`5`), Want: drivertest.Rejected},
		{Name: "no", Request: number(`"no"`), Want: drivertest.Declined},
	}
}

var secretFormat = regexp.MustCompile(`"password"|writeOnly`)

// asker asks the client's person; each fault breaks one rule of the contract.
type asker struct{ fault string }

func (a *asker) Render(_ context.Context, req driver.RenderRequest) (driver.RenderResult, error) {
	if req.Input.Kind != driver.KindEvidence || req.Input.Sensitive || secretFormat.Match(req.Input.Schema) {
		return driver.CannotRender("no form asks for that"), nil
	}
	if !req.Client.ElicitationForm && a.fault != "capability/needs" {
		return driver.CannotRender("the client has no forms"), nil
	}
	return driver.AskClient("elicitation/create", json.RawMessage(`{}`)), nil
}

func (a *asker) Interpret(_ context.Context, req driver.InterpretRequest) (driver.InterpretResult, error) {
	if req.ClientError != nil {
		if a.fault == "capability/client-error" {
			return driver.Answered(json.RawMessage(`"approved"`), driver.ClientAttested), nil
		}
		return driver.CannotInterpret(req.ClientError.Message), nil
	}
	var reply struct {
		Action  string          `json:"action"`
		Content json.RawMessage `json:"content"`
	}
	if err := json.Unmarshal(req.Raw, &reply); err != nil {
		if a.fault == "capability/any-reply" {
			return driver.InterpretResult{}, err
		}
		return driver.NotAnAnswer(driver.Problem("", "not a reply")), nil
	}
	switch reply.Action {
	case "accept":
		return driver.Answered(json.RawMessage(`true`), driver.ClientAttested), nil
	case "decline":
		if a.fault == "capability/declined" && req.Client.Name == "another-client" {
			return driver.LeftOut("who are you"), nil
		}
		return driver.PersonDeclined("no"), nil
	}
	return driver.NotAnAnswer(driver.Problem("/action", "unknown action")), nil
}

func capability(fault string) driver.Driver {
	return driver.Driver{
		Descriptor: driver.Descriptor{
			Name: "asker", Version: "1.0.0", Role: driver.RoleCapability, Handles: []string{driver.KindEvidence},
			Effect: driver.EffectPure, Features: []string{driver.FeatureHuman}, Needs: []string{driver.NeedElicitationForm},
		},
		Capability: &asker{fault: fault},
	}
}

func capabilitySamples() []drivertest.Sample {
	return []drivertest.Sample{
		{Name: "ask", Request: driver.RenderRequest{
			Input:  driver.Input{ID: "evidence", Kind: driver.KindEvidence},
			Client: driver.Client{ElicitationForm: true}},
			Want: drivertest.ClientRequest},
		{Name: "yes", Request: driver.InterpretRequest{Raw: json.RawMessage(`{"action":"accept"}`)}, Want: drivertest.Answer},
		{Name: "no", Request: driver.InterpretRequest{Raw: json.RawMessage(`{"action":"decline"}`)},
			Want: drivertest.Declined},
	}
}

func TestSoundDriversPass(t *testing.T) {
	t.Run("challenge", func(t *testing.T) { drivertest.Run(t, judge(""), judgeSamples()...) })
	t.Run("capability", func(t *testing.T) { drivertest.Run(t, capability(""), capabilitySamples()...) })
}

// The samples of the counter hold for its configuration only. Afterwards that
// configuration is in force: what the checks try is dry runs.
func TestRunFileConfiguresTheDriver(t *testing.T) {
	d := kitDrivers["counter"].make("")
	c := d.Challenge.(*counter)
	t.Cleanup(func() { close(c.leaked) })
	path := filepath.Join(t.TempDir(), "samples.json")
	if err := os.WriteFile(path, written(t, counterConfig, kitDrivers["counter"].samples("")), 0o644); err != nil {
		t.Fatal(err)
	}
	drivertest.RunFile(t, d, path)
	if got := c.min.Load(); got != 2 {
		t.Errorf("after RunFile the least number is %d, want the 2 of %s", got, counterConfig)
	}
}

func TestEachBrokenRuleIsFound(t *testing.T) {
	// A fault is named like the check that has to find it; others may find it too.
	for _, fault := range []string{
		"config/nonsense", "health/answers", "call/sound-result", "call/repeatable", "call/hostile-input",
		"challenge/garbage", "challenge/normal-form", "challenge/unknown-answers", "challenge/declined",
		"capability/needs", "capability/client-error", "capability/any-reply", "capability/declined",
	} {
		t.Run(fault, func(t *testing.T) {
			subject := subjectOf(judge(fault), judgeSamples())
			if strings.HasPrefix(fault, "capability/") {
				subject = subjectOf(capability(fault), capabilitySamples())
			}
			if err := checkOf(t, fault).Run(t.Context(), subject); err == nil {
				t.Errorf("check %s found nothing wrong with a driver that breaks it", fault)
			}
		})
	}
}

func TestWrongSampleOutcomeIsFound(t *testing.T) {
	samples := []drivertest.Sample{{Name: "odd", Request: number(`5`), Want: drivertest.Accepted}}
	if err := checkOf(t, "sample/outcome").Run(t.Context(), subjectOf(judge(""), samples)); err == nil {
		t.Error("sample/outcome took a rejection for an acceptance")
	}
}

func TestCheckIdsAreUnique(t *testing.T) {
	var seen []string
	for _, c := range drivertest.Checks() {
		if slices.Contains(seen, c.ID) {
			t.Errorf("check id %s is there twice", c.ID)
		}
		seen = append(seen, c.ID)
	}
}

func subjectOf(d driver.Driver, samples []drivertest.Sample) drivertest.Subject {
	s := drivertest.Subject{
		Descriptor: d.Descriptor, Challenge: d.Challenge, Capability: d.Capability, Samples: samples,
	}
	s.Configurer, _ = d.Challenge.(driver.Configurer)
	return s
}

func checkOf(t *testing.T, id string) drivertest.Check {
	t.Helper()
	for _, c := range drivertest.Checks() {
		if c.ID == id {
			return c
		}
	}
	t.Fatalf("no check has the id %s", id)
	return drivertest.Check{}
}
