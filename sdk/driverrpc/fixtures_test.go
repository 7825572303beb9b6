package driverrpc_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/driverrpc"
)

var update = flag.Bool("update", false, "write the fixtures")

const fixtureDir = "../../proto/kairos/driver/v1/fixtures"

// fixture is one call in both of its forms. It is for whoever implements the
// contract in another language.
type fixture struct {
	Method       string          `json:"method"`
	Case         string          `json:"case"`
	Request      json.RawMessage `json:"request"`
	Reply        json.RawMessage `json:"reply"`
	ProtoRequest json.RawMessage `json:"protojson_request"`
	ProtoReply   json.RawMessage `json:"protojson_reply"`
}

// example is the Go form that a fixture is made from.
type example struct {
	method, name   string
	request, reply any
}

func (e example) file() string {
	return filepath.Join(fixtureDir, strings.ToLower(e.method)+"-"+e.name+".json")
}

func raw(s string) json.RawMessage { return json.RawMessage(s) }

func examples() []example {
	step := driver.Step{Protocol: "Release", Label: "2 Check the page", Text: "Is it up?", Index: 2, Count: 3}
	client := driver.Client{
		Name: "claude", Version: "2.0", Era: "2025-11-25", Transport: "stdio", ElicitationForm: true, Sampling: true,
	}
	temperature := 0.2
	evidence := driver.Input{
		ID: "evidence", Kind: driver.KindEvidence, Description: "The status and the text of the page.",
		System: "Answer with JSON.", User: "What does the page say?", Schema: raw(`{"type":"object","required":["text"]}`),
		Type: "page", Display: raw(`{"url":"https://example.com"}`), Temperature: &temperature, MaxTokens: 500,
		Approval: driver.ApprovalUser, Sensitive: true, Action: raw(`{"url":"https://example.com"}`),
	}
	alike := driver.Input{
		ID: "alike", Kind: driver.KindSimilarity, Similarity: &driver.Similarity{Text: "all good", Reference: "all is good"},
	}
	answer := driver.Answer{
		InputID: "evidence", Value: raw(`{"text":"all good"}`), Provenance: driver.ModelGenerated, Via: "sampling",
		Model: "some-model", StopReason: "endTurn",
	}
	challenge := raw(`{"page":{"url":"https://example.com","contains":"good"}}`)
	first := driver.AdvanceRequest{Challenge: challenge, Step: step, Client: client}
	second := first
	second.Answers, second.Round = []driver.Answer{answer}, 1
	second.Approved = true
	second.State = driver.State{Version: 1, Data: raw(`{"asked":true}`)}
	asked := driver.Need(evidence, alike)
	asked.State = second.State
	render := driver.RenderRequest{
		Input: evidence, Step: step, Client: client, Links: driver.Links{Approval: "http://127.0.0.1:9000/approve/7"},
		Diagnostics: []driver.Diagnostic{driver.Problem("/text", "is missing")},
	}
	later := driver.AdvanceLater("the build is running", 30*time.Second)
	later.State, later.Pending.Progress, later.Pending.Message = second.State, new(0.25), "Step 2 of 8."
	keyed, keyedRender, recovering := second, render, second
	keyed.IdempotencyKey, keyed.Attempt = "Zk0wS2ZrTjR5dGc", 1
	keyedRender.IdempotencyKey, keyedRender.Attempt = "c2VjcmV0IG9mIG5v", 2
	recovering.IdempotencyKey, recovering.Attempt, recovering.Recover = keyed.IdempotencyKey, 1, true
	cancelled := keyedRender
	cancelled.Recover, cancelled.Cancel = true, true
	ownKind := driver.RenderRequest{
		Input: driver.Input{ID: "ship", Kind: "acme.confirmation", Description: "Ship it?"}, Step: step, Client: client,
	}
	ownKind.Client.Capabilities = raw(`{"experimental":{"acme/confirm":{}},"sampling":{}}`)
	approval := driver.RenderRequest{Input: driver.Input{ID: "approval", Kind: driver.KindApproval}, Step: step, Client: client, How: []string{driver.ByReview}}
	reviewed := driver.ReviewedByClient("the client shows it before it sends")
	reviewed.How = driver.ByReview
	replied := driver.InterpretRequest{Input: evidence, Step: step, Client: client, Raw: raw(`{"action":"accept","content":{}}`)}
	byPage := replied
	byPage.Input, byPage.How = approval.Input, driver.ByPage
	failed := driver.InterpretRequest{
		Input: evidence, Step: step, Client: client, ClientError: &driver.ClientError{Code: -32601, Message: "Method not found"},
	}
	planned := driver.PreviewRequest{Input: evidence, Step: step, Client: client}
	proposed := planned
	proposed.Proposal = raw(`{"text":"all good"}`)
	withPlan := keyedRender
	withPlan.Plan = raw(`{"url":"https://example.com"}`)
	return append(baseExamples(),
		example{"Preview", "plan", proposed, driver.Planned(driver.Plan{
			Text: "GET https://example.com", Data: withPlan.Plan, Effect: driver.EffectReads, Action: raw(`{"text":"all good"}`),
		})},
		example{"Preview", "propose", planned, driver.ProposalNeeded(raw(`{"type":"object","required":["text"]}`), "Say what to look for.")},
		example{"Preview", "invalid", proposed, driver.ProposalInvalid(driver.Problem("/text", "is too short"))},
		example{"Preview", "unavailable", planned, driver.CannotPreview("no server of that name was added")},
		example{"Render", "planned", withPlan, driver.RenderResult{Answer: &driver.Answer{
			InputID: "evidence", Value: raw(`{"text":"all good"}`), Provenance: driver.ServerObserved,
		}}},
		example{"Validate", "refused", driver.ValidateRequest{Challenge: raw(`{"page":{}}`)}, driver.ValidateResult{
			Diagnostics: []driver.Diagnostic{driver.Problem("/page/url", "is required"), driver.Warning("", "is short")},
		}},
		example{"Validate", "accepted", driver.ValidateRequest{Challenge: challenge}, driver.ValidateResult{
			Challenge: raw(`{"page":{"contains":"good","status":200,"url":"https://example.com"}}`),
			Templates: []driver.Template{{Pointer: "/page/url", Escaping: driver.EscapeText}},
			Action:    raw(`{"url":{"unparsed":"{{ input.url }}"}}`),
		}},
		example{"Advance", "need-input", first, asked},
		example{"Advance", "accepted", second, driver.Accept(raw(`{"text":"all good"}`), raw(`"all good"`))},
		example{"Advance", "observed", first, driver.Observe(raw(`{"status":200}`), nil)},
		example{"Advance", "rejected", second, driver.Reject("TEXT_MISSING", "The page does not say “good”.")},
		example{"Advance", "declined", second, driver.Decline("the person declined")},
		example{"Advance", "unavailable", first, driver.CannotAdvance("no network")},
		example{"Advance", "pending", keyed, later},
		example{"Advance", "recovered", recovering, driver.Accept(raw(`{"text":"all good"}`), nil)},
		example{"Advance", "unknown", recovering, driver.AdvanceUnknown("the bank does not say whether the transfer was made")},
		example{"Advance", "not-done", recovering, driver.AdvanceNotDone("no transfer has this key")},
		example{"Render", "pending", keyedRender, driver.RenderLater("alice was asked", time.Minute)},
		example{"Render", "cancelled", cancelled, driver.RenderNotDone("the question was withdrawn")},
		example{"Render", "client-request", render, driver.AskClient("elicitation/create", raw(`{"message":"What does it say?"}`))},
		example{"Render", "own-method", ownKind, driver.AskClient("acme/confirm", raw(`{"question":"Ship it?"}`))},
		example{"Render", "agent-challenge", render, driver.AskAgent(driver.AgentChallenge{
			Type: "page", Description: "Read the page.", Display: raw(`{"url":"https://example.com"}`),
		})},
		example{"Render", "answer", render, driver.RenderResult{Answer: &driver.Answer{
			InputID: "evidence", Value: raw(`{"text":"all good"}`), Provenance: driver.ServerObserved,
		}}},
		example{"Render", "unavailable", render, driver.CannotRender("the client has no forms")},
		example{"Render", "client-review", approval, reviewed},
		example{"Interpret", "answered", replied, driver.Answered(raw(`{"text":"all good"}`), driver.ClientAttested)},
		example{"Interpret", "declined", replied, driver.PersonDeclined("not now")},
		example{"Interpret", "dismissed", byPage, driver.PersonDismissed("the person closed the form")},
		example{"Interpret", "invalid", replied, driver.NotAnAnswer(driver.Problem("/text", "is missing"))},
		example{"Interpret", "unavailable", failed, driver.CannotInterpret("the client cannot: Method not found")},
		example{"Interpret", "missing", replied, driver.LeftOut("the solution is a placeholder")},
	)
}

