package terminal_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/terminal"
)

// calling is a scene with one step that needs a call of the tool.
func calling(display, passes string) scene {
	return scene{Steps: []act{{Type: "mcp", Name: "Call", Description: "Call it.", Display: json.RawMessage(display), Passes: passes}}}
}

func TestAToolServerThatFailsEndsTheRunAndSaysWhy(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	server := func(mode string) terminal.Servers {
		return terminal.Servers{"tools": {Command: self, Env: map[string]string{toolsEnv: mode}}}
	}
	for name, tc := range map[string]struct {
		servers terminal.Servers
		tool    string
		want    string
	}{
		"no such program":     {terminal.Servers{"tools": {Command: "/nowhere/tools"}}, "book", "no such file"},
		"ends at once":        {server(toolsExit), "book", `MCP server "tools": start: the program ended with exit code 3 before it answered`},
		"never answers":       {server(toolsHang), "book", "no answer within 300ms"},
		"ends during a call":  {server("1"), "crash", "the connection broke before there was a reply that can be read; whether the call was carried out is not known"},
		"a call without end":  {server("1"), "wait", "no answer within 300ms; whether the call was carried out is not known"},
		"has no such tool":    {server("1"), "dance", `none of the MCP servers has the tool "dance" (KAIROS, tools)`},
		"nobody was started":  {nil, "book", "--with-servers"},
		"one of two is wrong": {terminal.Servers{"a": server("1")["tools"], "b": {Command: "/nowhere/b"}}, "book", `MCP server "b"`},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config(t, calling(`{"tool_name":"`+tc.tool+`","arguments":{"ok":true}}`, "success"))
			var out bytes.Buffer
			cfg.Servers, cfg.Without, cfg.In, cfg.Out = tc.servers, []string{"sampling", "elicitation"}, strings.NewReader("y\n"), &out
			cfg.StartTimeout, cfg.CallTimeout = 20*time.Second, 300*time.Millisecond
			if name == "never answers" {
				cfg.StartTimeout = 300 * time.Millisecond
			}
			res, err := play(t, cfg)
			if !strings.Contains(fmt.Sprint(err), tc.want) || !strings.Contains(fmt.Sprint(err), `step "Call"`) {
				t.Errorf("Play error = %v, want the step and %q\n%s", err, tc.want, &out)
			}
			if len(res.Solved) != 0 || res.Attested {
				t.Errorf("Play = %+v, want nothing solved", res)
			}
		})
	}
}

// A person who did not accept that KAIROS calls a tool is told that this is why nobody
// calls it.
func TestAToolThatKAIROSMayNotCallIsNamedWithWhatAllowsIt(t *testing.T) {
	for typed, want := range map[string]string{
		"no":     "you did not accept that KAIROS calls the tool \"book\", and no other server with it was started: accept it with `kairos accept --run run-1`",
		"always": "no MCP server with the tool \"book\" was started",
	} {
		t.Run(typed, func(t *testing.T) {
			s := calling(`{"tool_name":"book","arguments":{"ok":true}}`, "success")
			s.Steps = append(asking(acceptForm, `"accept"`).Steps, s.Steps...)
			cfg := config(t, s)
			var out bytes.Buffer
			cfg.Servers, cfg.Without, cfg.In, cfg.Out = nil, []string{"sampling"}, strings.NewReader(typed+"\n"), &out
			_, err := play(t, cfg)
			if !strings.Contains(fmt.Sprint(err), want) || !strings.Contains(fmt.Sprint(err), "--with-servers") {
				t.Errorf("Play error = %v, want %q\n%s", err, want, &out)
			}
		})
	}
}

