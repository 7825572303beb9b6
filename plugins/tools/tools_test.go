package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/kairos-mcp/kairos/internal/mcpclient"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// The person who approves reads the plan a line at a time.
func TestAnArgumentCannotLookLikeAnother(t *testing.T) {
	for arguments, want := range map[string]string{
		`{"title":"Talk","n":2,"none":""}`:    "\n  n: 2\n  none: \"\"\n  title: Talk",
		`{"title":"Talk\n  start: 11:30"}`:    "\n  title: \"Talk\\n  start: 11:30\"",
		`{"title":"\u2028start: 11:30"}`:      `"\u2028start: 11:30"`,
		`{"title":"\u202e03:11 :trats"}`:      `"\u202e03:11 :trats"`,
		`{"title":" start: 11:30"}`:           `title: " start: 11:30"`,
		`{"start: 11:30\n  title":"Talk"}`:    `"start: 11:30\n  title": Talk`,
		`{"at":{"start":"11:30\n  end: 12"}}`: `at: {"start":"11:30\n  end: 12"}`,
	} {
		if text := (plan{Server: "calendar", Tool: "create", Arguments: json.RawMessage(arguments)}).text(); !strings.Contains(text, want) {
			t.Errorf("%s is shown as %q, want %q in it", arguments, text, want)
		}
	}
}

func TestWhatIsPlannedIsCalledOnceWithItsKey(t *testing.T) {
	c := newCounter(t, mcpclient.Changes)
	p := c.plan(countByTwo)
	if p.Effect != driver.EffectChanges || p.Text != "Call the tool count of counter with\n  by: 2" {
		t.Errorf("plan = %+v", p)
	}
	if len(c.calls()) > 0 {
		t.Fatal("a preview called the tool")
	}
	res := c.render(t.Context(), p)
	if res.Answer == nil || res.Answer.Provenance != driver.ServerObserved {
		t.Fatalf("Render = %+v", res)
	}
	var got struct {
		Tool      string          `json:"tool_name"`
		Success   bool            `json:"success"`
		Arguments json.RawMessage `json:"arguments"`
		Result    struct {
			Count  int    `json:"count"`
			Secret string `json:"secret"`
		} `json:"result"`
	}
	if err := json.Unmarshal(res.Answer.Value, &got); err != nil {
		t.Fatal(err)
	}
	if got.Tool != "count" || !got.Success || string(got.Arguments) != `{"by":2}` || got.Result.Count != 1 {
		t.Errorf("the answer is %s", res.Answer.Value)
	}
	if calls := c.calls(); len(calls) != 1 || calls[0] != "key-1" {
		t.Errorf("calls with the keys %q, want one", calls)
	}
}