func baseExamples() []example {
	return []example{
		{"Describe", "challenge", struct{}{}, driver.Descriptor{
			Name: "page", Version: "1.2.3", Role: driver.RoleChallenge, Handles: []string{"page"}, Effect: driver.EffectReads,
			ConfigSchema:  raw(`{"type":"object","properties":{"timeout_s":{"type":"integer"}},"additionalProperties":false}`),
			StateVersions: []int{1}, Approval: driver.ApprovalAuto,
			ParamsSchema: raw(`{"type":"object","properties":{"url":{"type":"string"}},"required":["url"],"additionalProperties":false}`),
			OutputSchema: raw(`{"type":"object","properties":{"text":{"type":"string"}}}`),
		}},
		{"Describe", "capability-exec", struct{}{}, driver.Descriptor{
			Name: "asker", Version: "0.1.0-rc.1", Role: driver.RoleCapability, Handles: []string{driver.KindEvidence, driver.KindApproval},
			Effect: driver.EffectPure, Features: []string{driver.FeatureHuman}, Needs: []string{driver.NeedElicitationForm},
			AnswersBy: []string{driver.ByForm, "signature"}, Transport: driver.TransportExec,
			ActionSchema: raw(`{"type":"object","properties":{"folder":{"type":"string"}}}`),
		}},
		{"Describe", "capability-sends", struct{}{}, driver.Descriptor{
			Name: "acme_confirm", Version: "1.0.0", Role: driver.RoleCapability, Handles: []string{"acme.confirmation"},
			Effect: driver.EffectPure, Features: []string{driver.FeatureHuman}, Needs: []string{"/experimental/acme~1confirm"},
			Sends: []driver.ClientMethod{{Method: "acme/confirm", Needs: []string{"/experimental/acme~1confirm"}}},
		}},
		{"Configure", "accepted", driverrpc.ConfigureRequest{Config: raw(`{"timeout_s":5}`)}, driverrpc.ConfigureResult{}},
		{"Configure", "refused", driverrpc.ConfigureRequest{Config: raw(`{"timeout_s":"5"}`), DryRun: true}, driverrpc.ConfigureResult{
			Diagnostics: []driver.Diagnostic{driver.Problem("/timeout_s", "must be an integer")},
		}},
		{"Configure", "none", driverrpc.ConfigureRequest{}, driverrpc.ConfigureResult{}},
		{"CheckHealth", "healthy", struct{}{}, driverrpc.Health{Healthy: true}},
		{"CheckHealth", "unhealthy", struct{}{}, driverrpc.Health{Reason: "the browser is not installed"}},
	}
}

