package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/drivertest"
	"github.com/kairos-mcp/kairos/sdk/fields"
)

const key = "sk-test-0123456789"

// endpoint is a chat endpoint whose behaviour is its function. It keeps the
// bodies of what it was asked.
type endpoint struct {
	*httptest.Server
	asked []map[string]any
	auth  string
}

func newEndpoint(t *testing.T, behave func(w http.ResponseWriter, r *http.Request, body map[string]any)) *endpoint {
	t.Helper()
	e := &endpoint{}
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		var body map[string]any
		if json.Unmarshal(raw, &body) != nil || r.URL.Path != "/v1/chat/completions" {
			http.Error(w, "not a chat request", http.StatusTeapot)
			return
		}
		e.asked, e.auth = append(e.asked, body), r.Header.Get("Authorization")
		behave(w, r, body)
	}))
	t.Cleanup(e.Close)
	return e
}

// driver is the driver, configured for the endpoint.
func (e *endpoint) driver(t *testing.T, more string) driver.Capability {
	t.Helper()
	t.Setenv("LLM_KEY", key)
	d := definition()
	configured := d.Capability.(driver.Configurer)
	config := fmt.Sprintf(`{"base_url":%q,"model":"m-1","api_key_env":"LLM_KEY"%s}`, e.URL+"/v1", more)
	if found, err := configured.Configure(t.Context(), json.RawMessage(config), false); err != nil || len(found) > 0 {
		t.Fatalf("Configure(%s) = %v, %v", config, found, err)
	}
	t.Cleanup(d.Capability.(llm).models.Close)
	return d.Capability
}

func says(text string) func(http.ResponseWriter, *http.Request, map[string]any) {
	return func(w http.ResponseWriter, _ *http.Request, _ map[string]any) {
		_ = json.NewEncoder(w).Encode(map[string]any{
			"model": "m-1-2026", "usage": map[string]any{"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15},
			"choices": []any{map[string]any{"message": map[string]any{"role": "assistant", "content": text}, "finish_reason": "stop"}},
		})
	}
}

func status(code int, message string) func(http.ResponseWriter, *http.Request, map[string]any) {
	return func(w http.ResponseWriter, r *http.Request, _ map[string]any) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Location", "http://127.0.0.1:1/elsewhere")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"message": message + r.Header.Get("Authorization")}})
	}
}

