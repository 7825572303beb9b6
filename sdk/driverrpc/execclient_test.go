package driverrpc_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"pgregory.net/rapid"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/driverrpc"
)

// printing is a driver of the exec transport whose processes print the same,
// whatever is asked.
func printing(reply string) *driverrpc.ExecClient {
	return driverrpc.NewExecClient(func(context.Context, string, []byte) ([]byte, error) { return []byte(reply), nil })
}

// callBy calls the method of a driver with an empty request.
func callBy(ctx context.Context, c driverrpc.Calls, method string) error {
	var err error
	switch method {
	case driverrpc.MethodDescribe:
		_, err = c.Describe(ctx)
	case driverrpc.MethodConfigure:
		_, err = c.Configure(ctx, nil, true)
	case driverrpc.MethodCheckHealth:
		err = c.CheckHealth(ctx)
	case driverrpc.MethodValidate:
		_, err = c.Challenge().Validate(ctx, driver.ValidateRequest{})
	case driverrpc.MethodAdvance:
		_, err = c.Challenge().Advance(ctx, driver.AdvanceRequest{})
	case driverrpc.MethodRender:
		_, err = c.Capability().Render(ctx, driver.RenderRequest{})
	case driverrpc.MethodInterpret:
		_, err = c.Capability().Interpret(ctx, driver.InterpretRequest{})
	case driverrpc.MethodPreview:
		_, err = previewerOf(c).Preview(ctx, driver.PreviewRequest{})
	}
	return err
}

func TestEveryMessageSurvivesItsJSONForm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		checkJSONCall(t, driverrpc.MethodValidate, driver.ValidateRequest{Challenge: drawDocument(t)}, drawValidateResult(t),
			func(c driverrpc.Calls) callOf[driver.ValidateRequest, driver.ValidateResult] {
				return c.Challenge().Validate
			})
		checkJSONCall(t, driverrpc.MethodAdvance, drawAdvanceRequest(t), drawAdvanceResult(t),
			func(c driverrpc.Calls) callOf[driver.AdvanceRequest, driver.AdvanceResult] {
				return c.Challenge().Advance
			})
		checkJSONCall(t, driverrpc.MethodRender, drawRenderRequest(t), drawRenderResult(t),
			func(c driverrpc.Calls) callOf[driver.RenderRequest, driver.RenderResult] {
				return c.Capability().Render
			})
		checkJSONCall(t, driverrpc.MethodInterpret, drawInterpretRequest(t), drawInterpretResult(t),
			func(c driverrpc.Calls) callOf[driver.InterpretRequest, driver.InterpretResult] {
				return c.Capability().Interpret
			})
		checkJSONCall(t, driverrpc.MethodPreview, drawPreviewRequest(t), drawPreviewResult(t),
			func(c driverrpc.Calls) callOf[driver.PreviewRequest, driver.PreviewResult] {
				return previewerOf(c).Preview
			})
	})
}

type callOf[Req, Res any] func(context.Context, Req) (Res, error)

func checkJSONCall[Req, Res any](
	t *rapid.T, method string, req Req, want Res, choose func(driverrpc.Calls) callOf[Req, Res],
) {
	var seen Req
	call := choose(driverrpc.NewExecClient(func(_ context.Context, asked string, request []byte) ([]byte, error) {
		if asked != method {
			t.Errorf("method %q, want %q", asked, method)
		}
		if err := json.Unmarshal(request, &seen); err != nil {
			t.Errorf("the request is not JSON: %v", err)
		}
		return json.Marshal(want)
	}))
	got, err := call(context.Background(), req)
	if err != nil {
		t.Fatalf("%s: %v", method, err)
	}
	if diff := cmp.Diff(req, seen); diff != "" {
		t.Errorf("the driver saw another %T (-sent +seen):\n%s", req, diff)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the host saw another %T (-sent +seen):\n%s", want, diff)
	}
}