func TestFaultsOfServersAreToldAndNothingIsRepeated(t *testing.T) {
	for behaviour, want := range map[string]struct {
		said    string
		unknown bool // for a tool that changes something
		calls   int
	}{
		"ends at once":          {said: "ended with exit code 3 before it answered: is it an MCP server"},
		"refuses":               {said: "it did not answer as an MCP server does; `kairos tools check counter` shows what it said"},
		"lists nothing":         {said: "it did not list them; `kairos tools check counter` shows what it said"},
		"lists for ever":        {said: "they take more than 100 pages"},
		"odd names":             {said: "a tool has another name than 1 to 128 letters"},
		"malformed":             {said: "a message is not JSON"},
		"silent":                {said: "no answer within"},
		"another schema":        {said: "TOOL_CHANGED: the input_schema of the tool count"},
		"another description":   {calls: 1},
		"ends in the call":      {said: "call count", unknown: true, calls: 1},
		"hangs in the call":     {said: "call count", unknown: true, calls: 1},
		"malformed in the call": {said: "a message is not JSON", unknown: true, calls: 1},
		"no result of a tool":   {said: "the reply is not the result of a tool", unknown: true, calls: 1},
		"floods":                {said: "larger than", unknown: true, calls: 1},
		"fails":                 {calls: 1},
	} {
		for _, class := range []mcpclient.Class{mcpclient.Reads, mcpclient.Changes} {
			t.Run(behaviour+", "+string(class), func(t *testing.T) {
				t.Parallel() // it mostly waits
				c := newCounter(t, class)
				c.becomes(behaviour)
				if strings.HasPrefix(want.said, "no answer") {
					c.start = "300ms"
				}
				if behaviour == "hangs in the call" {
					c.timeout = "12s" // half of it is for the list
				}
				c.configure()
				res := c.render(t.Context(), c.plan(countByTwo))
				said := ""
				switch {
				case res.Unavailable != nil:
					said = res.Unavailable.Reason
				case res.Unknown != nil:
					said = res.Unknown.Reason
				}
				if (res.Answer != nil) != (want.said == "") || !strings.Contains(said, want.said) {
					t.Errorf("Render = %+v (%s), want %q", res, said, want.said)
				}
				if res.Answer != nil && strings.Contains(string(res.Answer.Value), `"description_changed":true`) != (behaviour == "another description") {
					t.Errorf("the evidence says %s of the description", res.Answer.Value)
				}
				if strings.Contains(said, "AGENT") || strings.Contains(said, "Approved") {
					t.Errorf("an agent reads words of the server: %s", said)
				}
				if (res.Unknown != nil) != (want.unknown && class == mcpclient.Changes) {
					t.Errorf("unknown = %+v", res.Unknown)
				}
				if calls := c.calls(); len(calls) != want.calls {
					t.Errorf("%d calls, want %d", len(calls), want.calls)
				}
				if behaviour == "fails" && !strings.Contains(string(res.Answer.Value), `"success":false`) {
					t.Errorf("the answer is %s", res.Answer.Value)
				}
			})
		}
	}
}

func TestASlowStartLeavesNothingUnknown(t *testing.T) {
	t.Parallel() // it mostly waits
	c := newCounter(t, mcpclient.Changes)
	c.start = "5s"
	c.becomes("silent")
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	req := c.request(c.plan(countByTwo))
	if res := c.ask(ctx, req); res.Pending == nil || ctx.Err() != nil {
		t.Errorf("Render = %+v with the call's time %v, want within it that the call is pending", res, ctx.Err())
	}
	req.Recover = true
	res := c.ask(t.Context(), req)
	for res.Pending != nil {
		res = c.ask(t.Context(), req)
	}
	if res.Unavailable == nil || !strings.Contains(res.Unavailable.Reason, "no answer within 5s") {
		t.Errorf("Render = %+v, want that nothing was called", res)
	}
}

func TestWhatIsNotAsAcceptedStops(t *testing.T) {
	c := newCounter(t, mcpclient.Changes)
	p := c.plan(countByTwo)
	pin := c.s.Tools["count"]
	pin.Class = mcpclient.Reads
	c.s.Tools = map[string]mcpclient.Pin{"count": pin}
	c.configure()
	if res := c.render(t.Context(), p); res.Unavailable == nil || !strings.Contains(res.Unavailable.Reason, "accepted anew") {
		t.Errorf("Render = %+v, want that the plan is of another class", res)
	}
	c.s.Args = []string{"--evil"}
	c.configure()
	res, err := c.Preview(t.Context(), driver.PreviewRequest{Input: asking(countByTwo)})
	if err != nil || res.Unavailable == nil || !strings.Contains(res.Unavailable.Reason, "TOOL_CHANGED: the server counter is started in another way") {
		t.Errorf("Preview = %+v, %v", res, err)
	}
	if len(c.calls()) > 0 {
		t.Errorf("it was called: %q", c.calls())
	}
}

