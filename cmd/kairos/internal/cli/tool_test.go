package cli

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/api/client"
	"github.com/kairos-mcp/kairos/core/server/mcp"
	"github.com/kairos-mcp/kairos/core/server/rest"
	"github.com/kairos-mcp/kairos/core/server/toolset"
)

// A tool that the server does not have: struct pair, use case and row.

type greetRequest struct {
	Name string `json:"name" doc:"Who is greeted" min:"1"`
}

type greetReply struct {
	Greeting string `json:"greeting" doc:"What to say"`
}

var greet = api.Tool[greetRequest, greetReply]{Declaration: api.Declaration{
	Name: "kairos_greet", Title: "Greet", Description: "Greet somebody by name, to test a server.", ReadOnly: true, Idempotent: true, Icon: "M4 4h6v6h-6z",
}}

func greeted(_ toolset.Engine, _ context.Context, _ access.Caller, in greetRequest) (greetReply, error) { //nolint:revive // a method expression
	return greetReply{Greeting: "Hello, " + in.Name}, nil
}

// newTool adds the row to a copy of the table until the test ends.
func newTool(t *testing.T) {
	t.Helper()
	before := toolset.Table
	toolset.Table = append(slices.Clone(before), toolset.Replies(greet, greeted))
	t.Cleanup(func() { toolset.Table = before })
}

// noEngine has no use cases: the new tool needs none of them.
type noEngine struct{ mcp.Engine }

func served(t *testing.T) string {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	m, err := mcp.New(mcp.Config{
		Version: "v1", Principal: "local", Space: "space:personal", ChallengeTypes: func() []string { return []string{"shell"} },
		StateKeys: func() ([][32]byte, error) { return [][32]byte{{1}}, nil },
	}, noEngine{}, log)
	if err != nil {
		t.Fatal(err)
	}
	a, err := rest.New(rest.Config{
		Version: "v1", Principal: "local", Space: "space:personal", Engine: noEngine{}, MCP: m.HTTP(), Check: m.Check,
		Tools: m.Tools,
	}, log)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(a)
	t.Cleanup(func() {
		s.Close()
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return s.URL
}

func fetch(t *testing.T, method, url, body string, headers ...string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(res.Body); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// A tool needs its structs, its use case and one row, and every face serves it.
func TestANewToolIsOneRow(t *testing.T) {
	newTool(t)
	url := served(t)
	t.Setenv(session.ServerEnv, url)
	const arguments = `{"name": "Ada"}`
	const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"kairos_greet","arguments":{"name":"Ada"},` +
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	list := strings.NewReplacer("tools/call", "tools/list", `"name":"kairos_greet","arguments":{"name":"Ada"},`, "").Replace(call)
	command := func(args ...string) string {
		var out bytes.Buffer
		cmd := Root("1")
		cmd.SetArgs(args)
		cmd.SetOut(&out)
		cmd.SetErr(&out)
		if err := cmd.ExecuteContext(t.Context()); err != nil {
			t.Errorf("kairos %s: %v", strings.Join(args, " "), err)
		}
		return out.String()
	}
	c, err := client.New(url, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	reply, err := greet.Call(t.Context(), c, greetRequest{Name: "Ada"})
	if err != nil {
		t.Error(err)
	}
	for face, tc := range map[string]struct{ got, want string }{
		"list of MCP":    {fetch(t, http.MethodPost, url+"/mcp", list, "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/list"), `"kairos_greet"`},
		"call of MCP":    {fetch(t, http.MethodPost, url+"/mcp", call, "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", greet.Name), "Hello, Ada"},
		"list of REST":   {fetch(t, http.MethodGet, url+"/api", ""), "POST /api/kairos_greet"},
		"call of REST":   {fetch(t, http.MethodPost, url+"/api/kairos_greet", arguments), "Hello, Ada"},
		"check of REST":  {fetch(t, http.MethodPost, url+"/api/kairos_greet", `{"name": ""}`), "INVALID_INPUT"},
		"OpenAPI":        {fetch(t, http.MethodGet, url+"/api/openapi.json", ""), `"kairos_greet_input"`},
		"client":         {reply.Greeting, "Hello, Ada"},
		"command":        {command("call", "kairos_greet", arguments), "Hello, Ada"},
		"shell complete": {command("__complete", "call", ""), "kairos_greet"},
	} {
		if !strings.Contains(tc.got, tc.want) {
			t.Errorf("%s: %s has no %s", face, tc.got, tc.want)
		}
	}
}