func evidence() driver.RenderRequest {
	return driver.RenderRequest{
		Input: driver.Input{
			ID: "evidence", Kind: driver.KindEvidence, Type: "comment", System: "Write a comment.", User: "The step: tidy up", MaxTokens: 300,
			Schema: json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}`),
		},
		Step: driver.Step{Protocol: "Report", Label: "Tidy up", Index: 1, Count: 1},
	}
}

func TestAnAnswerHasItsModelReasonAndCost(t *testing.T) {
	e := newEndpoint(t, says(`{"text":"tidied"}`))
	res, err := e.driver(t, `,"max_tokens":200`).Render(t.Context(), evidence())
	if err != nil {
		t.Fatal(err)
	}
	want := &driver.Answer{
		Value: json.RawMessage(`{"text":"tidied"}`), Provenance: driver.ModelGenerated, Model: "m-1-2026", StopReason: "stop",
		Usage: &driver.Usage{InputTokens: 12, OutputTokens: 3},
	}
	if diff := cmp.Diff(want, res.Answer); diff != "" {
		t.Errorf("Render (-want +got):\n%s", diff)
	}
	asked := e.asked[0]
	if e.auth != "Bearer "+key || asked["model"] != "m-1" || asked["max_tokens"] != 200.0 || asked["response_format"] == nil {
		t.Errorf("asked %v with %q, want the model, the key, the smaller limit and a format", asked, e.auth)
	}
}

func TestTheJudgesModelIsItsOwn(t *testing.T) {
	e := newEndpoint(t, says(`{"text":"fine"}`))
	d := e.driver(t, `,"judge_model":"judge-2"`)
	req := evidence()
	req.Input.Kind, req.Input.Temperature = driver.KindJudge, new(float64)
	if res, err := d.Render(t.Context(), req); err != nil || res.Answer == nil {
		t.Fatalf("Render = %+v, %v", res, err)
	}
	if asked := e.asked[0]; asked["model"] != "judge-2" || asked["temperature"] == nil || asked["temperature"].(float64) > 1e-6 {
		t.Errorf("asked %v, want the judge's model at temperature 0", asked)
	}
}

func TestAReplyThatIsNotAnAnswerIsRenderedAgain(t *testing.T) {
	for name, tc := range map[string]struct {
		behave func(http.ResponseWriter, *http.Request, map[string]any)
		why    string
	}{
		"prose":     {says(`Sure! {"text":"tidied"}`), "not JSON"},
		"extra key": {says(`{"text":"tidied","more":1}`), `unknown key "more"`},
		"empty":     {says(``), "empty"},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEndpoint(t, tc.behave)
			res, err := e.driver(t, "").Render(t.Context(), evidence())
			if err != nil || res.Invalid == nil || !strings.Contains(fields.Text(res.Invalid.Diagnostics), tc.why) {
				t.Errorf("Render = %+v, %v, want not an answer: %s", res, err, tc.why)
			}
		})
	}
}

func TestAnEndpointThatFailsIsUnavailableAndTheKeyIsNeverTold(t *testing.T) {
	for name, tc := range map[string]struct {
		behave func(http.ResponseWriter, *http.Request, map[string]any)
		why    string
	}{
		"busy":        {status(429, "slow down "), "429"},
		"broken":      {status(500, "oops "), "500"},
		"wrong key":   {status(401, "incorrect key: "), "incorrect key"},
		"long words":  {status(401, strings.Repeat("x", 290)), "401"},
		"moved":       {status(307, ""), "redirects are not followed"},
		"refuses all": {status(400, "no "), "400"},
		"hangs up":    {func(http.ResponseWriter, *http.Request, map[string]any) { panic(http.ErrAbortHandler) }, "EOF"},
		"garbage":     {func(w http.ResponseWriter, _ *http.Request, _ map[string]any) { fmt.Fprint(w, "<html>") }, "not JSON but text/html; charset=utf-8 (is the URL right?)"},
		"no choice":   {func(w http.ResponseWriter, _ *http.Request, _ map[string]any) { fmt.Fprint(w, `{"choices":[]}`) }, "no message"},
		"huge": {func(w http.ResponseWriter, _ *http.Request, _ map[string]any) {
			for range 10 {
				fmt.Fprint(w, strings.Repeat("x", 1<<20))
			}
		}, "more than"},
		"slow": {func(_ http.ResponseWriter, r *http.Request, _ map[string]any) {
			select {
			case <-r.Context().Done():
			case <-time.After(time.Minute):
			}
		}, "no answer within 100ms"},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEndpoint(t, tc.behave)
			more := ""
			if name == "slow" {
				more = `,"timeout":"100ms"`
			}
			res, err := e.driver(t, more).Render(t.Context(), evidence())
			if err != nil || res.Unavailable == nil || !strings.Contains(res.Unavailable.Reason, tc.why) {
				t.Fatalf("Render = %+v, %v, want unavailable: %s", res, err, tc.why)
			}
			if !res.Unavailable.Asked {
				t.Error("the request was sent and is not said to have been")
			}
			if strings.Contains(res.Unavailable.Reason, key[:8]) {
				t.Errorf("the reason tells the key: %s", res.Unavailable.Reason)
			}
		})
	}
}

func TestAnEndpointThatNothingWasSentToCostsNothing(t *testing.T) {
	e := newEndpoint(t, says(`{"text":"tidied"}`))
	d := e.driver(t, "")
	e.Close()
	res, err := d.Render(t.Context(), evidence())
	if err != nil || res.Unavailable == nil || res.Unavailable.Asked {
		t.Errorf("Render = %+v, %v, want unavailable and nothing asked", res, err)
	}
}

func TestAnEndpointThatKnowsNoFormatIsAskedWithout(t *testing.T) {
	e := newEndpoint(t, func(w http.ResponseWriter, r *http.Request, body map[string]any) {
		if body["response_format"] != nil {
			status(400, "response_format is not supported")(w, r, body)
			return
		}
		says(`{"text":"tidied"}`)(w, r, body)
	})
	if res, err := e.driver(t, "").Render(t.Context(), evidence()); err != nil || res.Answer == nil || len(e.asked) != 2 {
		t.Errorf("Render = %+v, %v after %d requests, want an answer to the second", res, err, len(e.asked))
	}
}

func TestWhatAModelMustNotGiveIsNotAsked(t *testing.T) {
	e := newEndpoint(t, says(`{"text":"tidied"}`))
	d := e.driver(t, "")
	for name, change := range map[string]func(*driver.Input){
		"a person's own": func(in *driver.Input) { in.Person = true },
		"a secret":       func(in *driver.Input) { in.Sensitive = true },
		"an approval":    func(in *driver.Input) { in.Kind = driver.KindApproval },
		"files":          func(in *driver.Input) { in.Kind = driver.KindFiles },
	} {
		req := evidence()
		change(&req.Input)
		if res, err := d.Render(t.Context(), req); err != nil || res.Unavailable == nil || len(e.asked) > 0 {
			t.Errorf("%s: Render = %+v, %v, %d requests; want unavailable and none", name, res, err, len(e.asked))
		}
	}
}

func TestWrongSettingsAreNamed(t *testing.T) {
	for name, tc := range map[string]struct{ config, why string }{
		"no model":      {`{"base_url":"http://127.0.0.1:1/v1"}`, "/model"},
		"password":      {`{"base_url":"http://a:secret@127.0.0.1:1/v1","model":"m"}`, "holds a name or password"},
		"no URL":        {`{"base_url":"127.0.0.1:1","model":"m"}`, "/base_url"},
		"key not there": {`{"base_url":"http://127.0.0.1:1/v1","model":"m","api_key_env":"NO_SUCH_KEY"}`, "/api_key_env"},
	} {
		found, err := definition().Capability.(driver.Configurer).Configure(t.Context(), json.RawMessage(tc.config), true)
		if err != nil || !strings.Contains(fields.Text(found), tc.why) || strings.Contains(fields.Text(found), "secret") {
			t.Errorf("%s: Configure = %v, %v, want %s", name, found, err, tc.why)
		}
	}
}

func TestContract(t *testing.T) {
	person := evidence()
	person.Input.Person = true
	drivertest.Run(t, definition(),
		drivertest.Sample{Name: "not configured", Request: evidence(), Want: drivertest.Unavailable},
		drivertest.Sample{Name: "a person's own", Request: person, Want: drivertest.Unavailable},
		drivertest.Sample{Name: "reply", Request: driver.InterpretRequest{Input: evidence().Input, Raw: json.RawMessage(`{"text":"made up"}`)}, Want: drivertest.Unavailable},
	)
}
