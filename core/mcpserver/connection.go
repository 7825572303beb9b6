package mcpserver

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/kairos-mcp/kairos/core/engine"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// peer carries messages to the client. It is the seam between the exchange and
// a transport; methods are called concurrently.
type peer interface {
	// call sends a request and waits for the reply: a result, the client's
	// own error, or an error when the reply can no longer come.
	call(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, *driver.ClientError, error)
	// notify sends a notification.
	notify(method string, params any) error
}

// connection is one client of the legacy eras, or the wire that a client of the
// modern era happens to use: then only its transport counts.
type connection struct {
	id        string
	transport string
	peer      peer
	questions *questions
	// background runs f in a goroutine that the transport waits for, with a
	// context that outlives the call.
	background func(f func(ctx context.Context))

	mu     sync.Mutex // guards the fields below
	client driver.Client
}

type connectionKey struct{}

func withConnection(ctx context.Context, c *connection) context.Context {
	return context.WithValue(ctx, connectionKey{}, c)
}

func connectionFrom(ctx context.Context) *connection {
	c, _ := ctx.Value(connectionKey{}).(*connection)
	return c
}

// initialized keeps what the client said of itself in the legacy handshake.
func (c *connection) initialized(p mcp.InitializeParams, version string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.client = describe(&p.ClientInfo, &p.Capabilities, version, c.transport)
}

func (c *connection) legacyClient() driver.Client {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.client
}

// describe says what a client can do. An elicitation capability that names no
// mode means forms, which was the only mode when it was introduced.
func describe(info *mcp.Implementation, caps *mcp.ClientCapabilities, era, transport string) driver.Client {
	d := driver.Client{Era: era, Transport: transport}
	if info != nil {
		d.Name, d.Version = info.Name, info.Version
	}
	if caps == nil {
		return d
	}
	if e := caps.Elicitation; e != nil {
		d.ElicitationURL = e.URL != nil
		d.ElicitationForm = e.Form != nil || e.URL == nil
	}
	d.Sampling = caps.Sampling != nil
	d.Roots = caps.Roots != nil
	return d
}

// caller says who makes this request, in either era.
func (s *Server) caller(ctx context.Context, req mcp.CallToolRequest) engine.Caller {
	conn := connectionFrom(ctx)
	c := engine.Caller{Principal: s.cfg.Principal, Space: s.cfg.Space, CanWait: s.cfg.PlainWait}
	if progressToken(req) != nil {
		c.CanWait = s.cfg.ProgressWait
	}
	transport := ""
	if conn != nil {
		transport = conn.transport
	}
	if server.IsModernRequest(ctx) {
		info := server.RequestProtocolInfoFromContext(ctx)
		c.Client = describe(info.ClientInfo, info.ClientCapabilities, info.ProtocolVersion, transport)
		return c
	}
	if conn == nil {
		return c
	}
	c.Connection = conn.id
	c.Client = conn.legacyClient()
	c.Client.Transport = transport
	c.Holding = func(id run.ID, seq int64) bool { return conn.questions.holds(questionKey{id, seq}) }
	return c
}

func progressToken(req mcp.CallToolRequest) any {
	if req.Params.Meta == nil {
		return nil
	}
	return req.Params.Meta.ProgressToken
}

// note travels with one request and brings back what mcp-go cannot carry.
type note struct {
	err *rpcError
	// requests replace the typed inputRequests of the result, which drop
	// zero temperatures and unknown fields.
	requests map[string]clientRequest
}

// clientRequest is a request for the client exactly as a driver rendered it.
type clientRequest struct {
	Method string          `json:"method"`
	Params json.RawMessage `json:"params,omitempty"`
}

type noteKey struct{}

func withNote(ctx context.Context, n *note) context.Context {
	return context.WithValue(ctx, noteKey{}, n)
}

func noteFrom(ctx context.Context) *note {
	n, _ := ctx.Value(noteKey{}).(*note)
	return n
}

// rpcError is a handler's error with the JSON-RPC code it deserves; mcp-go
// gives every one -32603.
type rpcError struct {
	code    int
	message string
}

func (e *rpcError) Error() string { return e.message }

func invalidParams(err error) error {
	return &rpcError{code: mcp.INVALID_PARAMS, message: err.Error()}
}
