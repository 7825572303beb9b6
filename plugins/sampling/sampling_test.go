package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/drivertest"
	"github.com/kairos-mcp/kairos/sdk/drivertest/golden"
	"github.com/kairos-mcp/kairos/sdk/fields"
	"github.com/kairos-mcp/kairos/sdk/schema"
	"github.com/kairos-mcp/kairos/sdk/settings"
)

var (
	sampler = driver.Client{Name: "c", Sampling: true}
	step    = driver.Step{Protocol: "Appointment", Label: "Find a slot", Text: "## Find a slot", Index: 3, Count: 4}
)

func slot() driver.Input {
	return driver.Input{
		ID: "evidence", Kind: driver.KindEvidence, Type: "mcp", Description: "Find a slot.",
		System: "Call find_slot.", User: "For Adam and Betty, 30 minutes.",
		Schema: json.RawMessage(`{"type": "object", "properties": {"slot": {"type": "string"}}}`),
	}
}

func changed(change func(*driver.Input)) driver.Input {
	in := slot()
	change(&in)
	return in
}

func number(f float64) *float64 { return &f }

func TestRequestsAsTheClientSeesThem(t *testing.T) {
	drivertest.EachWay(t, definition(), func(t *testing.T, d driver.Driver) {
		for name, req := range map[string]driver.RenderRequest{
			"plain":  {Input: slot(), Step: step, Client: sampler},
			"bare":   {Input: driver.Input{ID: "evidence", Kind: driver.KindEvidence, Description: "Say yes or no."}, Client: sampler},
			"repair": {Input: slot(), Step: step, Client: sampler, Diagnostics: []driver.Diagnostic{driver.Problem("", `missing "slot"`)}},
			"tuned": {Input: changed(func(in *driver.Input) {
				in.Temperature, in.TopP, in.MaxTokens, in.Approval = number(0), number(1), 50, driver.ApprovalUser
			}), Step: step, Client: sampler},
		} {
			res, err := d.Capability.Render(t.Context(), req)
			if err != nil || res.ClientRequest == nil || res.ClientRequest.Method != "sampling/createMessage" {
				t.Fatalf("Render(%s) = %+v, %v, want sampling/createMessage", name, res, err)
			}
			golden.Compare(t, name, res.ClientRequest.Params)
		}
	})
}

func TestARequestForAPersonIsNeverAuto(t *testing.T) {
	for name, in := range map[string]driver.Input{
		"person":   changed(func(in *driver.Input) { in.Person = true }),
		"approval": changed(func(in *driver.Input) { in.Approval = driver.ApprovalUser }),
		"both":     changed(func(in *driver.Input) { in.Person, in.Approval = true, driver.ApprovalAuto }),
	} {
		res, err := sampling{settings.New[config]()}.Render(t.Context(), driver.RenderRequest{Input: in, Client: sampler})
		if err != nil {
			t.Fatal(err)
		}
		if got := string(res.ClientRequest.Params); strings.Contains(got, `"auto"`) || !strings.Contains(got, `"approvalMode":"user"`) {
			t.Errorf("%s: params = %s, want approvalMode user only", name, got)
		}
	}
}

func TestDiagnosticsAreAppendedOnce(t *testing.T) {
	res, err := sampling{settings.New[config]()}.Render(t.Context(), driver.RenderRequest{Input: slot(), Client: sampler,
		Diagnostics: []driver.Diagnostic{driver.Problem("/slot", "got number, want string")}})
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(res.ClientRequest.Params), "/slot: got number"); n != 1 {
		t.Errorf("the diagnostic stands %d times in %s, want once", n, res.ClientRequest.Params)
	}
}

func TestWhatAModelCannotGiveIsLeftToOthers(t *testing.T) {
	drivertest.EachWay(t, definition(), func(t *testing.T, d driver.Driver) {
		for name, req := range map[string]driver.RenderRequest{
			"no client": {Input: slot()},
			"files":     {Input: changed(func(in *driver.Input) { in.Kind = driver.KindFiles }), Client: sampler},
			"remote":    {Input: changed(func(in *driver.Input) { in.Schema = json.RawMessage(`{"$ref":"https://example.com/s"}`) }), Client: sampler},
			"secret":    {Input: changed(func(in *driver.Input) { in.Sensitive = true }), Client: sampler},
		} {
			if res, err := d.Capability.Render(t.Context(), req); err != nil || res.Unavailable == nil {
				t.Errorf("Render(%s) = %+v, %v, want unavailable", name, res, err)
			}
		}
		approval := driver.Input{ID: "approval", Kind: driver.KindApproval, Description: "Create?"}
		if res, err := d.Capability.Render(t.Context(), driver.RenderRequest{Input: approval, Client: sampler}); err != nil || res.ClientReview == nil {
			t.Errorf("Render(approval) = %+v, %v, want the client's review", res, err)
		}
	})
}

