package terminal

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/kairos-mcp/kairos/sdk/plain"
)

// toolbox is the MCP servers whose tools the agent may call. A server starts
// when it is first needed. Safe for concurrent use.
type toolbox struct {
	servers Servers
	log     io.Writer
	// How long a server may take to start, and a call.
	startTimeout, callTimeout time.Duration

	mu   sync.Mutex // guards open; held while a server starts
	open map[string]*client.Client
}

// toolRef is a tool of one server.
type toolRef struct {
	server string
	tool   mcp.Tool
}

// toolResult is what a call returned: its structured result, else its text.
type toolResult struct {
	value   json.RawMessage
	success bool
}

func newToolbox(c Config) *toolbox {
	return &toolbox{
		servers: c.Servers, log: c.ServerLog, open: map[string]*client.Client{},
		startTimeout: cmp.Or(c.StartTimeout, 20*time.Second), callTimeout: cmp.Or(c.CallTimeout, 5*time.Minute),
	}
}

// adopt adds a connection that somebody else closes.
func (t *toolbox) adopt(name string, c *client.Client) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, configured := t.servers[name]; !configured {
		t.open[name] = c
	}
}

// close stops the servers that were started here.
func (t *toolbox) close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	var errs []error
	for name, c := range t.open {
		if _, ours := t.servers[name]; ours {
			errs = append(errs, closeClient(c))
		}
		delete(t.open, name)
	}
	return errors.Join(errs...)
}

func (t *toolbox) client(ctx context.Context, name string) (*client.Client, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c, ok := t.open[name]; ok {
		return c, nil
	}
	s, ok := t.servers[name]
	if !ok {
		return nil, fmt.Errorf("no MCP server %q is configured (mcpServers)", name)
	}
	var env []string
	for key, value := range s.Env {
		env = append(env, key+"="+value)
	}
	c, err := connect(ctx, child{argv: append([]string{s.Command}, s.Args...), env: env, within: t.startTimeout, log: &serverLog{server: name, to: orDiscard(t.log)}})
	if err != nil {
		return nil, fmt.Errorf("MCP server %q: %w", name, err)
	}
	t.open[name] = c
	return c, nil
}

// serverLog passes on what a server of somebody else writes to its standard
// error: each line with the server's name, and nothing that steers a terminal.
type serverLog struct {
	server string
	to     io.Writer
	rest   []byte // of a line that has not ended
}

// maxLogLine is how many bytes of a line are kept until it ends.
const maxLogLine = 8 << 10

// Write implements io.Writer.
func (l *serverLog) Write(p []byte) (int, error) {
	l.rest = append(l.rest, p...)
	for {
		line, rest, ended := bytes.Cut(l.rest, []byte{'\n'})
		if !ended && len(line) < maxLogLine {
			return len(p), nil
		}
		if _, err := fmt.Fprintf(l.to, "%s%s: %s\n", quoted, plain.Line(l.server), plain.Line(string(line))); err != nil {
			return 0, err
		}
		l.rest = append(l.rest[:0], rest...)
	}
}

