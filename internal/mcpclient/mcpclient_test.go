package mcpclient_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/kairos-mcp/kairos/internal/mcpclient"
)

// behaviourEnv makes this test's own program a server with that behaviour.
const behaviourEnv = "MCP_SERVER_BEHAVIOUR"

func TestMain(m *testing.M) {
	if behaviour := os.Getenv(behaviourEnv); behaviour != "" {
		serve(behaviour)
		return
	}
	goleak.VerifyTestMain(m)
}

const (
	old    = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}`
	recent = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}`
	pings  = 200_000
)

// serve is a server with a tool that returns a variable of its environment. It answers
// no request that it does not know.
func serve(behaviour string) {
	out := bufio.NewWriter(os.Stdout)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); _ = out.Flush() {
		var asked struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		_ = json.Unmarshal(lines.Bytes(), &asked)
		say := func(member, value string) {
			if behaviour == "nulls" {
				fmt.Fprintf(out, "{\"jsonrpc\":\"2.0\",\"method\":null,\"id\":%s,%q:%s}\n", asked.ID, member, value)
				return
			}
			fmt.Fprintf(out, "{\"jsonrpc\":\"2.0\",\"id\":%s,%q:%s}\n", asked.ID, member, value)
		}
		switch {
		case asked.Method == "initialize" && behaviour == "recent":
			say("error", `{"code":-32601,"message":"method not found"}`)
		case asked.Method == "server/discover" && behaviour == "recent":
			say("result", recent)
		case asked.Method == "initialize":
			for i := range pings {
				if behaviour == "floods" {
					fmt.Fprintf(out, "{\"jsonrpc\":\"2.0\",\"id\":\"p%d\",\"method\":\"ping\"}\n", i)
				}
			}
			say("result", old)
		case asked.Method == "tools/list":
			say("result", `{"resultType":"complete","tools":[{"name":"look","inputSchema":{"type":"object"}}]}`)
		case asked.Method == "tools/call":
			say("result", fmt.Sprintf(`{"resultType":"complete","content":[{"type":"text","text":%q}]}`, os.Getenv("SECRET")))
		}
	}
}

// program is this test as a server.
func program(t *testing.T, behaviour string) mcpclient.Server {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return mcpclient.Server{Command: self, Env: map[string]string{behaviourEnv: behaviour}}
}

func open(t *testing.T, s mcpclient.Server) (*mcpclient.Connection, error) {
	t.Helper()
	c, err := mcpclient.Open(t.Context(), "server", s, mcpclient.Options{})
	if err == nil {
		t.Cleanup(func() { _ = c.Close() })
	}
	return c, err
}

// A program of before 2026-07-28 may never answer the question for its version, and a
// later one does not initialize.
func TestAProgramOfEitherEraIsOpenedWithoutWaiting(t *testing.T) {
	for _, era := range []string{"old", "recent"} {
		began := time.Now()
		c, err := open(t, program(t, era))
		if err != nil {
			t.Fatalf("%s: Open = %v", era, err)
		}
		tools, err := c.Tools(t.Context())
		if err != nil || len(tools) != 1 || tools[0].Name != "look" {
			t.Errorf("%s: Tools = %+v, %v", era, tools, err)
		}
		if took := time.Since(began); took > 4*time.Second {
			t.Errorf("%s: it took %s", era, took)
		}
	}
}

// A server that writes the members of a request into its answers, as null, asks nothing.
func TestAnAnswerWithAMethodOfNullIsNotARequest(t *testing.T) {
	c, err := open(t, program(t, "nulls"))
	if err != nil {
		t.Fatal(err)
	}
	for range 150 { // more than a server may ask
		if _, err := c.Tools(t.Context()); err != nil {
			t.Fatalf("Tools = %v", err)
		}
	}
}

func TestAServerThatFloodsRequestsIsLeft(t *testing.T) {
	const want = "more than 100 requests"
	if _, err := open(t, program(t, "floods")); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("a program: Open = %v, want %q", err, want)
	}
	var asked http.HandlerFunc = func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || !strings.Contains(string(body), `"method"`) {
			<-r.Context().Done() // an answer to a ping, which nobody waits for
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range pings {
			fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":\"p%d\",\"method\":\"ping\"}\n\n", i)
		}
	}
	remote := httptest.NewServer(asked)
	defer http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	defer remote.Close()
	defer remote.CloseClientConnections()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := mcpclient.Open(ctx, "server", mcpclient.Server{URL: remote.URL}, mcpclient.Options{}); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("an address: Open = %v, want %q", err, want)
	}
}

