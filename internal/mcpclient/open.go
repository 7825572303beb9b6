package mcpclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/kairos-mcp/kairos/sdk/plain"
)

// MaxMessage is how many bytes one message of a server may have.
const MaxMessage = 8 << 20

// ErrLogin means that a server at an address does not take the headers that it is
// sent: a login is missing or has expired.
var ErrLogin = errors.New("it demands a login")

// maxAsked is how many requests of a server may be without an answer at a time. No
// capability of a client is declared, so there is little that a server can ask for.
const maxAsked = 100

// These errors end a connection.
var (
	errTooLarge = fmt.Errorf("a message is larger than %d bytes", MaxMessage)
	errNotJSON  = errors.New("a message is not JSON")
	errFloods   = fmt.Errorf("it sent more than %d requests without waiting for the answers", maxAsked)
)

// Connection is an open connection to a server. Safe for concurrent use.
type Connection struct {
	name    string
	client  *client.Client
	process *process // nil: it has an address
	limit   *limit

	watchers watchers
}

// Options are what a connection needs besides the server. The zero value works.
type Options struct {
	// Environ is the environment of a program, to which the server's own variables are
	// added; nil: the variables of Passed.
	Environ []string
	// Stderr receives what a program writes to its standard error; nil: only the end of
	// it is kept, for errors.
	Stderr io.Writer
	// Headers are sent to an address besides the server's own.
	Headers map[string]string
}

// Open starts the server, or connects to its address, and shakes hands. The
// server is told of no capability of a client: it can ask neither a person nor a
// model through KAIROS.
func Open(ctx context.Context, name string, s Server, o Options) (*Connection, error) {
	c := &Connection{name: name, limit: &limit{}}
	carried, err := c.carrier(s, o)
	if err != nil {
		return nil, c.failed("start", err)
	}
	c.client = client.NewClient(carried)
	c.client.OnNotification(c.watchers.notified)
	// The connection outlives the call that needed it first.
	if err := c.client.Start(context.WithoutCancel(ctx)); err != nil {
		return nil, errors.Join(c.unopened(ctx, err), c.end(0))
	}
	if err := c.shakeHands(ctx); err != nil {
		return nil, errors.Join(c.unopened(ctx, err), c.end(0))
	}
	return c, nil
}

// shakeHands agrees on a version of MCP. A program is asked to initialize first: one that
// is older than 2026-07-28 may never answer server/discover, with which the client begins
// elsewhere, and 5 seconds would pass. A program that refuses to initialize is newer.
func (c *Connection) shakeHands(ctx context.Context) error {
	var init mcp.InitializeRequest
	init.Params.ClientInfo = mcp.Implementation{Name: "kairos", Version: "0.1.0"}
	if c.Local() {
		init.Params.ProtocolVersion = mcp.LATEST_LEGACY_PROTOCOL_VERSION
		_, err := c.client.Initialize(ctx, init)
		if broken := (*transport.Error)(nil); err == nil || errors.As(err, &broken) {
			return err
		}
		init.Params.ProtocolVersion = ""
	}
	_, err := c.client.Initialize(ctx, init)
	return err
}

// Over calls the tools of a server on a connection that somebody else opened and closes.
func Over(name string, open *client.Client) *Connection {
	c := &Connection{name: name, client: open, limit: &limit{}}
	open.OnNotification(c.watchers.notified)
	return c
}

func (c *Connection) carrier(s Server, o Options) (transport.Interface, error) {
	if s.URL == "" {
		var err error
		if c.process, err = start(s, o); err != nil {
			return nil, err
		}
		from, to := &bounded{from: c.process.out, limit: c.limit}, answers{c.process.in, c.limit}
		pipes := transport.NewIO(from, to, io.NopCloser(strings.NewReader("")))
		transport.WithCommandLogger(slog.New(slog.DiscardHandler))(pipes) // calls return what it would log
		return answering{pipes}, nil
	}
	headers := map[string]string{}
	maps.Copy(headers, o.Headers)
	for header, file := range s.HeaderFiles {
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("header %s: %w", header, err)
		}
		headers[header] = strings.TrimSpace(string(b))
	}
	over, err := transport.NewStreamableHTTP(s.URL, transport.WithHTTPHeaders(headers), transport.WithHTTPBasicClient(&http.Client{Transport: &remote{limit: c.limit}}))
	if err != nil {
		return nil, err
	}
	return answeringHTTP{over}, nil
}