func said(text string) string {
	raw, _ := json.Marshal(map[string]any{"role": "assistant", "content": map[string]any{"type": "text", "text": text}, "model": "m-1", "stopReason": "endTurn"})
	return string(raw)
}

func TestReplyIsExactlyOneValue(t *testing.T) {
	for name, tc := range map[string]struct{ raw, answer, says string }{
		"object":         {said(`{"slot":"9:00"}`), `{"slot":"9:00"}`, ""},
		"whitespace":     {said("\n {\"slot\":\"9:00\"}\n"), `{"slot":"9:00"}`, ""},
		"in blocks":      {`{"role":"assistant","content":[{"type":"text","text":"{\"slot\":"},{"type":"text","text":"\"9:00\"}"}],"model":"m-1","stopReason":"endTurn"}`, `{"slot":"9:00"}`, ""},
		"prose before":   {said(`Sure: {"slot":"9:00"}`), "", "not JSON"},
		"prose after":    {said(`{"slot":"9:00"} Anything else?`), "", "follows"},
		"fence":          {said("```json\n{\"slot\":\"9:00\"}\n```"), "", "code fence"},
		"two values":     {said(`{"slot":"9:00"} {"slot":"10:00"}`), "", "follows"},
		"same key twice": {said(`{"slot":"9:00","slot":"10:00"}`), "", "occurs twice"},
		"extra key":      {said(`{"slot":"9:00","note":"x"}`), "", `unknown key "note"`},
		"missing key":    {said(`{}`), "", `missing "slot"`},
		"wrong type":     {said(`{"slot":9}`), "", "/slot: got number, want string"},
		"quoted":         {said(`"{\"slot\":\"9:00\"}"`), "", "got string, want object"},
		"empty":          {said(""), "", "empty"},
		"cut off":        {`{"role":"assistant","content":{"type":"text","text":"{\"slot\":\"9:"},"stopReason":"maxTokens"}`, "", "maxTokens"},
		"an image":       {`{"role":"assistant","content":{"type":"image","data":"","mimeType":"image/png"}}`, "", "/content/type: must be text"},
		"an image too":   {`{"role":"assistant","content":[{"type":"text","text":"{\"slot\":\"9\"}"},{"type":"image"}]}`, "", "/content/1/type"},
		"a tool call":    {`{"role":"assistant","content":[{"type":"tool_use","name":"x","input":{"slot":"9"}}]}`, "", "/content/0/type"},
		"as user":        {`{"role":"user","content":{"type":"text","text":"{\"slot\":\"9\"}"}}`, "", "/role"},
		"no content":     {`{"role":"assistant"}`, "", "/content: is missing"},
		"null content":   {`{"role":"assistant","content":null}`, "", "/content"},
		"empty content":  {`{"role":"assistant","content":[]}`, "", "/content: is empty"},
		"content text":   {`{"role":"assistant","content":"{\"slot\":\"9\"}"}`, "", "/content: must be an object"},
		"no text":        {`{"role":"assistant","content":{"type":"text"}}`, "", "/content/text: is missing"},
		"text object":    {`{"role":"assistant","content":{"type":"text","text":{"slot":"9"}}}`, "", "/content/text: must be a string"},
		"nothing":        {``, "", "empty"},
		"not a message":  {`[]`, "", "must be an object"},
		"deep":           {said(strings.Repeat("[", 5000)), "", "nested deeper"},
		"huge number":    {said(`{"slot":1e999999999}`), "", "out of range"},
	} {
		t.Run(name, func(t *testing.T) {
			drivertest.EachWay(t, definition(), func(t *testing.T, d driver.Driver) {
				res, err := d.Capability.Interpret(t.Context(), driver.InterpretRequest{Input: slot(), Step: step, Client: sampler, Raw: json.RawMessage(tc.raw)})
				if err != nil {
					t.Fatal(err)
				}
				if tc.answer != "" {
					want := &driver.Answer{Value: json.RawMessage(tc.answer), Provenance: driver.ModelGenerated, Model: "m-1", StopReason: "endTurn"}
					if diff := cmp.Diff(want, res.Answer); diff != "" {
						t.Errorf("Interpret(%s) (-want +got):\n%s", tc.raw, diff)
					}
					return
				}
				if res.Invalid == nil || !strings.Contains(fields.Text(res.Invalid.Diagnostics), tc.says) {
					t.Errorf("Interpret(%.200s) = %+v, want not an answer: %q", tc.raw, res, tc.says)
				}
			})
		})
	}
}