func TestAServerGetsNoMoreOfTheEnvironmentThanIsNamed(t *testing.T) {
	t.Setenv("SECRET", "of this program")
	t.Setenv("OTHER", "handed over")
	for from, want := range map[string]string{"": `""`, "OTHER": `"handed over"`} {
		s := program(t, "old")
		if from != "" {
			s.EnvFrom = map[string]string{"SECRET": from}
		}
		c, err := open(t, s)
		if err != nil {
			t.Fatal(err)
		}
		if res, err := c.Call(t.Context(), mcpclient.Call{Tool: "look"}); err != nil || string(res.Value) != want {
			t.Errorf("env_from %q: Call = %s, %v, want %s", from, res.Value, err, want)
		}
	}
	s := program(t, "old")
	s.EnvFrom = map[string]string{"SECRET": "NOT_THERE"}
	if _, err := open(t, s); err == nil || !strings.Contains(err.Error(), "NOT_THERE is not set") {
		t.Errorf("Open = %v, want that the variable is not set", err)
	}
}

func TestAServerIsMeantByItsWholeName(t *testing.T) {
	tool := map[string]mcpclient.Pin{"book": {Class: mcpclient.Changes}}
	f := mcpclient.File{Servers: map[string]mcpclient.Server{
		"calendar": {Tools: tool}, "my-calendar": {Tools: tool}, "my__calendar": {Tools: tool},
		"evil": {Tools: map[string]mcpclient.Pin{"calendar/book": {Class: mcpclient.Reads}}},
	}}
	for name, want := range map[string]string{
		"calendar/book": "calendar", "my-calendar/book": "my-calendar", "my__calendar__book": "my__calendar",
		"mcp__my-calendar__book": "my-calendar", "mcp__calendar__book": "calendar", "evil/calendar/book": "evil",
		"book": "calendar my-calendar my__calendar", "notcalendar/book": "", "/book": "",
	} {
		var got []string
		for _, found := range f.Find(name) {
			got = append(got, found.Server)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("Find(%q) = %q, want %q", name, got, want)
		}
	}
}

func FuzzParsingAFileOfServers(f *testing.F) {
	f.Add([]byte(`{"mcpServers":{"a":{"command":"x","env_from":{"A":"B"}}}}`))
	f.Add([]byte(`{"mcpServers":{"a":{"url":"http://x","header_files":{"A":"/b"}}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := mcpclient.Parse(data)
		if err != nil {
			return
		}
		text, err := file.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		if again, err := mcpclient.Parse(text); err != nil || len(again.Servers) != len(file.Servers) {
			t.Fatalf("what was written is not read: %v\n%s", err, text)
		}
	})
}

// A file that is almost one of ours is refused with the right spelling.
func TestNearMisses(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"a list of another program":  {`[{"name": "hammer"}]`, "probably the file of another program"},
		"an object of another one":   {`{"tools": []}`, "probably the file of another program"},
		"the key of an editor":       {`{"servers": {}}`, `unknown key "servers"; the servers are below "mcpServers"`},
		"another case":               {`{"mcpservers": {}}`, `unknown key "mcpservers"; did you mean "mcpServers"?`},
		"a key beside the servers":   {`{"mcpServers": {}, "inputs": []}`, `unknown key "inputs"`},
		"a list of servers":          {`{"mcpServers": [{"command": "x"}]}`, "mcpServers must be an object, not an array"},
		"headers in the file":        {`{"mcpServers": {"a": {"url": "http://x", "headers": {"A": "b"}}}}`, `mcpServers.a: unknown key "headers"; did you mean "header_files"?`},
		"turned off":                 {`{"mcpServers": {"a": {"command": "x", "disabled": true}}}`, `mcpServers.a: unknown key "disabled"`},
		"arguments in the command":   {`{"mcpServers": {"a": {"command": "x", "arguments": ["-v"]}}}`, `did you mean "args"?`},
		"arguments as text":          {`{"mcpServers": {"a": {"command": "x", "args": "-v"}}}`, "must be a list, not a string"},
		"a mark before the text":     {"\ufeff" + `{"mcpServers": {}}`, ""},
		"two of them":                {`{"mcpServers": {}}{"mcpServers": {}}`, "text follows the JSON value"},
		"a comment":                  {"// ours\n{\"mcpServers\": {}}", "not JSON"},
		"no servers":                 {`{}`, ""},
		"the working folder renamed": {`{"mcpServers": {"a": {"command": "x", "dir": "/srv"}}}`, `unknown key "dir"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := mcpclient.Parse([]byte(tc.text))
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Parse = %v, want %q", err, tc.want)
			}
		})
	}
}