// answering and answeringHTTP say of a request whether it was answered with a result,
// whatever can be read of that.
type (
	answering     struct{ *transport.Stdio }
	answeringHTTP struct{ *transport.StreamableHTTP }
)

// SendRequest implements transport.Interface.
func (a answering) SendRequest(ctx context.Context, req transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
	return noted(ctx)(a.Stdio.SendRequest(ctx, req))
}

// SendRequest implements transport.Interface.
func (a answeringHTTP) SendRequest(ctx context.Context, req transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
	return noted(ctx)(a.StreamableHTTP.SendRequest(ctx, req))
}

// answeredKey is of the *bool that says whether there was a result.
type answeredKey struct{}

func noted(ctx context.Context) func(*transport.JSONRPCResponse, error) (*transport.JSONRPCResponse, error) {
	return func(res *transport.JSONRPCResponse, err error) (*transport.JSONRPCResponse, error) {
		if answered, ok := ctx.Value(answeredKey{}).(*bool); ok && res != nil && err == nil {
			*answered = res.Error == nil
		}
		return res, err
	}
}

// failed says why something did not work, as far as anything is known.
func (c *Connection) failed(what string, err error) error {
	if why := c.limit.hit(); why != nil {
		err = why
	}
	if errors.Is(err, transport.ErrAuthorizationRequired) {
		err = ErrLogin
	}
	return fmt.Errorf("MCP server %q: %s: %w", c.name, what, err)
}

// unopened says why the server could not be opened, and what it said itself. Once it is
// open, its words may be part of a result, which is not shown.
func (c *Connection) unopened(ctx context.Context, err error) error {
	said, why := c.explained(ctx, err, errNoServer)
	if c.process != nil {
		written, code, ended := c.process.said()
		if ended && errors.Is(why, errNoServer) {
			why, said = fmt.Errorf("the program ended with exit code %d before it answered: is it an MCP server on its standard input and output?", code), ""
		}
		said = strings.TrimSpace(said + " " + written)
	}
	return c.quoting(c.failed("start", why), said)
}

var (
	errNoServer  = errors.New("it did not answer as an MCP server does")
	errRedirects = errors.New("it redirects to another address, and headers are sent only to the one that is configured")
)

// explained separates what is known of an error from what the server said in it.
func (c *Connection) explained(ctx context.Context, err, otherwise error) (said string, why error) {
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case c.limit.hit() != nil, errors.Is(err, ErrLogin), errors.Is(err, transport.ErrAuthorizationRequired):
		return "", err
	}
	if errors.Is(err, errRedirects) {
		otherwise = errRedirects
	}
	return plain.LineWithin(err.Error(), maxSaid), otherwise
}

// maxSaid is how many bytes are kept of what a server says of its failure.
const maxSaid = 300

// SaidError is an error together with words of the server. They are for the people who
// look into it: an agent could take them for words of KAIROS.
type SaidError struct {
	err  error
	said string
}

// Error is what happened, and what the server said.
func (e *SaidError) Error() string { return e.err.Error() + "; it said: " + e.said }

// Unwrap is what happened, without words of the server.
func (e *SaidError) Unwrap() error { return e.err }

func (c *Connection) quoting(err error, said string) error {
	if said == "" {
		return err
	}
	return &SaidError{err, said}
}

// Local reports whether the server is a process that was started with the connection.
func (c *Connection) Local() bool { return c.process != nil }

// Close ends the connection, and a server that was started with it.
func (c *Connection) Close() error { return c.end(grace) }

