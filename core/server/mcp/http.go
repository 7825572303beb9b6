package mcp

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/sessions"
	"github.com/mark3labs/mcp-go/mcp"
)

// JSON-RPC codes that HTTP servers of MCP use for what is wrong with the
// request itself.
const (
	codeBadRequest = -32000
	codeNoSession  = -32001
)

const transportHTTP = "http"

// httpTransport connects all clients that use HTTP.
type httpTransport struct {
	server   *Server
	log      *slog.Logger
	sessions liveSessions
	ids      sessions.IDs

	work     context.Context // done when calls must not continue
	stopWork context.CancelFunc
	running  sync.WaitGroup // requests and background work
	lastID   atomic.Int64   // of requests to clients; no two clients get the same, see newHTTPTransport

	mu     sync.Mutex // guards the field below
	closed bool
}

func newHTTPTransport(s *Server) *httpTransport {
	c := s.cfg
	t := &httpTransport{server: s, log: s.log, sessions: newSessions(c), ids: sessions.New(sessions.Config{
		Keys: c.StateKeys, Clock: c.Clock, Lifetime: c.SessionAge, Replica: c.Replica, Capabilities: c.Capabilities,
	})}
	// A client may still answer what another process has asked in its session. Such an answer
	// matches nothing here, because each process counts from another number. Some clients
	// keep ids in 32 bits.
	t.lastID.Store(rand.Int64N(1 << 30))
	t.work, t.stopWork = context.WithCancel(context.Background())
	return t
}

// HTTP serves the MCP endpoint: Streamable HTTP of 2025-11-25 and older, with
// sessions, and of 2026-07-28, without, on one path. Origin, Host, limits of
// rate and size are for the handler around it to check; a body that a
// http.MaxBytesReader cuts is answered with 413.
//
// Streams stay open until Server.Close, which a http.Server's Shutdown would
// wait for: call Close before it, or from RegisterOnShutdown.
func (s *Server) HTTP() http.Handler { return s.http }

// ServeHTTP serves one request of any client.
func (t *httpTransport) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	defer t.recovered(r.Context(), func() {
		refuse500(rw, nil)
	})
	if rejectMethod(rw, r) {
		return
	}
	who, err := t.identify(r)
	if err != nil {
		t.rejectCaller(rw, r, err)
		return
	}
	var p *post
	if r.Method == http.MethodPost {
		if p = t.receive(rw, r, who); p == nil {
			return
		}
	}
	if !t.enter() { // not before: Close does not wait for half a message
		unavailable(rw, "the server is shutting down")
		return
	}
	defer t.running.Done()
	switch r.Method {
	case http.MethodPost:
		p.serveEra()
	case http.MethodGet:
		t.get(rw, r, who)
	case http.MethodDelete:
		t.delete(rw, r, who)
	}
}

// rejectMethod replies 405 to unsupported methods and reports whether it did. Without
// a session, and in the modern era, only POST is supported.
func rejectMethod(rw http.ResponseWriter, r *http.Request) bool {
	allowed := http.MethodPost
	switch r.Method {
	case http.MethodPost:
		return false
	case http.MethodGet, http.MethodDelete:
		if r.Header.Get(mcp.HeaderSessionID) != "" && !mcp.IsModernProtocol(r.Header.Get(mcp.HeaderProtocolVersion)) {
			return false
		}
	default:
		allowed = "GET, POST, DELETE"
	}
	rw.Header().Set("Allow", allowed)
	refuseHTTP(rw, http.StatusMethodNotAllowed, codeBadRequest, r.Method+" is not served here without a session: use POST")
	return true
}

func (t *httpTransport) identify(r *http.Request) (access.Caller, error) {
	if t.server.cfg.Identify == nil {
		return t.server.operator(), nil
	}
	return t.server.cfg.Identify(r)
}

// holder names who has a session: the principal with what it has shown. A session of a token
// that was revoked is nobody's. Tokens of an identity provider live for minutes, and the next one
// continues the session if it was issued to the same program.
func holder(who access.Caller) string {
	switch {
	case who.Credential == "":
		return who.Principal
	case who.Method == access.ByProvider:
		return who.Principal + " oidc:" + who.Application
	}
	return who.Principal + " " + who.Credential
}

// clientOf names who shares the limits of sessions: the principal, and without a login the
// address. Of IPv6 it is the network of 64 bits, because one client has all of its addresses.
func (t *httpTransport) clientOf(r *http.Request, who access.Caller) string {
	if t.server.cfg.Identify != nil {
		return who.Principal
	}
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return "" // of a listener without addresses
	}
	ip := at.Addr().Unmap().WithZone("")
	if network, err := ip.Prefix(64); err == nil && ip.Is6() {
		return network.String()
	}
	return ip.String()
}

func (t *httpTransport) rejectCaller(rw http.ResponseWriter, r *http.Request, err error) {
	var f *fault.Error
	if errors.As(err, &f) && f.Code == fault.Forbidden {
		refuseHTTP(rw, http.StatusForbidden, codeBadRequest, f.Message)
		return
	}
	t.log.ErrorContext(r.Context(), "caller not identified", "error", err)
	refuse500(rw, nil)
}

// enter counts a request in, or returns false after close.
func (t *httpTransport) enter() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	t.running.Add(1)
	return true
}

// background runs f with a context that outlives the request that started it.
func (t *httpTransport) background(f func(context.Context)) {
	t.running.Go(func() {
		defer t.recovered(t.work, func() {})
		f(t.work)
	})
}

// recovered keeps a panic in one handler from ending the process or the connection.
func (t *httpTransport) recovered(ctx context.Context, answer func()) {
	switch r := recover(); r {
	case nil:
	case http.ErrAbortHandler:
		panic(r)
	default:
		t.log.ErrorContext(ctx, "panic in a request handler", "panic", r, "stack", string(debug.Stack()))
		answer()
	}
}

// cancelTime is how long calls may take to end after they were cancelled.
const cancelTime = time.Second

// close ends all sessions and gives calls in flight the time limit to finish, so that
// answers that arrived are recorded. Then it cancels them.
func (t *httpTransport) close(limit time.Duration) error {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.sessions.close()
	defer t.stopWork()
	if !drained(&t.running, t.stopWork, limit) {
		return errors.New("HTTP calls did not end with the server: a client reads nothing, or the engine hangs")
	}
	return nil
}

// drained waits for calls, cancels them after the time limit, and reports whether they
// have ended then.
func drained(running *sync.WaitGroup, cancel func(), limit time.Duration) bool {
	done := make(chan struct{})
	go func() {
		defer close(done)
		running.Wait()
	}()
	timeout := time.AfterFunc(limit, cancel)
	defer timeout.Stop()
	select {
	case <-done:
		return true
	case <-time.After(limit + cancelTime):
		return false
	}
}