func (t *toolbox) names() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	names := slices.Collect(maps.Keys(t.servers))
	for name := range t.open {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// all lists the tools of the named servers; of every server without a name.
func (t *toolbox) all(ctx context.Context, names ...string) ([]toolRef, error) {
	if len(names) == 0 {
		names = t.names()
	}
	var refs []toolRef
	for _, name := range names {
		c, err := t.client(ctx, name)
		if err != nil {
			return nil, err
		}
		list, err := t.list(ctx, c)
		if err != nil {
			return nil, fmt.Errorf("list the tools of the MCP server %q: %w", name, err)
		}
		for _, tool := range list.Tools {
			refs = append(refs, toolRef{name, tool})
		}
	}
	return refs, nil
}

func (t *toolbox) list(ctx context.Context, c *client.Client) (*mcp.ListToolsResult, error) {
	ctx, done := within(ctx, t.startTimeout)
	defer done()
	list, err := c.ListTools(ctx, mcp.ListToolsRequest{})
	return list, cause(ctx, err)
}

// find returns the tool that a challenge names; hosts put the server's name in
// front of a tool in many ways ("mcp__calendar__find_slot", "calendar.find_slot").
func (t *toolbox) find(ctx context.Context, name string) (toolRef, error) {
	refs, err := t.all(ctx)
	if err != nil {
		return toolRef{}, err
	}
	var found []toolRef
	for _, ref := range refs {
		if ref.tool.Name == name || prefixed(name, ref.tool.Name) {
			found = append(found, ref)
		}
	}
	if len(found) > 1 {
		// The prefix, if there is one, says which server is meant.
		if meant := slices.DeleteFunc(slices.Clone(found), func(ref toolRef) bool {
			return !strings.Contains(strings.ToLower(name), strings.ToLower(ref.server))
		}); len(meant) == 1 {
			found = meant
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		if len(t.servers) == 0 {
			return toolRef{}, &noServerError{tool: name}
		}
		return toolRef{}, fmt.Errorf("none of the MCP servers has the tool %q (%s): name one that does with --servers FILE", name, strings.Join(t.names(), ", "))
	}
	return toolRef{}, fmt.Errorf("several MCP servers have a tool %q: %s and %s", name, found[0].server, found[1].server)
}

func prefixed(name, tool string) bool {
	for _, separator := range []string{"__", ".", ":", "/"} {
		if strings.HasSuffix(name, separator+tool) {
			return true
		}
	}
	return false
}

// call calls a tool. A result that reports a failure is a result.
func (t *toolbox) call(ctx context.Context, server, tool string, arguments map[string]any) (toolResult, error) {
	c, err := t.client(ctx, server)
	if err != nil {
		return toolResult{}, err
	}
	if arguments == nil {
		arguments = map[string]any{}
	}
	var req mcp.CallToolRequest
	req.Params.Name = tool
	req.Params.Arguments = arguments
	limited, done := within(ctx, t.callTimeout)
	defer done()
	res, err := c.CallTool(limited, req)
	if err != nil {
		return toolResult{}, fmt.Errorf("call %s of the MCP server %q: %w", tool, server, lost(ctx, limited, err))
	}
	value, err := payload(res)
	if err != nil {
		// Not JSON: the text itself is the result.
		if value, err = json.Marshal(resultText(res)); err != nil {
			return toolResult{}, err
		}
	}
	return toolResult{value: value, success: !res.IsError && !saysFailure(value)}, nil
}

// lost is the error of a call without a reply: it may have been carried out. An
// error that the server sent is a reply.
func lost(ctx, limited context.Context, err error) error {
	var broken *transport.Error
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case limited.Err() != nil:
		err = context.Cause(limited)
	case errors.As(err, &broken):
		err = errors.New("the server ended")
	default:
		return err
	}
	return fmt.Errorf("%w; whether the call was carried out is not known: find out before you resume the run", err)
}

// saysFailure reports whether a result calls itself a failure.
func saysFailure(value json.RawMessage) bool {
	var said struct {
		Success *bool `json:"success"`
	}
	return json.Unmarshal(value, &said) == nil && said.Success != nil && !*said.Success
}

// readOnly reports whether the tool says that it changes nothing.
func (r toolRef) readOnly() bool {
	hint := r.tool.Annotations.ReadOnlyHint
	return hint != nil && *hint
}

// noServerError: no server was started that could have the tool.
type noServerError struct {
	tool string
	// run: what the person did not allow KAIROS to do in it; "": they were not asked.
	run string
}

func (e *noServerError) Error() string {
	if e.run != "" {
		return fmt.Sprintf("you did not allow KAIROS to call the tool %q, and no other server with it was started: "+
			"allow it with `kairos allow %s` and resume the run, or run the protocol's file with --with-servers", e.tool, e.run)
	}
	return fmt.Sprintf("no MCP server with the tool %q was started: run the protocol's file with --with-servers, or name servers with --servers FILE", e.tool)
}
