package mcp

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/server/toolset"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// peer sends messages to the client of one request; a transport implements it. Methods
// are called concurrently.
type peer interface {
	// reachable reports whether a request would reach the client.
	reachable() bool
	// call sends a question, sets q.posed, closes q.out, and waits for the reply: a
	// result, the client's own error, or an error if no reply can arrive;
	// errUnreachable if the question could not be sent.
	call(ctx context.Context, q *question, r clientRequest) (json.RawMessage, *driver.ClientError, error)
	// again sends a copy of the question that this request waits for, and reports
	// whether it did. It does so if it is due, or if the stream of the newest copy broke.
	again(q *question, due bool) bool
	// notify sends a notification.
	notify(method string, params any) error
}

// origin is the source of a request.
type origin struct {
	transport string
	who       access.Caller // as it was identified
	conn      *connection   // nil: a request without a connection, whose client cannot be asked
	peer      peer          // nil without a connection
	era       string        // named by a request without a connection
}

// connection is one client of the legacy eras, or a connection that requests of the
// modern era use.
type connection struct {
	id        string
	questions *questions
	gone      chan struct{} // closed when the connection ends, or the client sends no more
	trips     roundTrips
	// background runs f in a goroutine that the transport waits for, with a
	// context that outlives the call.
	background func(f func(ctx context.Context))

	mu      sync.Mutex // guards the fields below
	client  driver.Client
	earlier earlier
	wants   mcp.LoggingLevel // see logged
	// promptSpaces are the spaces of the list of prompts that the client knows; nil: it
	// knows none.
	promptSpaces []string
}

type originKey struct{}

func withOrigin(ctx context.Context, o *origin) context.Context {
	return context.WithValue(ctx, originKey{}, o)
}

// originOf is never nil.
func originOf(ctx context.Context) *origin {
	if o, ok := ctx.Value(originKey{}).(*origin); ok {
		return o
	}
	return &origin{}
}

// initialized keeps the description of the client from the legacy handshake.
func (c *connection) initialized(client driver.Client) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.client = client
}

// maxName limits the kept part of a client's name and version, in bytes.
const maxName = 256

func (c *connection) legacyClient() driver.Client {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.client
}

// describe returns what a client can do. An elicitation capability without a mode means
// forms, the only mode when it was introduced.
func describe(info *mcp.Implementation, caps *mcp.ClientCapabilities, era, transport string) driver.Client {
	d := driver.Client{Era: era, Transport: transport}
	if info != nil {
		// They are kept with the connection and with the questions of a run.
		d.Name, d.Version = toolset.Clipped(info.Name, maxName), toolset.Clipped(info.Version, maxName)
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

// maxDeclaration limits the kept capabilities of a client, in bytes of JSON.
const maxDeclaration = 8 << 10

// declaration returns all capabilities that a client declared, for drivers and
// conditions. An elicitation without a mode gets the mode form. A declaration that is
// too large is dropped: then only the result of describe counts.
func (cs callers) declaration(ctx context.Context, capabilities map[string]any) json.RawMessage {
	if len(capabilities) == 0 {
		return nil
	}
	if e, ok := capabilities["elicitation"].(map[string]any); ok && e["form"] == nil && e["url"] == nil {
		capabilities = maps.Clone(capabilities)
		capabilities["elicitation"] = map[string]any{"form": map[string]any{}}
	}
	raw, err := json.Marshal(capabilities)
	if err != nil || len(raw) > maxDeclaration {
		cs.log.WarnContext(ctx, "the client's capabilities are too large to be kept: only elicitation, sampling and roots count",
			"bytes", len(raw), "limit", maxDeclaration)
		return nil
	}
	return raw
}

// capabilitiesIn reads what the client declared in an initialize request.
func capabilitiesIn(message json.RawMessage) map[string]any {
	var m struct {
		Params struct {
			Capabilities map[string]any `json:"capabilities"`
		} `json:"params"`
	}
	if json.Unmarshal(message, &m) != nil {
		return nil
	}
	return m.Params.Capabilities
}

// callers identifies who makes a request, and how long it may wait.
type callers struct {
	plainWait, progressWait time.Duration // without and with a progress token
	log                     *slog.Logger
	groups                  func() []string // of callers that are not identified; may be nil
	identifies              bool            // callers over HTTP are identified
}

// of returns the caller of a request of either era.
func (cs callers) of(ctx context.Context, req mcp.CallToolRequest) access.Caller {
	from := originOf(ctx)
	c := from.who
	c.CanWait = cs.plainWait
	if cs.groups != nil && (from.transport != transportHTTP || !cs.identifies) {
		c.Groups = slices.Concat(c.Groups, cs.groups())
	}
	if progressToken(req) != nil {
		c.CanWait = cs.progressWait
	}
	if server.IsModernRequest(ctx) {
		info := server.RequestProtocolInfoFromContext(ctx)
		c.Client = describe(info.ClientInfo, info.ClientCapabilities, info.ProtocolVersion, from.transport)
		if req.Params.Meta != nil {
			declared, _ := req.Params.Meta.AdditionalFields[mcp.MetaKeyClientCapabilities].(map[string]any)
			c.Client.Capabilities = cs.declaration(ctx, declared)
		}
		return c
	}
	conn := from.conn
	if conn == nil {
		c.Client = driver.Client{Era: from.era, Transport: from.transport}
		return c
	}
	c.Connection = conn.id
	c.Client = conn.legacyClient()
	c.Client.Transport = from.transport
	if !from.peer.reachable() {
		c.Client = unreachable(c.Client)
	}
	c.Holding = func(id run.ID, seq int64) bool { return conn.questions.isOpen(questionKey{id, seq}) }
	c.Asked = func(id run.ID, seq int64) { conn.questions.expect(questionKey{id, seq}) }
	return c
}

// unreachable returns the client without capabilities that need a connection to it.
func unreachable(c driver.Client) driver.Client {
	return driver.Client{Name: c.Name, Version: c.Version, Era: c.Era, Transport: c.Transport}
}

// progressToken returns the token of a call, or nil. Every progress note repeats it, so
// one that is longer than an id may be, or is not a string or a number, does not count.
func progressToken(req mcp.CallToolRequest) any {
	if req.Params.Meta == nil {
		return nil
	}
	switch token := any(req.Params.Meta.ProgressToken).(type) {
	case string:
		if len(token) <= maxID {
			return token
		}
	case float64, int, int64, json.Number:
		return token
	}
	return nil
}

// note belongs to one request and returns what mcp-go cannot carry.
type note struct {
	err *rpcError
	// requests replace the typed inputRequests of the result, which drop
	// zero temperatures and unknown fields.
	requests map[string]clientRequest
	// errorCode of an error result or of a run error.
	errorCode string
	// data of a JSON-RPC error. If it is nil that of mcp-go is sent.
	data any
	// prompt is the name that the client sent in prompts/get, see menu.
	prompt string
	// message is the request as it was received.
	message json.RawMessage
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

// noteCode keeps the code of an error result for the Observer.
func noteCode(ctx context.Context, code string) {
	if n := noteFrom(ctx); n != nil {
		n.errorCode = code
	}
}

// rpcError is a handler's error with its own JSON-RPC code. mcp-go replaces every code
// by -32603.
type rpcError struct {
	code    int
	message string
}

func (e *rpcError) Error() string { return e.message }

func invalidParams(err error) error {
	return &rpcError{code: mcp.INVALID_PARAMS, message: err.Error()}
}
