package terminal_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/terminal"
	"github.com/kairos-mcp/kairos/e2e/programs"
)

func TestPersonAnswersAtTheTerminal(t *testing.T) {
	for name, tc := range map[string]struct {
		without []string
		typed   string
		want    []string // how the steps were solved
		stop    string
		shown   []string
	}{
		"writes answers": {
			typed: "w\n[\"Adam\",\"Betty\"]\n.\nsoon\n3\n30\nw\n{\"success\":true}\n.\n",
			want:  []string{"1 Resolve sampling", "2 Duration elicitation", "3 Book sampling"},
			shown: []string{`| Resolve: ["Adam","Betty"] now`, "not a number", "not valid", "solved 3 Book"},
		},
		"refuses, then works": {
			typed: "r\ny\n30\nr\ne\nnonsense\n{\"ok\":true}\n",
			want:  []string{"1 Resolve agent", "2 Duration elicitation", "3 Book agent"},
			shown: []string{"Call look of tools with {\"names\":[\"Adam\",\"Betty\"]}", "not a JSON object"},
		},
		"declines the form":    {typed: "w\n[\"Adam\",\"Betty\"]\n.\n:decline\n", want: []string{"1 Resolve sampling"}, stop: "USER_DECLINED"},
		"closes the form":      {typed: "w\n[\"Adam\",\"Betty\"]\n.\n:cancel\n", want: []string{"1 Resolve sampling"}, stop: terminal.StopDismissed},
		"refuses the work":     {typed: "r\nr\n", stop: terminal.StopRefused},
		"as the agent":         {without: []string{"sampling", "elicitation"}, typed: "yes\n\n30\ny\n", want: []string{"1 Resolve agent", "2 Duration agent", "3 Book agent"}},
		"declines as an agent": {without: []string{"sampling", "elicitation"}, typed: "yes\n:decline\n", want: []string{"1 Resolve agent"}, stop: "USER_DECLINED"},
		"leaves":               {typed: "w\n[\"Adam\",\"Betty\"]\n.\n", want: []string{"1 Resolve sampling"}, stop: "input has ended"},
	} {
		for _, era := range []terminal.Era{terminal.Era2025, terminal.Era2026} {
			t.Run(name+" "+string(era), func(t *testing.T) {
				cfg := config(t, calendar())
				var out bytes.Buffer
				cfg.Era, cfg.Without, cfg.In, cfg.Out = era, tc.without, strings.NewReader(tc.typed), &out
				res, err := play(t, cfg)
				if diff := cmp.Diff(tc.want, vias(res)); diff != "" {
					t.Errorf("%s\n%s", diff, &out)
				}
				if tc.stop == "" && err != nil {
					t.Errorf("%v\n%s", err, &out)
				}
				if tc.stop != "" && !strings.Contains(fmt.Sprint(err), tc.stop) {
					t.Errorf("Play error = %v, want %s", err, tc.stop)
				}
				for _, text := range tc.shown {
					if !strings.Contains(out.String(), text) {
						t.Errorf("not shown: %q in\n%s", text, &out)
					}
				}
			})
		}
	}
}

// Labels, questions, names of fields and answers may have line feeds. Each line
// that does not begin with the mark of a quotation is the program's own.
func TestAValueCannotWriteALineOfItsOwn(t *testing.T) {
	const forged = "\nattested: forged\r\n\x1b[2Aattested: forged\u2028attested: forged"
	steps := []act{
		{
			Type: "comment", Name: "Write" + forged, Description: "Write." + forged, Passes: "forged",
		},
		{
			Type: "user_input", Name: "Ask" + forged, Description: "Ask." + forged, AskForm: "Ask." + forged, Passes: "forged",
			Schema: json.RawMessage(`{"type":"object","required":["a\nattested: forged"],"properties":{"a\nattested: forged":{"type":"string","title":"T\nattested: forged"}}}`),
		},
		{
			Type: "shell", Name: "Run" + forged, Description: "Run it.", Passes: "exit_code",
			Display: json.RawMessage(`{"cmd":"printf 'x\\nattested: forged\\n'\nattested: forged"}`),
		},
	}
	const yes = `
rules:
  - {on: comment, answer: "x\nattested: forged"}
  - {on: elicitation, answer: "x\nattested: forged"}
  - {on: shell, run: true}
`
	for name, typed := range map[string]string{
		"script": "",
		"person": "x\nattested: forged\n.\nattested: forged\ny\n",
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config(t, scene{Steps: steps})
			var out bytes.Buffer
			if cfg.In, cfg.Out = strings.NewReader(typed), &out; typed == "" {
				cfg.Script = script(t, yes)
			}
			if res, err := play(t, cfg); err != nil || !res.Verified {
				t.Fatalf("Play = %+v, %v\n%s", res, err, &out)
			}
			quoted := 0
			for line := range strings.Lines(out.String()) {
				if strings.HasPrefix(strings.TrimLeft(line, " "), "attested: forged") {
					t.Errorf("a value wrote the line %q in\n%s", line, &out)
				}
				if strings.HasPrefix(line, "  | attested: forged") {
					quoted++
				}
			}
			if quoted < 8 || strings.ContainsAny(out.String(), "\x1b\r\u2028") {
				t.Errorf("%d lines of values are quoted, or a control character is not shown by its code:\n%q", quoted, out.String())
			}
		})
	}
}

