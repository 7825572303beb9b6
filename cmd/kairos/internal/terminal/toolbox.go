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

	"github.com/kairos-mcp/kairos/internal/mcpclient"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// toolbox is the MCP servers whose tools the agent may call. A server is started or
// reached when it is first needed. Safe for concurrent use.
type toolbox struct {
	servers Servers
	log     io.Writer
	// How long a server may take to start, and a call.
	startTimeout, callTimeout time.Duration

	mu   sync.Mutex // guards open; held while a server starts
	open map[string]*mcpclient.Connection
}

// toolRef is a tool of one server.
type toolRef struct {
	server string
	tool   mcpclient.Tool
}

func newToolbox(c Config) *toolbox {
	return &toolbox{
		servers: c.Servers, log: c.ServerLog, open: map[string]*mcpclient.Connection{},
		startTimeout: cmp.Or(c.StartTimeout, 20*time.Second), callTimeout: cmp.Or(c.CallTimeout, 5*time.Minute),
	}
}

// adopt adds a connection that somebody else closes.
func (t *toolbox) adopt(name string, c *client.Client) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, configured := t.servers[name]; !configured {
		t.open[name] = mcpclient.Over(name, c)
	}
}

// close ends the connections that were opened here.
func (t *toolbox) close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	var errs []error
	for name, c := range t.open {
		if _, ours := t.servers[name]; ours {
			errs = append(errs, c.Close())
		}
		delete(t.open, name)
	}
	return errors.Join(errs...)
}

func (t *toolbox) connection(ctx context.Context, name string) (*mcpclient.Connection, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c, ok := t.open[name]; ok {
		return c, nil
	}
	s, ok := t.servers[name]
	if !ok {
		return nil, fmt.Errorf("no MCP server %q is configured (mcpServers)", name)
	}
	ctx, done := within(ctx, t.startTimeout)
	defer done()
	c, err := mcpclient.Open(ctx, name, mcpclient.Server{Command: s.Command, Args: s.Args, Env: s.Env, URL: s.URL}, mcpclient.Options{
		Environ: Environment(), Stderr: &serverLog{server: name, to: orDiscard(t.log)}, Headers: s.Headers,
	})
	if err != nil {
		return nil, err
	}
	t.open[name] = c
	return c, nil
}

// within bounds how long a server may take to answer.
func within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %s", limit))
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
		c, err := t.connection(ctx, name)
		if err != nil {
			return nil, err
		}
		limited, done := within(ctx, t.startTimeout)
		tools, err := c.Tools(limited)
		done()
		if err != nil {
			return nil, err
		}
		for _, tool := range tools {
			refs = append(refs, toolRef{name, tool})
		}
	}
	return refs, nil
}

// find returns the tool that a challenge names.
func (t *toolbox) find(ctx context.Context, name string) (toolRef, error) {
	refs, err := t.all(ctx)
	if err != nil {
		return toolRef{}, err
	}
	found := mcpclient.Named(name, refs, func(ref toolRef) (server, tool string) { return ref.server, ref.tool.Name })
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

// call calls a tool. A result that reports a failure is a result.
func (t *toolbox) call(ctx context.Context, server, tool string, arguments map[string]any) (mcpclient.Result, error) {
	c, err := t.connection(ctx, server)
	if err != nil {
		return mcpclient.Result{}, err
	}
	call := mcpclient.Call{Tool: tool}
	if arguments != nil {
		if call.Arguments, err = json.Marshal(arguments); err != nil {
			return mcpclient.Result{}, err
		}
	}
	limited, done := within(ctx, t.callTimeout)
	defer done()
	res, err := c.Call(limited, call)
	var uncertain *mcpclient.UncertainError
	switch {
	case ctx.Err() != nil:
		return mcpclient.Result{}, context.Cause(ctx)
	case errors.As(err, &uncertain):
		err = fmt.Errorf("%w; whether the call was carried out is not known: find out before you resume the run", err)
	}
	return res, err
}

// readOnly reports whether the tool says that it changes nothing.
func (r toolRef) readOnly() bool { return r.tool.Class == mcpclient.Reads }

// noServerError: no server was started that could have the tool.
type noServerError struct {
	tool string
	// run: what the person did not accept that KAIROS does in it; "": they were not asked.
	run string
}

func (e *noServerError) Error() string {
	if e.run != "" {
		return fmt.Sprintf("you did not accept that KAIROS calls the tool %q, and no other server with it was started: "+
			"accept it with `kairos accept --run %s` and resume the run, or run the protocol's file with --with-servers", e.tool, e.run)
	}
	return fmt.Sprintf("no MCP server with the tool %q was started: run the protocol's file with --with-servers, or name servers with --servers FILE", e.tool)
}
