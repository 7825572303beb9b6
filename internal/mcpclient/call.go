package mcpclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// KeyOfMeta is the key of _meta that carries the idempotency key of a call. A
// server that sees a key again returns the outcome of the first call.
const KeyOfMeta = "io.github.kairos-mcp/idempotency-key"

// maxTools and maxPages bound how many tools a server may list, and on how many pages.
const (
	maxTools = 1000
	maxPages = 100
)

// Tools lists what the server offers now.
func (c *Connection) Tools(ctx context.Context) ([]Tool, error) {
	var tools []Tool
	var req mcp.ListToolsRequest
	for range maxPages {
		page, err := c.client.ListToolsByPage(ctx, req)
		if err != nil {
			said, why := c.explained(ctx, err, errNoTools)
			return nil, c.quoting(c.failed("list its tools", why), said)
		}
		if len(tools)+len(page.Tools) > maxTools {
			return nil, c.failed("list its tools", fmt.Errorf("there are more than %d", maxTools))
		}
		for _, t := range page.Tools {
			tool, err := toolOf(t)
			if err != nil {
				return nil, c.quoting(c.failed("list its tools", err), fmt.Sprintf("%.100q", t.Name))
			}
			tools = append(tools, tool)
		}
		if page.NextCursor == "" {
			return tools, nil
		}
		req.Params.Cursor = page.NextCursor
	}
	return nil, c.failed("list its tools", fmt.Errorf("they take more than %d pages", maxPages))
}

var errNoTools = errors.New("it did not list them")

// Result is what a call returned: its structured result, else its text.
type Result struct {
	Value json.RawMessage
	// Success is false where the tool says that it failed.
	Success bool
}

// UncertainError is returned for a call whose reply was lost: nobody can tell
// whether it was carried out.
type UncertainError struct{ err error }

// Error says what happened to the reply.
func (e *UncertainError) Error() string { return e.err.Error() }

// Unwrap returns what happened to the reply.
func (e *UncertainError) Unwrap() error { return e.err }

// Call is a call of a tool.
type Call struct {
	Tool      string
	Arguments json.RawMessage
	Key       string         // idempotency key; empty: none is sent
	Progress  func(Progress) // is notified of the server's progress; may be nil. Must not block
}

// Call calls a tool once. A reply that reports a failure is a result. The server is
// told if the context ends before the call.
func (c *Connection) Call(ctx context.Context, call Call) (Result, error) {
	var req mcp.CallToolRequest
	req.Params.Name = call.Tool
	req.Params.Arguments = call.Arguments
	if len(call.Arguments) == 0 {
		req.Params.Arguments = json.RawMessage("{}")
	}
	req.Params.Meta = &mcp.Meta{AdditionalFields: map[string]any{}}
	if call.Key != "" {
		req.Params.Meta.AdditionalFields[KeyOfMeta] = call.Key
	}
	if call.Progress != nil {
		token, release := c.watchers.watch(call.Progress)
		defer release()
		req.Params.Meta.ProgressToken = token
	}
	answered := false
	res, err := c.client.CallTool(context.WithValue(ctx, answeredKey{}, &answered), req)
	if err != nil {
		return c.unanswered(ctx, call.Tool, answered, err)
	}
	if raw := res.RawStructuredContent; len(raw) > 0 && string(raw) != "null" {
		return Result{raw, !res.IsError && !saysFailure(raw)}, nil
	}
	text := textOf(res)
	if raw := json.RawMessage(text); json.Valid(raw) {
		return Result{raw, !res.IsError && !saysFailure(raw)}, nil
	}
	return textResult(text, !res.IsError)
}

var (
	errBroken     = errors.New("the connection broke before there was a reply that can be read")
	errNotAResult = errors.New("the reply is not the result of a tool")
)

// unanswered is what a call without a result comes to.
func (c *Connection) unanswered(ctx context.Context, tool string, answered bool, err error) (Result, error) {
	var broken *transport.Error
	if errors.Is(err, ErrLogin) || errors.Is(err, transport.ErrAuthorizationRequired) {
		return Result{}, c.failed("call "+tool, err) // refused before it was carried out
	}
	switch {
	case ctx.Err() != nil || c.limit.hit() != nil:
		return Result{}, &UncertainError{c.failed("call "+tool, cause(ctx, err))}
	case answered:
		return Result{}, &UncertainError{c.failed("call "+tool, errNotAResult)}
	case errors.As(err, &broken): // it may quote the server
		return Result{}, &UncertainError{c.failed("call "+tool, errBroken)}
	}
	// The server's own refusal, such as of the arguments.
	return textResult(err.Error(), false)
}

func textResult(text string, success bool) (Result, error) {
	b, err := json.Marshal(text)
	return Result{b, success}, err
}

func textOf(res *mcp.CallToolResult) string {
	var parts []string
	for _, c := range res.Content {
		if text := mcp.GetTextFromContent(c); text != "" {
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, "\n")
}

// saysFailure reports whether a result calls itself a failure.
func saysFailure(value json.RawMessage) bool {
	var said struct {
		Success *bool `json:"success"`
	}
	return json.Unmarshal(value, &said) == nil && said.Success != nil && !*said.Success
}

// cause is why the context ended, if it did, else the error.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// Progress is how far a server says that a call has come. Its numbers are all that
// is taken: the words of a notification are those of a stranger.
type Progress struct {
	Done, Total float64 // Total is 0 if the server does not know it
}

// Share is how much is done, 0 to 1. It is false if nobody knows.
func (p Progress) Share() (float64, bool) {
	if p.Total <= 0 {
		return 0, false
	}
	return min(1, p.Done/p.Total), true
}

// String is such as "3 of 10".
func (p Progress) String() string {
	done := strconv.FormatFloat(p.Done, 'g', 6, 64)
	if p.Total <= 0 {
		return done
	}
	return done + " of " + strconv.FormatFloat(p.Total, 'g', 6, 64)
}

// watchers hear of the progress of calls, by the token of the call.
type watchers struct {
	mu   sync.Mutex // guards the fields below
	last int
	by   map[string]func(Progress)
}

// watch returns a token for a call, until release.
func (w *watchers) watch(tell func(Progress)) (token string, release func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last++
	token = fmt.Sprintf("call-%d", w.last)
	if w.by == nil {
		w.by = map[string]func(Progress){}
	}
	w.by[token] = tell
	return token, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.by, token)
	}
}

// notified passes the progress on that a server sent for a call that is watched.
func (w *watchers) notified(n mcp.JSONRPCNotification) {
	if n.Method != string(mcp.MethodNotificationProgress) {
		return
	}
	fields := n.Params.AdditionalFields
	token, _ := fields["progressToken"].(string)
	done, ok := fields["progress"].(float64)
	total, _ := fields["total"].(float64)
	w.mu.Lock()
	tell := w.by[token]
	w.mu.Unlock()
	if tell != nil && ok && sound(done) && sound(total) {
		tell(Progress{done, total})
	}
}

func sound(n float64) bool { return n >= 0 && !math.IsInf(n, 0) }