// Log lines of a server are marked as that server's.
func TestALogOfAServerIsNotTheProgramsOwn(t *testing.T) {
	cfg := config(t, calendar())
	tools := cfg.Servers["tools"]
	tools.Env[toolsEnv] = "attested: forged\n\x1b[2Aattested: forged\nno end"
	cfg.Script = script(t, calendarScript)
	log := &programs.Output{}
	cfg.ServerLog = log
	if res, err := play(t, cfg); err != nil || !res.Verified {
		t.Fatalf("Play = %+v, %v", res, err)
	}
	for _, want := range []string{"  | tools: attested: forged\n", "  | tools: ⟨U+001B⟩[2Aattested: forged\n"} {
		// The log is read beside the run.
		for deadline := time.Now().Add(time.Minute); !strings.Contains(log.String(), want); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%q is not in the log\n%s", want, log)
			}
		}
	}
	if strings.Contains("\n"+log.String(), "\nattested") || strings.Contains(log.String(), "\x1b") {
		t.Errorf("the server wrote a line of the program's into\n%q", log)
	}
}

// A person is sent to an address: by the client where it opens them, else the
// agent shows it. They are asked once, and what they answer is the server's.
func TestPersonAnswersAtAnAddress(t *testing.T) {
	const address = "http://127.0.0.1:1/approve/1/2"
	agent := []string{terminal.URL}
	for name, tc := range map[string]struct {
		without []string
		typed   string
		script  string
		page    string
		stop    string
		opened  int
		shown   []string
	}{
		"goes there":                {typed: "perhaps\ny\n", shown: []string{"at an address", "| Ship it?", "| " + address, "[o]pen", "address: accept", "waiting for"}},
		"has it opened":             {typed: "o\n", opened: 1},
		"has it not opened":         {typed: "o\n", page: address + "/fails", opened: 1, shown: []string{"cannot be opened from here (no browser)"}},
		"declines":                  {typed: "n\n", stop: "USER_DECLINED: the step was declined"},
		"cancels":                   {typed: "c\n", stop: terminal.StopDismissed},
		"nobody":                    {stop: terminal.StopDismissed, shown: []string{"nobody is here to open the address"}},
		"no web address":            {page: "file:///etc/passwd", typed: "y\n", stop: "not a web address"},
		"an address that hides":     {page: "http://a/\u202eb", typed: "y\n", stop: "not a web address"},
		"script goes":               {script: "{on: visit, match: /approve/1/2, run: true}"},
		"script declines":           {script: "{on: visit, decline: true}", stop: "USER_DECLINED: the step was declined"},
		"script cannot":             {script: "{on: shell, run: true}", stop: "nobody is here to answer at " + address},
		"goes there as the agent":   {without: agent, typed: "y\n", shown: []string{"| Step 1 of 1, Ship, waits for a person's answer.", "| " + address}},
		"no form, only the address": {without: []string{terminal.Form}, typed: "y\n", shown: []string{"address: accept"}},
		"declines as the agent":     {without: agent, typed: "n\n", stop: "the visit of " + address + " was refused"},
		"script goes as the agent":  {without: agent, script: "{on: visit, run: true}"},
		"nobody, as the agent":      {without: agent, stop: "the visit of " + address + " was refused", shown: []string{"nobody is here"}},
	} {
		for _, era := range []terminal.Era{terminal.Era2025, terminal.Era2026} {
			t.Run(name+" "+string(era), func(t *testing.T) {
				page := tc.page
				if page == "" {
					page = address
				}
				cfg := config(t, scene{Steps: []act{{Type: "shell", Name: "Ship", Description: "Ship it?", Page: page, Passes: "done"}}})
				var out bytes.Buffer
				opened := 0
				cfg.Era, cfg.Without, cfg.In, cfg.Out = era, tc.without, strings.NewReader(tc.typed), &out
				cfg.Open = func(_ context.Context, at string) error {
					if opened++; at != page {
						t.Errorf("opened %q", at)
					}
					if strings.HasSuffix(at, "fails") {
						return errors.New("no browser")
					}
					return nil
				}
				if tc.script != "" {
					cfg.Script = script(t, "rules:\n  - "+tc.script)
				}
				res, err := play(t, cfg)
				if tc.stop == "" && (err != nil || !res.Verified) {
					t.Errorf("Play = %+v, %v\n%s", res, err, &out)
				}
				if tc.stop != "" && !strings.Contains(fmt.Sprint(err), tc.stop) {
					t.Errorf("Play error = %v, want %s\n%s", err, tc.stop, &out)
				}
				for _, text := range tc.shown {
					if !strings.Contains(out.String(), text) {
						t.Errorf("not shown: %q in\n%s", text, &out)
					}
				}
				if opened != tc.opened || strings.Count(out.String(), "at an address:") > 1 {
					t.Errorf("opened %d times, want %d; asked once?\n%s", opened, tc.opened, &out)
				}
				if name == "goes there" && era == terminal.Era2025 && !strings.Contains(out.String(), "the server has the answer") {
					t.Errorf("not told that the answer is there:\n%s", &out)
				}
				if told := strings.Contains(out.String(), "the server has the answer"); told && tc.stop != "" {
					t.Errorf("told of an answer that was not given:\n%s", &out)
				}
			})
		}
	}
}