func TestBaseCallsHaveAJSONForm(t *testing.T) {
	requests := map[string]string{}
	replies := map[string]string{
		driverrpc.MethodDescribe: `{"name":"a","version":"1.0.0","role":"challenge","handles":["a"],"effect":"pure",
			"transport":"exec","config_schema":null}`,
		driverrpc.MethodConfigure:   `{"diagnostics":[{"severity":"warning","pointer":"/a","message":"old"}]}`,
		driverrpc.MethodCheckHealth: `{"healthy":true}`,
	}
	c := driverrpc.NewExecClient(func(_ context.Context, method string, request []byte) ([]byte, error) {
		requests[method] = string(request)
		return []byte(replies[method]), nil
	})
	d, err := c.Describe(t.Context())
	if err != nil || d.Transport != driver.TransportExec || d.ConfigSchema != nil {
		t.Errorf("Describe = %+v, %v", d, err)
	}
	found, err := c.Configure(t.Context(), json.RawMessage(`{"a":1}`), true)
	if diff := cmp.Diff([]driver.Diagnostic{driver.Warning("/a", "old")}, found); diff != "" || err != nil {
		t.Errorf("Configure: %v, (-want +got):\n%s", err, diff)
	}
	if err := c.CheckHealth(t.Context()); err != nil {
		t.Errorf("CheckHealth: %v", err)
	}
	want := map[string]string{
		driverrpc.MethodDescribe: "{}\n", driverrpc.MethodCheckHealth: "{}\n",
		driverrpc.MethodConfigure: `{"config":{"a":1},"dry_run":true}` + "\n",
	}
	if diff := cmp.Diff(want, requests); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestUnsoundJSONRepliesAreTheDriversFault(t *testing.T) {
	for name, tc := range map[string]struct{ method, reply, want string }{
		"nothing":             {driverrpc.MethodAdvance, "", "empty"},
		"null":                {driverrpc.MethodAdvance, "null", "not a JSON object"},
		"a list":              {driverrpc.MethodAdvance, "[]", "not a JSON object"},
		"text before":         {driverrpc.MethodAdvance, `hello {"declined":{}}`, "invalid character"},
		"two documents":       {driverrpc.MethodAdvance, `{"declined":{}} {"declined":{}}`, "after top-level value"},
		"cut off":             {driverrpc.MethodAdvance, `{"declined":{}`, "ends too early"},
		"not UTF-8":           {driverrpc.MethodAdvance, "{\"declined\":{\"reason\":\"\xff\"}}", "UTF-8"},
		"a key twice":         {driverrpc.MethodAdvance, `{"declined":{},"declined":{}}`, "twice"},
		"a key twice in case": {driverrpc.MethodAdvance, `{"declined":{},"Declined":{}}`, "twice"},
		"no outcome":          {driverrpc.MethodAdvance, `{}`, "exactly one outcome"},
		"null outcome":        {driverrpc.MethodAdvance, `{"accepted":null}`, "exactly one outcome"},
		"two outcomes":        {driverrpc.MethodAdvance, `{"accepted":{"proof":{}},"declined":{}}`, "exactly one outcome"},
		"no inputs":           {driverrpc.MethodAdvance, `{"need_input":[]}`, "exactly one outcome"},
		"wrong type":          {driverrpc.MethodAdvance, `{"rejected":{"error_code":5}}`, "rejected.error_code is a number"},
		"negative state":      {driverrpc.MethodAdvance, `{"declined":{},"state":{"version":-1}}`, "state version"},
		"unknown approval":    {driverrpc.MethodAdvance, `{"need_input":[{"id":"a","approval":"perhaps"}]}`, "perhaps"},
		"no severity":         {driverrpc.MethodValidate, `{"diagnostics":[{"message":"bad"}]}`, "Severity"},
		"unknown severity":    {driverrpc.MethodConfigure, `{"diagnostics":[{"severity":"fatal"}]}`, "fatal"},
		"unknown escaping":    {driverrpc.MethodValidate, `{"templates":[{"pointer":"/a","escaping":"html"}]}`, "html"},
		"unknown provenance":  {driverrpc.MethodInterpret, `{"answer":{"value":1,"provenance":"hearsay"}}`, "hearsay"},
		"render two":          {driverrpc.MethodRender, `{"client_review":{},"unavailable":{}}`, "exactly one outcome"},
		"unknown role":        {driverrpc.MethodDescribe, `{"name":"a","version":"1.0.0","role":"judge"}`, "judge"},
		"unknown transport":   {driverrpc.MethodDescribe, `{"role":"challenge","effect":"pure","transport":"http"}`, "http"},
	} {
		t.Run(name, func(t *testing.T) {
			err := callBy(t.Context(), printing(tc.reply), tc.method)
			if err == nil || !strings.Contains(err.Error(), tc.want) || !driverrpc.IsDriverBug(err) {
				t.Errorf("%s with reply %q: error = %v, want a driver's bug about %q", tc.method, tc.reply, err, tc.want)
			}
		})
	}
}

func TestUnhealthyExecDriversSayWhy(t *testing.T) {
	for reply, want := range map[string]string{
		`{"healthy":false,"reason":"asleep"}`: "asleep", `{"reason":"asleep"}`: "asleep", `{}`: "unhealthy", `no`: "reply",
	} {
		if err := printing(reply).CheckHealth(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("CheckHealth with reply %q = %v, want an error with %q", reply, err, want)
		}
	}
}

func TestUnsoundDescriptorsOfExecDriversAreRefused(t *testing.T) {
	_, err := printing(`{"name":"A B","version":"1.0.0","role":"challenge","handles":["a"],"effect":"pure"}`).Describe(t.Context())
	if err == nil || !strings.Contains(err.Error(), "name") {
		t.Errorf("Describe error = %v, want one about the name", err)
	}
}

func TestUnknownKeysAndNullsOfExecDriversAreTaken(t *testing.T) {
	got, err := printing(`{"mood":{"a":1},"accepted":{"proof":{"ok":true},"output":null,"confidence":1},
		"rejected":null,"need_input":null,"state":{"version":2,"data":null}}
	`).Challenge().Advance(t.Context(), driver.AdvanceRequest{})
	if err != nil {
		t.Fatalf("Advance: %v", err)
	}
	want := driver.Accept(json.RawMessage(`{"ok":true}`), nil)
	want.State.Version = 2
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Advance (-want +got):\n%s", diff)
	}
}

