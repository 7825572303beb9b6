package mcp

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/director"
	"github.com/kairos-mcp/kairos/core/server/toolset"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// handler serves a tool whose arguments fit its input schema.
type handler func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error)

// tools are the tools as they are served.
type tools struct {
	mcp       *server.MCPServer
	engine    toolset.Engine
	reminder  reminder
	exchange  *exchange
	callers   callers
	clientLog clientLog
	observer  Observer
	types     func() []string // of challenges, see Config.ChallengeTypes
	firstCall func()          // called once; nil: not
	once      sync.Once
	checks    map[string]func() (inputCheck, error) // by tool; fixed by addAll

	mu        sync.Mutex // guards the fields below
	listed    []string   // types in the schema of kairos_next
	announced []string   // types that clients know, or were notified of
}

func (ts *tools) addAll() {
	ts.checks = make(map[string]func() (inputCheck, error), len(toolset.Table))
	for _, t := range toolset.Table {
		// Compiled at the first call: a start must be quick, hosts make many of them.
		ts.checks[t.Name] = sync.OnceValues(func() (inputCheck, error) { return enforced(t) })
		if t.Name == api.Next.Name {
			continue // refresh declares it, with the types of challenges
		}
		ts.add(declared(t, nil), ts.handler(t))
	}
	ts.refresh()
}

// add serves a tool, or replaces it.
func (ts *tools) add(tool mcp.Tool, h handler) {
	check := ts.checks[tool.Name]
	ts.mcp.AddTool(tool, inVersion(observed(ts.observer, ts.clientLog.logged(ts.reminder.reminded(func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if ts.firstCall != nil {
			ts.once.Do(ts.firstCall)
		}
		c, err := check()
		if err != nil {
			return nil, fmt.Errorf("input schema of %s: %w", tool.Name, err)
		}
		read, f := c.read(req.Params.RawArguments)
		if f != nil {
			noteCode(ctx, string(f.Code))
			return errorResult(req, f)
		}
		req.Params.RawArguments = read
		var theirs string
		if req.Params.Meta != nil {
			theirs, _ = req.Params.Meta.AdditionalFields["traceparent"].(string)
		}
		return h(toolset.Traced(ctx, theirs), req)
	})))))
}

// inVersion leaves structured content out of the results for clients that do not know it.
func inVersion(h server.ToolHandlerFunc) server.ToolHandlerFunc {
	return func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		res, err := h(ctx, req)
		if res != nil && !structured(ctx) {
			res.StructuredContent = nil
		}
		return res, err
	}
}

// handler decodes, calls the engine and encodes.
func (ts *tools) handler(t toolset.Tool) handler {
	if t.Open != nil {
		return func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return ts.exchange.run(ctx, req, func(ctx context.Context, c access.Caller) (director.Round, error) {
				return t.Open(ctx, ts.engine, c, req.Params.RawArguments)
			})
		}
	}
	return func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		reply, err := t.Reply(ctx, ts.engine, ts.callers.of(ctx, req), req.Params.RawArguments)
		if err != nil {
			return failed(ctx, ts.clientLog.log, req, err)
		}
		return result(reply)
	}
}

// refresh declares kairos_next again if the types of challenges have changed. It
// ignores an empty list: no schema allows an empty enum.
func (ts *tools) refresh() {
	types := ts.types()
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if len(types) == 0 || slices.Equal(types, ts.listed) {
		return
	}
	i := slices.IndexFunc(toolset.Table, func(t toolset.Tool) bool { return t.Name == api.Next.Name })
	if ts.announced == nil {
		ts.announced = types
	}
	ts.listed = types
	ts.add(declared(toolset.Table[i], types), ts.handler(toolset.Table[i]))
}

// listedTypes are the challenge types in the schema of kairos_next.
func (ts *tools) listedTypes() []string {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return ts.listed
}

// announce reports whether clients have to be notified of the present types.
func (ts *tools) announce() bool {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if slices.Equal(ts.listed, ts.announced) {
		return false
	}
	ts.announced = ts.listed
	return true
}

// declared returns a tool as agents see it. types are the challenge types of the
// configured drivers. If it is nil the schema does not list them.
func declared(t toolset.Tool, types []string) mcp.Tool {
	return mcp.Tool{
		Name: t.Name, Title: t.Title, Description: t.Description, Meta: loading(t.Name),
		RawInputSchema: t.InputOf(types).Carried().JSON(), RawOutputSchema: t.Output().Outline().JSON(), Icons: []mcp.Icon{icon(t.Icon)},
		Annotations: mcp.ToolAnnotation{
			Title: t.Title, ReadOnlyHint: &t.ReadOnly, DestructiveHint: &t.Destructive,
			IdempotentHint: &t.Idempotent, OpenWorldHint: &t.OpenWorld,
		},
	}
}

// ofRuns are the tools that agents need in every run.
var ofRuns = []string{api.Search.Name, api.ToolBegin, api.ToolNext, api.ToolAttest}

// loading asks hosts that load tools on demand to load those of a run at once: each of
// them would cost the model a search of its own.
func loading(tool string) *mcp.Meta {
	if !slices.Contains(ofRuns, tool) {
		return nil
	}
	return &mcp.Meta{AdditionalFields: map[string]any{"anthropic/alwaysLoad": true}}
}