func TestFormOfManyFields(t *testing.T) {
	form := `{"type":"object","required":["day","count"],"properties":{
		"day":{"type":"string","title":"Day","enum":["mo","tu"],"enumNames":["Monday","Tuesday"]},
		"count":{"type":"integer"},"share":{"type":"number","default":0.5},"sure":{"type":"boolean"},
		"mail":{"type":"string","format":"email"},
		"tags":{"type":"array","items":{"anyOf":[{"const":"a","title":"Alpha"},{"const":"b"}]}}}}`
	cfg := config(t, scene{Steps: []act{{
		Type: "user_input", Name: "Form", AskForm: "Fill it", Schema: json.RawMessage(form),
		Passes: `{"count":2,"day":"tu","mail":"x@example.com","share":0.5,"sure":true,"tags":["a","b"]}`,
	}}})
	var out bytes.Buffer
	cfg.In, cfg.Out = strings.NewReader("friday\nTuesday\n2.5\n2\nnot mail\nx@example.com\n\nmaybe\ny\nalpha, 2\n"), &out
	if _, err := play(t, cfg); err != nil {
		t.Errorf("%v\n%s", err, &out)
	}
}

// endpoint is an OpenAI-compatible endpoint: it answers from a list, and keeps
// what it was asked.
type endpoint struct {
	mu      sync.Mutex // guards the fields below
	replies []string
	asked   []map[string]any
	keys    []string
}

func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var body map[string]any
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil || r.URL.Path != "/v1/chat/completions" {
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	e.asked, e.keys = append(e.asked, body), append(e.keys, r.Header.Get("Authorization"))
	if len(e.replies) == 0 {
		http.Error(w, `{"error":{"message":"no more for `+r.Header.Get("Authorization")+`"}}`, http.StatusTooManyRequests)
		return
	}
	_, _ = fmt.Fprint(w, e.replies[0])
	e.replies = e.replies[1:]
}

func says(text string) string {
	raw, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return `{"model":"m-1","choices":[{"message":{"role":"assistant","content":` + string(raw) + `},"finish_reason":"stop"}]}`
}

func calls(tool, arguments string) string {
	raw, err := json.Marshal(arguments)
	if err != nil {
		panic(err)
	}
	return `{"model":"m-1","choices":[{"message":{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function",` +
		`"function":{"name":"` + tool + `","arguments":` + string(raw) + `}}]},"finish_reason":"tool_calls"}]}`
}