func TestAnAgentProposesArgumentsThatFitTheSchema(t *testing.T) {
	c := newCounter(t, mcpclient.Changes)
	ask := func(display, proposal string) driver.PreviewResult {
		t.Helper()
		res, err := c.Preview(t.Context(), driver.PreviewRequest{Input: asking(display), Proposal: json.RawMessage(proposal)})
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	const open = `{"tool_name":"count"}`
	if res := ask(open, ""); res.Propose == nil || !strings.Contains(string(res.Propose.Schema), `"by"`) {
		t.Errorf("without a proposal: %+v", res)
	}
	for _, proposal := range []string{`{"by":"two"}`, `{"by":"{{ input.by }}"}`, `{}`, `17`, `{"by":1,"more":2}`, `{"tool_name":"count","arguments":[],"success":true,"result":1}`} {
		if res := ask(open, proposal); res.Invalid == nil {
			t.Errorf("%s: %+v, want that it does not fit", proposal, res)
		}
	}
	// A result that the agent reports is not part of its proposal.
	res := ask(open, `{"tool_name":"count","arguments":{"by":3},"success":true,"result":{"count":99}}`)
	if res.Plan == nil || !strings.Contains(res.Plan.Text, "by: 3") || strings.Contains(string(res.Plan.Data), `"count":99`) {
		t.Fatalf("Preview = %+v", res)
	}
	written := ask(`{"tool_name":"count","arguments":{"by":3}}`, "")
	if written.Plan == nil || string(written.Plan.Action) != `{"arguments":{"by":3},"server":"counter","tool":"count"}` || string(res.Plan.Action) != string(written.Plan.Action) {
		t.Errorf("the action is %s if the agent proposes the arguments and %s if the step states them", res.Plan.Action, written.Plan.Action)
	}
	// The agent chose the arguments by the description.
	c.becomes("another description")
	plan := ask(open, `{"by":3}`).Plan
	if done := c.render(t.Context(), *plan); done.Unavailable == nil || !strings.Contains(done.Unavailable.Reason, "TOOL_CHANGED: the description") {
		t.Errorf("Render = %+v", done)
	}
	if res := ask(`{"tool_name":"count","arguments":{"by":"two"}}`, ""); res.Unavailable == nil || !strings.Contains(res.Unavailable.Reason, "do not fit") {
		t.Errorf("arguments of the challenge that do not fit: %+v", res)
	}
	if res := ask(`{"tool_name":"count","arguments":{"by":"{{ steps.a.b }}"}}`, ""); res.Plan == nil {
		t.Errorf("arguments that are not filled yet: %+v", res)
	}
}

func TestToolsAreFoundByWhatChallengesCallThem(t *testing.T) {
	c := newCounter(t, mcpclient.Reads)
	for name, want := range map[string]string{
		"count": "", "counter/count": "", "mcp__counter__count": "", "counter.count": "",
		"other/count": "no server with the tool", "count2": "no server with the tool", "": "names no tool",
	} {
		display, _ := json.Marshal(map[string]any{"tool_name": name, "arguments": map[string]int{"by": 1}})
		res, err := c.Preview(t.Context(), driver.PreviewRequest{Input: asking(string(display))})
		if err != nil || (res.Plan != nil) != (want == "") || want != "" && !strings.Contains(res.Unavailable.Reason, want) {
			t.Errorf("%q: %+v, %v, want %q", name, res, err, want)
		}
	}
	text, _ := mcpclient.File{Servers: map[string]mcpclient.Server{"one": c.s, "two": c.s}}.Bytes()
	config, _ := json.Marshal(map[string]string{"servers": string(text)})
	if found, err := c.Configure(t.Context(), config, false); err != nil || len(found) > 0 {
		t.Fatal(found, err)
	}
	res, err := c.Preview(t.Context(), driver.PreviewRequest{Input: asking(countByTwo)})
	if err != nil || res.Unavailable == nil || !strings.Contains(res.Unavailable.Reason, "one and two: name it in the challenge as one/count") {
		t.Errorf("two servers with the tool: %+v, %v", res, err)
	}
}

func TestALoginThatIsMissingIsSaid(t *testing.T) {
	for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusFound} {
		var sent string
		remote := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			sent = r.Header.Get("Authorization")
			w.Header().Set("Location", "https://elsewhere.example/")
			w.WriteHeader(status)
		}))
		header := filepath.Join(t.TempDir(), "token")
		if err := os.WriteFile(header, []byte("Bearer old\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		c := newCounter(t, mcpclient.Changes)
		p := c.s.Tools
		c.s = mcpclient.Server{URL: remote.URL, HeaderFiles: map[string]string{"Authorization": header}, Tools: p}
		c.accept()
		res := c.render(t.Context(), c.plan(countByTwo))
		want := "TOOL_LOGIN_REQUIRED"
		if status == http.StatusFound {
			want = "redirects to another address"
		}
		if res.Unavailable == nil || !strings.Contains(res.Unavailable.Reason, want) || strings.Contains(res.Unavailable.Reason, "old") || sent != "Bearer old" {
			t.Errorf("%d: Render = %+v, sent %q", status, res.Unavailable, sent)
		}
		remote.Close()
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	}
}