func (e example) fixture(t *testing.T) []byte {
	t.Helper()
	f := fixture{Method: e.method, Case: e.name}
	for _, form := range []struct {
		value        any
		plain, proto *json.RawMessage
	}{{e.request, &f.Request, &f.ProtoRequest}, {e.reply, &f.Reply, &f.ProtoReply}} {
		message, err := driverrpc.ProtoOf(form.value)
		if err != nil {
			t.Fatalf("%s: %v", e.file(), err)
		}
		if *form.proto, err = (protojson.MarshalOptions{UseProtoNames: true}).Marshal(message); err != nil {
			t.Fatal(err)
		}
		if *form.plain, err = json.Marshal(form.value); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(f); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestFixturesAreWhatTheCodeSays(t *testing.T) {
	want := map[string]bool{}
	for _, e := range examples() {
		want[e.file()] = true
		content := e.fixture(t)
		if *update {
			if err := os.WriteFile(e.file(), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(e.file())
		if err != nil {
			t.Fatalf("%v: run the test with -update", err)
		}
		if diff := cmp.Diff(string(content), string(got)); diff != "" {
			t.Errorf("%s is not what the code says, look at it and run the test with -update (-code +file):\n%s", e.file(), diff)
		}
	}
	files, err := filepath.Glob(filepath.Join(fixtureDir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !want[file] {
			t.Errorf("%s is made from no example", file)
		}
	}
}

// played is a connection to a driver that replies what a fixture says and
// notes the request.
type played struct {
	reply   json.RawMessage
	request json.RawMessage
}

func (p *played) Invoke(_ context.Context, _ string, args, reply any, _ ...grpc.CallOption) (err error) {
	if p.request, err = (protojson.MarshalOptions{UseProtoNames: true}).Marshal(args.(proto.Message)); err != nil {
		return err
	}
	return protojson.Unmarshal(p.reply, reply.(proto.Message))
}

func (p *played) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	panic("no call of the contract streams")
}

// TestFixturesSayTheSameOnBothTransports plays every file to both clients: they
// send what it says and understand the same.
func TestFixturesSayTheSameOnBothTransports(t *testing.T) {
	for _, e := range examples() {
		t.Run(e.method+" "+e.name, func(t *testing.T) {
			content, err := os.ReadFile(e.file())
			if err != nil {
				t.Fatal(err)
			}
			var f fixture
			if err := json.Unmarshal(content, &f); err != nil {
				t.Fatal(err)
			}
			grpcSide := &played{reply: f.ProtoReply}
			var sent json.RawMessage
			execSide := driverrpc.NewExecClient(func(_ context.Context, method string, request []byte) ([]byte, error) {
				if method != f.Method {
					t.Errorf("called %s, want %s", method, f.Method)
				}
				sent = request
				return f.Reply, nil
			})
			overGRPC, overExec := playTo(t, driverrpc.NewClient(grpcSide), f), playTo(t, execSide, f)
			if diff := cmp.Diff(overGRPC, overExec); diff != "" {
				t.Errorf("the transports disagree (-grpc +exec):\n%s", diff)
			}
			sameJSON(t, "the request over exec", f.Request, sent)
			sameJSON(t, "the request over gRPC", f.ProtoRequest, grpcSide.request)
		})
	}
}

// playTo makes the fixture's call and gives its result.
func playTo(t *testing.T, c driverrpc.Calls, f fixture) any {
	t.Helper()
	var out any
	var err error
	ctx := t.Context()
	switch f.Method {
	case driverrpc.MethodDescribe:
		out, err = c.Describe(ctx)
	case driverrpc.MethodConfigure:
		req := requestOf[driverrpc.ConfigureRequest](t, f)
		out, err = c.Configure(ctx, req.Config, req.DryRun)
	case driverrpc.MethodCheckHealth:
		if sick := c.CheckHealth(ctx); sick != nil {
			out = sick.Error()
		}
	case driverrpc.MethodValidate:
		out, err = c.Challenge().Validate(ctx, requestOf[driver.ValidateRequest](t, f))
	case driverrpc.MethodAdvance:
		out, err = c.Challenge().Advance(ctx, requestOf[driver.AdvanceRequest](t, f))
	case driverrpc.MethodRender:
		out, err = c.Capability().Render(ctx, requestOf[driver.RenderRequest](t, f))
	case driverrpc.MethodInterpret:
		out, err = c.Capability().Interpret(ctx, requestOf[driver.InterpretRequest](t, f))
	case driverrpc.MethodPreview:
		out, err = previewerOf(c).Preview(ctx, requestOf[driver.PreviewRequest](t, f))
	default:
		t.Fatalf("no method %s", f.Method)
	}
	if err != nil {
		t.Fatalf("%s: %v", f.Method, err)
	}
	return compacted(t, out)
}

// compacted takes the layout of the file out of the documents.
func compacted(t *testing.T, v any) any {
	t.Helper()
	printed, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(printed)
}

func requestOf[Req any](t *testing.T, f fixture) Req {
	t.Helper()
	var compact bytes.Buffer // the file's layout is not the document's
	if err := json.Compact(&compact, f.Request); err != nil {
		t.Fatal(err)
	}
	var req Req
	if err := json.Unmarshal(compact.Bytes(), &req); err != nil {
		t.Fatal(err)
	}
	return req
}

func sameJSON(t *testing.T, what string, want, got json.RawMessage) {
	t.Helper()
	var w, g any
	if err := json.Unmarshal(want, &w); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(got, &g); err != nil {
		t.Fatalf("%s is not JSON: %v", what, err)
	}
	if diff := cmp.Diff(w, g); diff != "" {
		t.Errorf("%s (-file +sent):\n%s", what, diff)
	}
}