func (c *Connection) end(grace time.Duration) error {
	var err error
	if c.client != nil {
		err = c.client.Close()
	}
	if c.process != nil {
		c.process.stop(grace)
		return nil // its pipes are closed, whoever was first
	}
	return err
}

// limit counts the requests of a server that are being answered, and remembers why a
// connection was ended here.
type limit struct {
	asked atomic.Int64

	mu  sync.Mutex
	why error
}

// ask counts a request; it returns errFloods for one too many.
func (l *limit) ask() error {
	if l.asked.Add(1) > maxAsked {
		return l.end(errFloods)
	}
	return nil
}

func (l *limit) end(why error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.why = why
	return why
}

// hit is nil for a connection that was not ended.
func (l *limit) hit() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.why
}

// message is what tells requests, notifications and answers apart.
type message struct {
	Method json.RawMessage `json:"method"`
	ID     json.RawMessage `json:"id"`
}

// has reports whether a member is there: null is what some servers write where there is none.
func (message) has(member json.RawMessage) bool { return len(member) > 0 && string(member) != "null" }

// answers writes to a program, one message at a time, and counts the answers.
type answers struct {
	io.WriteCloser
	limit *limit
}

// Write implements io.Writer.
func (a answers) Write(p []byte) (int, error) {
	n, err := a.WriteCloser.Write(p)
	var m message
	if json.Unmarshal(p, &m) == nil && !m.has(m.Method) {
		a.limit.asked.Add(-1)
	}
	return n, err
}

// bounded reads until a line is too long, or begins as a message does and is not JSON,
// or until too many requests are without an answer. A line of another kind, such as of
// a log, is passed over by the client.
type bounded struct {
	from  io.Reader
	limit *limit
	line  []byte // what was read of the line
}

// Read implements io.Reader.
func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.from.Read(p)
	for rest := p[:n]; len(rest) > 0; {
		line, after, ended := bytes.Cut(rest, []byte{'\n'})
		b.line, rest = append(b.line, line...), after
		switch {
		case len(b.line) > MaxMessage:
			return 0, b.limit.end(errTooLarge)
		case ended:
			if err := b.take(); err != nil {
				return 0, err
			}
		}
	}
	return n, err
}

// take looks at a line that has ended.
func (b *bounded) take() error {
	line := b.line
	b.line = b.line[:0]
	if !bytes.HasPrefix(bytes.TrimSpace(line), []byte{'{'}) {
		return nil
	}
	var m message
	if json.Unmarshal(line, &m) != nil {
		return b.limit.end(errNotJSON)
	}
	if m.has(m.Method) && m.has(m.ID) {
		return b.limit.ask()
	}
	return nil
}

// remote sends requests to a server's address and nowhere else, and bounds what
// comes back.
type remote struct{ limit *limit }

// RoundTrip implements http.RoundTripper. It counts what is under way, because an answer to
// a request of the server is a request of its own here.
func (r *remote) RoundTrip(req *http.Request) (*http.Response, error) {
	defer r.limit.asked.Add(-1)
	if err := r.limit.ask(); err != nil {
		return nil, err
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode == http.StatusUnauthorized || res.StatusCode == http.StatusForbidden {
		_ = res.Body.Close()
		return nil, ErrLogin
	}
	if res.StatusCode >= 300 && res.StatusCode < 400 {
		_ = res.Body.Close()
		return nil, fmt.Errorf("%w; to %s", errRedirects, plain.LineWithin(res.Header.Get("Location"), maxSaid))
	}
	res.Body = struct {
		io.Reader
		io.Closer
	}{&total{from: res.Body, limit: r.limit}, res.Body}
	return res, nil
}

// total reads until there is too much.
type total struct {
	from  io.Reader
	limit *limit
	read  int
}

// Read implements io.Reader.
func (t *total) Read(p []byte) (int, error) {
	if why := t.limit.hit(); why != nil {
		return 0, why
	}
	n, err := t.from.Read(p)
	if t.read += n; t.read > MaxMessage {
		return 0, t.limit.end(errTooLarge)
	}
	return n, err
}
