package driverrpc_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"pgregory.net/rapid"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/driverrpc"
)

// recorder is a driver of both roles that keeps the last request and answers
// what it was told to answer.
type recorder struct{ request, result any }

func (r *recorder) Validate(_ context.Context, req driver.ValidateRequest) (driver.ValidateResult, error) {
	r.request = req
	out, _ := r.result.(driver.ValidateResult)
	return out, nil
}

func (r *recorder) Advance(_ context.Context, req driver.AdvanceRequest) (driver.AdvanceResult, error) {
	r.request = req
	out, _ := r.result.(driver.AdvanceResult)
	return out, nil
}

func (r *recorder) Render(_ context.Context, req driver.RenderRequest) (driver.RenderResult, error) {
	r.request = req
	out, _ := r.result.(driver.RenderResult)
	return out, nil
}

func (r *recorder) Interpret(_ context.Context, req driver.InterpretRequest) (driver.InterpretResult, error) {
	r.request = req
	out, _ := r.result.(driver.InterpretResult)
	return out, nil
}

func (r *recorder) Preview(_ context.Context, req driver.PreviewRequest) (driver.PreviewResult, error) {
	r.request = req
	out, _ := r.result.(driver.PreviewResult)
	return out, nil
}

// previewerOf is the driver as one that says what it would do.
func previewerOf(c driverrpc.Calls) driver.Previewer {
	p, _ := c.Capability().(driver.Previewer)
	return p
}

func challengeDescriptor() driver.Descriptor {
	return driver.Descriptor{
		Name: "recorder", Version: "1.2.3", Role: driver.RoleChallenge, Handles: []string{"shell"},
		Effect: driver.EffectPure, ConfigSchema: json.RawMessage(`{"type":"object"}`),
		Features: []string{driver.FeatureAgent}, StateVersions: []int{1, 2}, Approval: driver.ApprovalUser,
	}
}

func capabilityDescriptor() driver.Descriptor {
	return driver.Descriptor{
		Name: "recorder", Version: "1.2.3", Role: driver.RoleCapability, Handles: []string{driver.KindEvidence},
		Effect: driver.EffectReads, Needs: []string{driver.NeedSampling}, Features: []string{driver.FeaturePreview},
		Sends: []driver.ClientMethod{
			{Method: "sampling/createMessage"}, {Method: "acme/confirm", Needs: []string{"/experimental/acme~1confirm", "/sampling"}},
		},
	}
}

func execDescriptor() driver.Descriptor {
	d := challengeDescriptor()
	d.Transport = driver.TransportExec
	return d
}

func loopback(t *testing.T, d driver.Driver) *driverrpc.Client {
	t.Helper()
	client, stop, err := driverrpc.Loopback(d)
	if err != nil {
		t.Fatalf("Loopback: %v", err)
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Errorf("stop the loopback: %v", err)
		}
	})
	return client
}

