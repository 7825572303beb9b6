package bench_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
)

// able is what a client can do that is asked for everything.
var able = map[string]any{"elicitation": map[string]any{}, "sampling": map[string]any{}}

// inquiry is what a server asks its client in the middle of a call.
type inquiry struct {
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	// ID is that of the request in the legacy era, the key of the answer in the
	// modern one.
	ID json.RawMessage `json:"id"`
	// state goes back with the answer in the modern era.
	state string
}

// conversation is one tool call and what it asks.
type conversation struct {
	*agent
	tool      string
	arguments map[string]any
	// server is how long this client has waited for the server so far.
	server time.Duration

	res    *http.Response // legacy: the call's own stream
	stream *bufio.Reader
}

// converse sends a tool call and returns what comes first: a question or the
// call's reply.
func (a *agent) converse(b testing.TB, tool string, arguments map[string]any) (*conversation, *inquiry, stepReply) {
	c := &conversation{agent: a, tool: tool, arguments: arguments}
	begin := time.Now()
	c.res = a.send(b, a.message("tools/call", map[string]any{"name": tool, "arguments": arguments}), "tools/call", tool) //nolint:bodyclose // hear does
	q, r := c.hear(b, begin)
	return c, q, r
}

// answer gives the result of a question and returns what comes next.
func (c *conversation) answer(b testing.TB, q *inquiry, result any) (*inquiry, stepReply) {
	if c.era == modernEra {
		message := c.message("tools/call", map[string]any{
			"name": c.tool, "arguments": c.arguments, "requestState": q.state, "inputResponses": map[string]any{string(q.ID): result},
		})
		begin := time.Now()
		c.res = c.send(b, message, "tools/call", c.tool) //nolint:bodyclose // hear does
		return c.hear(b, begin)
	}
	message, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": q.ID, "result": result})
	if err != nil {
		b.Fatal(err)
	}
	begin := time.Now()
	c.post(b, message, "", "")
	return c.hear(b, begin)
}

// hear reads until the server asks something or has replied, and adds the time
// since begin to what the server took.
func (c *conversation) hear(b testing.TB, begin time.Time) (*inquiry, stepReply) {
	text := c.next(b)
	c.server += time.Since(begin)
	var m struct {
		inquiry
		Result struct {
			StructuredContent stepReply          `json:"structuredContent"`
			IsError           bool               `json:"isError"`
			State             string             `json:"requestState"`
			Requests          map[string]inquiry `json:"inputRequests"`
		} `json:"result"`
		Error json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal(text, &m); err != nil || m.Error != nil || m.Result.IsError {
		b.Fatalf("%s: %v %s", c.tool, err, text)
	}
	if m.Method != "" {
		return &m.inquiry, stepReply{}
	}
	_ = c.res.Body.Close() // all of it was read
	for key, q := range m.Result.Requests {
		q.ID, q.state = json.RawMessage(key), m.Result.State
		return &q, stepReply{}
	}
	return nil, m.Result.StructuredContent
}

// next returns the next message of the call's response, without notifications.
func (c *conversation) next(b testing.TB) []byte {
	if !strings.HasPrefix(c.res.Header.Get("Content-Type"), "text/event-stream") {
		text, err := io.ReadAll(c.res.Body)
		if err != nil {
			b.Fatal(err)
		}
		return text
	}
	if c.stream == nil || c.era == modernEra {
		c.stream = bufio.NewReader(c.res.Body)
	}
	for {
		line, err := c.stream.ReadBytes('\n')
		if err != nil {
			b.Fatalf("%s: %v before the reply", c.tool, err)
		}
		if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok && !bytes.Contains(data, []byte(`"method":"notifications/`)) {
			return data
		}
	}
}

// form is a person's answer, said is a model's.
func form(content map[string]any) any {
	return map[string]any{"action": "accept", "content": content}
}

func said(text string) any {
	return mcp.CreateMessageResult{
		SamplingMessage: mcp.SamplingMessage{Role: mcp.RoleAssistant, Content: mcp.NewTextContent(text)},
		Model:           "bench", StopReason: "endTurn",
	}
}