func TestErrorsOfTheRunnerAreHandedOn(t *testing.T) {
	broken := errors.New("exit status 1: disk on fire")
	c := driverrpc.NewExecClient(func(context.Context, string, []byte) ([]byte, error) { return nil, broken })
	for _, method := range []string{
		driverrpc.MethodDescribe, driverrpc.MethodConfigure, driverrpc.MethodCheckHealth, driverrpc.MethodValidate,
		driverrpc.MethodAdvance, driverrpc.MethodRender, driverrpc.MethodInterpret, driverrpc.MethodPreview,
	} {
		if err := callBy(t.Context(), c, method); !errors.Is(err, broken) {
			t.Errorf("%s = %v, want %v", method, err, broken)
		}
	}
}

func TestRequestsThatAreNotJSONAreTheCallersFault(t *testing.T) {
	c := printing(`{"declined":{}}`)
	for name, req := range map[string]driver.AdvanceRequest{
		"no document": {Challenge: json.RawMessage(`{`)}, "negative round": {Challenge: json.RawMessage(`{}`), Round: -1},
		"no provenance": {Answers: []driver.Answer{{Value: json.RawMessage(`1`)}}},
	} {
		if _, err := c.Challenge().Advance(t.Context(), req); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: error = %v, want code InvalidArgument", name, err)
		}
	}
}

// FuzzExecReplies feeds any bytes as what a driver prints: an error or a sound
// result, never a panic.
func FuzzExecReplies(f *testing.F) {
	for _, seed := range []string{
		"", "{}", "null", "[]", `{"accepted":{"proof":{},"observed":true},"state":{"version":1,"data":[]}}`,
		`{"need_input":[{"id":"a","kind":"evidence","temperature":0.5,"similarity":{"text":"a"}}]}`,
		`{"answer":{"value":null,"provenance":"agent-reported"}}`, `{"invalid":{"diagnostics":[{"severity":"error"}]}}`,
		`{"declined":{},"Declined":{}}`, `{"name":"a","version":"1.0.0","role":"challenge","handles":["a"],"effect":"pure"}`,
		`{"client_request":{"method":"a","params":{}}}`, `{"diagnostics":[],"templates":[{"escaping":"json"}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, reply []byte) {
		c := printing(string(reply))
		if c.CheckHealth(context.Background()) == nil && !bytes.Contains(bytes.ToLower(reply), []byte("true")) {
			t.Errorf("CheckHealth took %q", reply)
		}
		checkReplies(t, c)
	})
}