func TestDescriptorSurvivesTheWire(t *testing.T) {
	for name, d := range map[string]driver.Driver{
		"challenge":  {Descriptor: challengeDescriptor(), Challenge: &recorder{}},
		"capability": {Descriptor: capabilityDescriptor(), Capability: &recorder{}},
		"exec":       {Descriptor: execDescriptor(), Challenge: &recorder{}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := loopback(t, d).Describe(t.Context())
			if err != nil {
				t.Fatalf("Describe: %v", err)
			}
			if diff := cmp.Diff(d.Descriptor, got); diff != "" {
				t.Errorf("Describe (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEveryMessageSurvivesTheWire(t *testing.T) {
	rec := &recorder{}
	challenge := loopback(t, driver.Driver{Descriptor: challengeDescriptor(), Challenge: rec}).Challenge()
	client := loopback(t, driver.Driver{Descriptor: capabilityDescriptor(), Capability: rec})
	capability := client.Capability()
	rapid.Check(t, func(t *rapid.T) {
		checkCall(t, rec, challenge.Validate, driver.ValidateRequest{Challenge: drawDocument(t)}, drawValidateResult(t))
		checkCall(t, rec, challenge.Advance, drawAdvanceRequest(t), drawAdvanceResult(t))
		checkCall(t, rec, capability.Render, drawRenderRequest(t), drawRenderResult(t))
		checkCall(t, rec, capability.Interpret, drawInterpretRequest(t), drawInterpretResult(t))
		checkCall(t, rec, previewerOf(client).Preview, drawPreviewRequest(t), drawPreviewResult(t))
	})
}

// The wire carries documents as they are; whoever reads one judges it.
func TestTheWireDoesNotLookInsideDocuments(t *testing.T) {
	for _, document := range []string{"", "null", "{", "\xff\x00", ` { "a" : 1, "a": 2 } `} {
		rec := &recorder{result: driver.Accept(json.RawMessage(document), nil)}
		challenge := loopback(t, driver.Driver{Descriptor: challengeDescriptor(), Challenge: rec}).Challenge()
		got, err := challenge.Advance(t.Context(), driver.AdvanceRequest{Challenge: json.RawMessage(document)})
		if err != nil {
			t.Fatalf("Advance(%q): %v", document, err)
		}
		seen, _ := rec.request.(driver.AdvanceRequest)
		if string(seen.Challenge) != document || string(got.Accepted.Proof) != document {
			t.Errorf("document %q: the driver saw %q, the host saw %q", document, seen.Challenge, got.Accepted.Proof)
		}
	}
}

func checkCall[Req, Res any](
	t *rapid.T, rec *recorder, call func(context.Context, Req) (Res, error), req Req, want Res,
) {
	rec.result = want
	got, err := call(context.Background(), req)
	if err != nil {
		t.Fatalf("%T: %v", req, err)
	}
	if diff := cmp.Diff(req, rec.request); diff != "" {
		t.Errorf("the driver saw another %T (-sent +seen):\n%s", req, diff)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the host saw another %T (-sent +seen):\n%s", want, diff)
	}
}

func TestUnsoundResultsAreErrors(t *testing.T) {
	answer := driver.Answer{Value: json.RawMessage(`1`), Provenance: driver.AgentReported}
	for name, result := range map[string]any{
		"advance without outcome":      driver.AdvanceResult{},
		"advance with two outcomes":    driver.AdvanceResult{Accepted: &driver.Accepted{}, Declined: &driver.Declined{}},
		"advance with negative state":  driver.AdvanceResult{Declined: &driver.Declined{}, State: driver.State{Version: -1}},
		"need with unknown approval":   driver.Need(driver.Input{ID: "a", Approval: "perhaps"}),
		"need with negative tokens":    driver.Need(driver.Input{ID: "a", MaxTokens: -1}),
		"unknown severity":             driver.ValidateResult{Diagnostics: []driver.Diagnostic{{Severity: "fatal"}}},
		"severity left out":            driver.ValidateResult{Diagnostics: []driver.Diagnostic{{}}},
		"unknown escaping":             driver.ValidateResult{Templates: []driver.Template{{Escaping: "html"}}},
		"render without outcome":       driver.RenderResult{},
		"render with two outcomes":     driver.RenderResult{Answer: &answer, Unavailable: &driver.Unavailable{}},
		"interpret without outcome":    driver.InterpretResult{},
		"interpret with two outcomes":  driver.InterpretResult{Answer: &answer, Missing: &driver.Missing{}},
		"answer of unknown provenance": driver.Answered(json.RawMessage(`1`), "hearsay"),
		"answer without provenance":    driver.Answered(json.RawMessage(`1`), ""),
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := callFor(t, &recorder{result: result}); status.Code(err) != codes.Internal {
				t.Errorf("error = %v, want code Internal", err)
			}
		})
	}
}

// callFor calls the method whose result type rec.result has.
func callFor(t *testing.T, rec *recorder) (any, error) {
	t.Helper()
	challenge := loopback(t, driver.Driver{Descriptor: challengeDescriptor(), Challenge: rec}).Challenge()
	capability := loopback(t, driver.Driver{Descriptor: capabilityDescriptor(), Capability: rec}).Capability()
	switch rec.result.(type) {
	case driver.ValidateResult:
		return challenge.Validate(t.Context(), driver.ValidateRequest{})
	case driver.RenderResult:
		return capability.Render(t.Context(), driver.RenderRequest{})
	case driver.InterpretResult:
		return capability.Interpret(t.Context(), driver.InterpretRequest{})
	default:
		return challenge.Advance(t.Context(), driver.AdvanceRequest{})
	}
}

func TestDriverWithoutConfigurerRefusesConfiguration(t *testing.T) {
	client := loopback(t, driver.Driver{Descriptor: challengeDescriptor(), Challenge: &recorder{}})
	for config, wantProblem := range map[string]bool{"": false, "{}": false, "null": false, `{"a":1}`: true} {
		got, err := client.Configure(t.Context(), json.RawMessage(config), false)
		if err != nil {
			t.Fatalf("Configure(%q): %v", config, err)
		}
		if (len(got) > 0) != wantProblem {
			t.Errorf("Configure(%q) = %v, want a problem: %t", config, got, wantProblem)
		}
	}
	if err := client.CheckHealth(t.Context()); err != nil {
		t.Errorf("CheckHealth = %v, want nil", err)
	}
}

// TestNearMisses: a driver that is almost right is not served, and told why.
func TestNearMisses(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*driver.Driver)
		want   string
	}{
		"name":          {func(d *driver.Driver) { d.Descriptor.Name = "Bad Name" }, "name"},
		"version":       {func(d *driver.Driver) { d.Descriptor.Version = "v1" }, "version"},
		"role":          {func(d *driver.Driver) { d.Descriptor.Role = "judge" }, "role"},
		"effect":        {func(d *driver.Driver) { d.Descriptor.Effect = "" }, "effect"},
		"handles":       {func(d *driver.Driver) { d.Descriptor.Handles = nil }, "handles"},
		"handles twice": {func(d *driver.Driver) { d.Descriptor.Handles = []string{"a", "a"} }, "handles"},
		"schema":        {func(d *driver.Driver) { d.Descriptor.ConfigSchema = json.RawMessage(`[`) }, "config_schema"},
		"schema's form": {func(d *driver.Driver) { d.Descriptor.ParamsSchema = json.RawMessage(`true`) }, "params_schema is not a JSON object"},
		"output's form": {func(d *driver.Driver) { d.Descriptor.OutputSchema = json.RawMessage(`{"type"`) }, "output_schema is not a JSON object"},
		"huge schema": {func(d *driver.Driver) {
			d.Descriptor.OutputSchema = json.RawMessage(`{"description":"` + strings.Repeat("x", 128<<10) + `"}`)
		}, "output_schema has 131090 bytes, at most 65536 are read"},
		"params of a capability": {func(d *driver.Driver) {
			d.Descriptor.Role, d.Challenge, d.Capability = driver.RoleCapability, nil, &recorder{}
			d.Descriptor.ParamsSchema = json.RawMessage(`{}`)
		}, "a capability has no challenge"},
		"states":     {func(d *driver.Driver) { d.Descriptor.StateVersions = []int{2, 1} }, "state_versions"},
		"needs":      {func(d *driver.Driver) { d.Descriptor.Needs = []string{"luck"} }, "needs"},
		"ways":       {func(d *driver.Driver) { d.Descriptor.AnswersBy = []string{"form"} }, `handles "approval"`},
		"approval":   {func(d *driver.Driver) { d.Descriptor.Approval = "maybe" }, "approval"},
		"transport":  {func(d *driver.Driver) { d.Descriptor.Transport = "http" }, "transport"},
		"wrong role": {func(d *driver.Driver) { d.Challenge, d.Capability = nil, &recorder{} }, "Challenge set is false"},
	} {
		t.Run(name, func(t *testing.T) {
			d := driver.Driver{Descriptor: challengeDescriptor(), Challenge: &recorder{}}
			tc.change(&d)
			_, _, err := driverrpc.Loopback(d)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Loopback error = %v, want one about %q", err, tc.want)
			}
		})
	}
}