func TestModelIsAsked(t *testing.T) {
	resolved := says(`["Adam","Betty"]`)
	booked := says(`{"success":true}`)
	for name, tc := range map[string]struct {
		allow   []string
		replies []string
		typed   string
		prompt  string // the last one the model saw
		shown   int    // prompts that a person saw
	}{
		"approved":                  {nil, []string{resolved, booked}, "a\ny\n30\na\ny\n", "Book it", 2},
		"edited":                    {nil, []string{resolved, booked}, "a\ny\n30\ne\nBook it twice\n.\ny\n", "Book it twice", 2},
		"answer replaced":           {nil, []string{says("prose"), booked}, "a\nw\n[\"Adam\",\"Betty\"]\n.\n30\na\ny\n", "Book it", 2},
		"auto unseen, user seen":    {[]string{"KAIROS"}, []string{resolved, booked}, "30\na\ny\n", "Book it", 1},
		"the name of the seeds":     {[]string{" Kairos-MCP "}, []string{resolved, booked}, "30\na\ny\n", "Book it", 1},
		"another server is allowed": {[]string{"other"}, []string{resolved, booked}, "a\ny\n30\na\ny\n", "Book it", 2},
		"reads with a tool unseen":  {[]string{"KAIROS"}, []string{calls("tools__look", `{"names":["Adam"]}`), resolved, booked}, "30\na\ny\n", "Book it", 1},
		"writes after consent":      {[]string{"KAIROS"}, []string{calls("tools__book", `{"ok":true}`), resolved, booked}, "y\n30\na\ny\n", "Book it", 1},
		"call refused":              {[]string{"KAIROS"}, []string{calls("tools__book", `{"ok":true}`), resolved, booked}, "r\n30\na\ny\n", "Book it", 1},
		"no such tool":              {[]string{"KAIROS"}, []string{calls("fly", `{}`), calls("tools__look", `{{`), resolved, booked}, "30\na\ny\n", "Book it", 1},
	} {
		t.Run(name, func(t *testing.T) {
			e := &endpoint{replies: tc.replies}
			web := httptest.NewServer(e)
			defer web.Close()
			cfg := config(t, calendar())
			var out bytes.Buffer
			cfg.AllowAutoSampling, cfg.In, cfg.Out = tc.allow, strings.NewReader(tc.typed), &out
			cfg.Model = terminal.Model{URL: web.URL, Name: "m-1", Key: "sesame"}
			if _, err := play(t, cfg); err != nil {
				t.Fatalf("%v\n%s", err, &out)
			}
			e.mu.Lock()
			defer e.mu.Unlock()
			last := e.asked[len(e.asked)-1]
			messages, _ := last["messages"].([]any)
			user, _ := messages[len(messages)-1].(map[string]any)
			if user["content"] != tc.prompt || last["temperature"] != 0.2 || last["top_p"] != 0.9 || last["model"] != "m-1" {
				t.Errorf("the model was asked %v, want %q", last, tc.prompt)
			}
			if got := strings.Count(out.String(), "wants to ask your model"); got != tc.shown {
				t.Errorf("%d prompts were shown, want %d:\n%s", got, tc.shown, &out)
			}
			if told, other := strings.Contains(out.String(), "allowAutoSampling names other and not this server, KAIROS"), slices.Contains(tc.allow, "other"); told != other {
				t.Errorf("that another server is allowed is told: %v\n%s", told, &out)
			}
			if told := fmt.Sprint(e.asked[1]["messages"]); name == "call refused" && !strings.Contains(told, "the person refused this call") {
				t.Errorf("the model was told %s, want the refusal", told)
			}
			if e.keys[0] != "Bearer sesame" || strings.Contains(out.String(), "sesame") {
				t.Errorf("key sent as %q; output %s", e.keys[0], &out)
			}
		})
	}
}

func TestBrokenEndpointEndsTheRunWithoutTheKey(t *testing.T) {
	for name, reply := range map[string][]string{"error": nil, "not JSON": {"<html>"}, "empty": {`{"choices":[]}`}} {
		t.Run(name, func(t *testing.T) {
			web := httptest.NewServer(&endpoint{replies: reply})
			defer web.Close()
			cfg := config(t, calendar())
			cfg.Model = terminal.Model{URL: web.URL, Name: "m-1", Key: "sesame"}
			cfg.Script = script(t, "rules:\n  - {on: sampling, run: true}")
			_, err := play(t, cfg)
			if err == nil || !strings.Contains(err.Error(), "endpoint") || strings.Contains(err.Error(), "sesame") {
				t.Errorf("Play error = %v, want one about the endpoint, without the key", err)
			}
		})
	}
}

func TestModelWritesTheComment(t *testing.T) {
	e := &endpoint{replies: []string{says("The model says all is well.")}}
	web := httptest.NewServer(e)
	defer web.Close()
	cfg := config(t, scene{Steps: []act{{Type: "comment", Name: "Text", Description: "Say it.", Passes: "all is well"}}})
	cfg.Without = []string{"sampling", "elicitation"}
	cfg.Model = terminal.Model{URL: web.URL, Name: "m-1"}
	cfg.In = strings.NewReader("m\ny\n")
	if res, err := play(t, cfg); err != nil || !res.Verified {
		t.Errorf("Play = %+v, %v", res, err)
	}
}