func TestAServerAtAnAddressIsCalledUntilItsLoginExpires(t *testing.T) {
	called, refuse := 0, http.StatusOK
	s := server.NewMCPServer("counter", "1.0.0", server.WithToolCapabilities(false))
	s.AddTool(mcp.NewTool("count", mcp.WithNumber("by", mcp.Required())), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		called++
		return mcp.NewToolResultText(`{"count":1}`), nil
	})
	sound := server.NewStreamableHTTPServer(s, server.WithStateLess(true))
	remote := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		renewed := r.Header.Get("Authorization") == "Bearer new" && refuse != http.StatusBadGateway
		if refuse != http.StatusOK && !renewed && bytes.Contains(body, []byte("tools/call")) {
			w.WriteHeader(refuse)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		sound.ServeHTTP(w, r)
	}))
	defer http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	defer remote.Close()
	header := filepath.Join(t.TempDir(), "token")
	write := func(token string) {
		t.Helper()
		if err := os.WriteFile(header, []byte("Bearer "+token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("old")
	c := newCounter(t, mcpclient.Changes)
	c.s = mcpclient.Server{URL: remote.URL, HeaderFiles: map[string]string{"Authorization": header}}
	conn, err := mcpclient.Open(t.Context(), "counter", c.s, mcpclient.Options{})
	if err != nil {
		t.Fatal(err)
	}
	listed, err := conn.Tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close() // a server without sessions may not know how to end one
	c.s.Tools = map[string]mcpclient.Pin{"count": listed[0].Pin}
	c.accept()
	p := c.plan(countByTwo)
	if res := c.render(t.Context(), p); res.Answer == nil || called != 1 {
		t.Fatalf("Render = %+v after %d calls", res, called)
	}
	for _, refuse = range []int{http.StatusUnauthorized, http.StatusForbidden} {
		if res := c.render(t.Context(), p); res.Unavailable == nil || !strings.Contains(res.Unavailable.Reason, "TOOL_LOGIN_REQUIRED") {
			t.Errorf("%d: Render = %+v, want that a login is required, as nothing was called", refuse, res)
		}
	}
	write("new")
	if res := c.render(t.Context(), p); res.Answer == nil || called != 2 {
		t.Errorf("with another token: Render = %+v after %d calls", res, called)
	}
	refuse = http.StatusBadGateway
	if res := c.render(t.Context(), p); res.Unknown == nil {
		t.Errorf("%d: Render = %+v, want that nobody knows what came of it", refuse, res)
	}
}

// A template may stand in for a value before the run; in the run the value has to fit.
func TestAValueOfARunFitsTheSchemaOrNothingIsCalled(t *testing.T) {
	c := newCounter(t, mcpclient.Changes)
	res := c.render(t.Context(), c.plan(`{"tool_name":"count","arguments":{"by":"{{ steps.evil.text }}"}}`))
	if res.Unavailable == nil || !strings.Contains(res.Unavailable.Reason, "do not fit the tool count") || len(c.calls()) > 0 {
		t.Errorf("Render = %+v after %d calls, want that nothing was called", res, len(c.calls()))
	}
}

// A value cannot look like the next argument.
func TestBlanksInAValueAreSeen(t *testing.T) {
	if got := readable([]byte(`"x` + strings.Repeat(" ", 80) + `zz: 1"`)); !strings.HasPrefix(got, `"x `) {
		t.Errorf("readable = %q, want quotes around it", got)
	}
}