func TestAToolServerAtAnAddressIsCalledWithItsHeaders(t *testing.T) {
	handler := server.NewStreamableHTTPServer(toolServer(), server.WithStateLess(true))
	at := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer token" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	defer http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	defer at.Close()
	for token, want := range map[string]string{"Bearer token": "", "Bearer other": "it demands a login"} {
		cfg := config(t, calling(`{"tool_name":"tools.book","arguments":{"ok":true}}`, "success"))
		cfg.Servers = terminal.Servers{"tools": {URL: at.URL, Headers: map[string]string{"Authorization": token}}}
		cfg.Without, cfg.In = []string{"sampling", "elicitation"}, strings.NewReader("y\n")
		res, err := play(t, cfg)
		if want == "" && (err != nil || !res.Verified) || want != "" && !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%s: Play = %+v, %v, want %q", token, res, err, want)
		}
	}
}

// A float64 has 53 bits for digits, and ids of other systems have more.
func TestLargeIntegersKeepAllTheirDigits(t *testing.T) {
	const id = "9007199254740993"
	for name, tc := range map[string]struct{ display, typed, id string }{
		"of the challenge":    {`{"tool_name":"number","arguments":{"id":` + id + `}}`, "y\n", id},
		"typed into a field":  {`{"tool_name":"number","arguments":{}}`, id + "\ny\n", id},
		"the field's default": {`{"tool_name":"number","arguments":{}}`, "\ny\n", "2000000"},
		"edited":              {`{"tool_name":"number","arguments":{"id":1}}`, "e\n{\"id\":" + id + "}\n", id},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config(t, calling(tc.display, ""))
			var out bytes.Buffer
			cfg.Without, cfg.In, cfg.Out = []string{"sampling", "elicitation"}, strings.NewReader(tc.typed), &out
			if res, err := play(t, cfg); err != nil || !res.Verified {
				t.Fatalf("Play = %+v, %v\n%s", res, err, &out)
			}
			for _, want := range []string{`number({"id":` + tc.id + `})`, `\"arguments\":{\"id\":` + tc.id + `}`, `"id":9007199254740995`} {
				if !strings.Contains(out.String(), want) {
					t.Errorf("Play printed no %s:\n%s", want, &out)
				}
			}
		})
	}
}

func TestArgumentsThatAreMissingAreAskedForOneByOne(t *testing.T) {
	const known = `{"tool_name":"order","arguments":{"note":"soon"}}`
	for name, tc := range map[string]struct {
		display, typed string
		passes, stop   string
		shown          []string
	}{
		"all are known": {
			display: `{"tool_name":"order","arguments":{"who":["Adam"],"count":1,"where":[],"note":"soon"}}`, typed: "y\n",
			passes: `"arguments":{"count":1,"note":"soon","where":[],"who":["Adam"]}`,
		},
		"three are missing": {
			display: known, typed: "Adam, Betty\n9\n3\nhere\n{\"room\":1234}\ny\n",
			passes: `"arguments":{"count":3,"note":"soon","where":{"room":1234},"who":["Adam","Betty"]}`,
			shown: []string{
				"who [separated by commas]:", "count [a whole number]:", "at most 5", "where: the place [as JSON]:", "not JSON",
				`with {"count":3,"note":"soon","where":{"room":1234},"who":["Adam","Betty"]}`,
			},
		},
		"none are stated": {
			display: `{"tool_name":"order"}`, typed: "Adam\n3\n[]\nsoon\ny\n",
			passes: `"arguments":{"count":3,"note":"soon","where":[],"who":["Adam"]}`, shown: []string{"takes an order"},
		},
		"nothing is needed":      {display: `{"tool_name":"book"}`, typed: "y\n", passes: `"arguments":{}`},
		"declines an argument":   {display: known, typed: "Adam\n:decline\n", stop: terminal.StopRefused},
		"refuses the whole call": {display: known, typed: "Adam\n3\n[]\nr\n", stop: terminal.StopRefused},
		"changes what they said": {
			display: known, typed: "Adam\n3\n[]\ne\nnonsense\n{\"note\":\"late\"}\n",
			passes: `"arguments":{"note":"late"}`, shown: []string{"not a JSON object"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config(t, calling(tc.display, tc.passes))
			var out bytes.Buffer
			cfg.Without, cfg.In, cfg.Out = []string{"sampling", "elicitation"}, strings.NewReader(tc.typed), &out
			res, err := play(t, cfg)
			if tc.stop == "" && (err != nil || !res.Verified) || tc.stop != "" && stopCode(err) != tc.stop {
				t.Errorf("Play = %+v, %v, want %q\n%s", res, err, tc.stop, &out)
			}
			for _, text := range tc.shown {
				if !strings.Contains(out.String(), text) {
					t.Errorf("not shown: %q in\n%s", text, &out)
				}
			}
		})
	}
}