func TestARefusalIsAPersonsNoOnlyWhereAPersonWasMeant(t *testing.T) {
	person := changed(func(in *driver.Input) { in.Person = true })
	approved := changed(func(in *driver.Input) { in.Approval = driver.ApprovalUser })
	for name, tc := range map[string]struct {
		in       driver.Input
		code     int
		declined bool
	}{
		"refused, person":    {person, -1, true},
		"refused, approval":  {approved, -1, true},
		"refused, auto":      {slot(), -1, false},
		"timeout, person":    {person, -32001, false},
		"no method, person":  {person, -32601, false},
		"internal, approval": {approved, -32603, false},
	} {
		t.Run(name, func(t *testing.T) {
			drivertest.EachWay(t, definition(), func(t *testing.T, d driver.Driver) {
				res, err := d.Capability.Interpret(t.Context(), driver.InterpretRequest{Input: tc.in, Client: sampler,
					ClientError: &driver.ClientError{Code: tc.code, Message: "user rejected"}})
				if err != nil || (res.Declined != nil) != tc.declined || (res.Unavailable != nil) == tc.declined {
					t.Errorf("Interpret = %+v, %v, want declined %v", res, err, tc.declined)
				}
			})
		})
	}
}

func TestContract(t *testing.T) {
	reply := func(raw string) driver.InterpretRequest {
		return driver.InterpretRequest{Input: slot(), Step: step, Client: sampler, Raw: json.RawMessage(raw)}
	}
	declined := driver.InterpretRequest{Input: changed(func(in *driver.Input) { in.Person = true }), Client: sampler,
		ClientError: &driver.ClientError{Code: -1, Message: "no"}}
	drivertest.Run(t, definition(),
		drivertest.Sample{Name: "evidence", Request: driver.RenderRequest{Input: slot(), Step: step, Client: sampler}, Want: drivertest.ClientRequest},
		drivertest.Sample{Name: "approval", Request: driver.RenderRequest{Input: driver.Input{ID: "approval", Kind: driver.KindApproval}, Client: sampler}, Want: drivertest.ClientReview},
		drivertest.Sample{Name: "answer", Request: reply(said(`{"slot":"9:00"}`)), Want: drivertest.Answer},
		drivertest.Sample{Name: "prose", Request: reply(said(`At nine.`)), Want: drivertest.NotAnswer},
		drivertest.Sample{Name: "refused", Request: declined, Want: drivertest.Declined},
	)
}

// Only a value of the strict schema is an answer.
func FuzzReply(f *testing.F) {
	for _, seed := range []string{said(`{"slot":"9"}`), said("```\n{}\n```"), `{"content":[{"type":"text","text":"{}"}]}`, `{"content":[[]]}`, `null`} {
		f.Add([]byte(seed))
	}
	strictSlot := json.RawMessage(`{"type":"object","properties":{"slot":{"type":"string"}},"required":["slot"],"additionalProperties":false}`)
	f.Fuzz(func(t *testing.T, raw []byte) {
		res, err := sampling{settings.New[config]()}.Interpret(t.Context(), driver.InterpretRequest{Input: slot(), Client: sampler, Raw: raw})
		if err != nil {
			t.Fatal(err)
		}
		if res.Answer != nil {
			if found := schema.Validate(strictSlot, res.Answer.Value); found != nil {
				t.Errorf("Interpret(%s) = %s: %v", raw, res.Answer.Value, found)
			}
		}
	})
}