func TestParseSidecar(t *testing.T) {
	for name, tc := range map[string]struct {
		text  string
		want  terminal.Servers
		wrong string
	}{
		"whole":              {text: `{"mcpServers":{"c":{"command":"../bin/c","args":["--state","c.json"],"env":{"A":"b"}}}}`, want: terminal.Servers{"c": {Command: "../bin/c", Args: []string{"--state", "c.json"}, Env: map[string]string{"A": "b"}}}},
		"empty":              {text: ``, wrong: "empty"},
		"not JSON":           {text: `{"mcpServers":`, wrong: "JSON"},
		"a list":             {text: `[]`, wrong: "array"},
		"two documents":      {text: `{"mcpServers":{"c":{"command":"c"}}}{}`, wrong: "follows"},
		"a name twice":       {text: `{"mcpServers":{"c":{"command":"c"},"c":{"command":"d"}}}`, wrong: "twice"},
		"no server":          {text: `{"mcpServers":{}}`, wrong: "names no server"},
		"unknown key":        {text: `{"mcpServers":{"c":{"command":"c"}},"allowAutoSampling":["KAIROS"]}`, wrong: "allowAutoSampling"},
		"unknown field":      {text: `{"mcpServers":{"c":{"command":"c","cwd":"/"}}}`, wrong: "cwd"},
		"no command":         {text: `{"mcpServers":{"c":{"args":["x"]}}}`, wrong: "mcpServers.c: it needs either a command or a url"},
		"over HTTP":          {text: `{"mcpServers":{"c":{"url":"http://127.0.0.1/mcp"}}}`, want: terminal.Servers{"c": {URL: "http://127.0.0.1/mcp"}}},
		"with headers":       {text: `{"mcpServers":{"c":{"url":"http://127.0.0.1/mcp","headers":{"A":"b"}}}}`, wrong: "headers"},
		"a variable in url":  {text: `{"mcpServers":{"c":{"url":"http://${HOST}/mcp"}}}`, wrong: "variables"},
		"a variable":         {text: `{"mcpServers":{"c":{"command":"c","args":["${HOME}"]}}}`, wrong: "variables"},
		"in the environment": {text: `{"mcpServers":{"c":{"command":"c","env":{"A":"${TOKEN:-x}"}}}}`, wrong: "variables"},
		"too large":          {text: strings.Repeat(" ", terminal.MaxSidecar+1), wrong: "larger than"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := terminal.ParseSidecar([]byte(tc.text))
			if tc.wrong != "" && !strings.Contains(fmt.Sprint(err), tc.wrong) || tc.wrong == "" && err != nil {
				t.Errorf("ParseSidecar error = %v, want %q", err, tc.wrong)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRelativeCommandsBeginAtTheFoldersOfTheirFile(t *testing.T) {
	got := terminal.Servers{"a": {Command: "../bin/a"}, "b": {Command: "b"}, "c": {Command: "/bin/c"}}.Below("/p/examples")
	if diff := cmp.Diff(terminal.Servers{"a": {Command: "/p/bin/a"}, "b": {Command: "b"}, "c": {Command: "/bin/c"}}, got); diff != "" {
		t.Error(diff)
	}
}
