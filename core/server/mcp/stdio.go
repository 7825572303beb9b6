package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// ServeStdio serves one client on a pair of streams, one JSON message per line,
// until in ends (then it returns nil) or ctx is done. Calls in flight get
// Config.DrainTimeout to finish; a reply that waits for the client does not.
//
// When ctx ends first, in is closed if it is an io.Closer, so that a read that
// blocks on it returns.
func (s *Server) ServeStdio(ctx context.Context, in io.Reader, out io.Writer) error {
	work, stopWork := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWork()
	reading, stopReading := context.WithCancel(ctx)
	defer stopReading()
	l := &stdioConn{server: s, log: s.log, out: out, broken: make(chan struct{})}
	conn := &connection{
		id: uuid.NewString(), questions: newQuestions(), gone: make(chan struct{}),
		background: func(f func(context.Context)) {
			l.running.Go(func() {
				defer l.recovered(work, nil)
				f(work)
			})
		},
	}
	if !s.stdio.add(l, stdioServed{conn, stopReading}) {
		return errors.New("the server is closed")
	}
	defer s.stdio.remove(l)
	l.session = &session{id: conn.id, conn: conn}
	from := &origin{transport: "stdio", who: s.operator(), conn: conn, peer: l}
	serving := s.mcp.WithContext(withOrigin(work, from), l.session)
	err := l.serve(serving, reading.Done(), readLines(reading, in))
	stopReading()
	if c, ok := in.(io.Closer); ok && err != nil {
		err = errors.Join(err, c.Close())
	}
	if errors.Is(err, errStopped) {
		err = ctx.Err() // nil after Close
	}
	conn.questions.abandon()
	s.stdio.retire(l) // nothing more is started that drain would have to wait for
	return errors.Join(err, l.drain(stopWork, s.cfg.DrainTimeout))
}

// errStopped: the connection was ended from this side.
var errStopped = errors.New("stopped")

// stdioConns are the links that are being served. The zero value is ready.
type stdioConns struct {
	mu     sync.Mutex // guards the fields below
	closed bool
	links  map[*stdioConn]stdioServed
	served sync.WaitGroup
}

// stdioServed is one link with its client and the function that ends it.
type stdioServed struct {
	conn *connection
	stop func()
}

// add keeps a link until it is removed, or returns false after close.
func (ls *stdioConns) add(l *stdioConn, as stdioServed) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.closed {
		return false
	}
	if ls.links == nil {
		ls.links = map[*stdioConn]stdioServed{}
	}
	ls.links[l] = as
	ls.served.Add(1)
	return true
}

// retire ends the notifications of a link.
func (ls *stdioConns) retire(l *stdioConn) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	delete(ls.links, l)
}

func (ls *stdioConns) remove(l *stdioConn) {
	ls.retire(l)
	ls.served.Done()
}

// close ends all links. It does not wait for them.
func (ls *stdioConns) close() {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.closed = true
	for _, l := range ls.links {
		l.stop()
	}
}

// notify sends a notification to the clients that have completed a legacy handshake
// and are among those to send it to. It does not wait for clients that do not read.
func (ls *stdioConns) notify(method string, to func(*connection) bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for l, served := range ls.links {
		if served.conn.legacyClient().Era == "" || !to(served.conn) {
			continue
		}
		served.conn.background(func(ctx context.Context) {
			if err := l.notify(method, map[string]any{}); err != nil {
				l.log.DebugContext(ctx, "notification not sent", "method", method, "error", err)
			}
		})
	}
}

// stdioConn is our own link between the streams and mcp-go. mcp-go's would
// share one session among all servers of the process, serve five calls at a
// time, drop the code of a client's error and lose large request ids.
type stdioConn struct {
	server *Server
	log    *slog.Logger

	running sync.WaitGroup // handlers and background work
	session *session

	writing sync.Mutex // guards out and failed
	out     io.Writer
	failed  error         // of the first write that failed
	broken  chan struct{} // closed with failed

	lastID   atomic.Int64
	requests openRequests
	inflight inflights
}

// serve takes messages until the input ends, done is closed, or the client
// cannot be written to.
func (l *stdioConn) serve(ctx context.Context, done <-chan struct{}, lines <-chan line) error {
	for {
		select {
		case <-done:
			return errStopped
		case <-l.broken:
			return fmt.Errorf("write to client: %w", l.failed)
		case in, ok := <-lines:
			if !ok {
				return nil
			}
			l.receive(ctx, in)
		}
	}
}

// receive sorts one line: a reply to us, a notification, a request, or rubbish.
func (l *stdioConn) receive(ctx context.Context, in line) {
	if in.tooLong {
		l.refuse(nil, mcp.INVALID_REQUEST, fmt.Sprintf("message longer than %d bytes", maxMessage))
		return
	}
	m, kind, problem := read(in.text)
	if problem != nil {
		l.send(ctx, refusal(m.ID, problem))
		return
	}
	switch kind {
	case isAnswer:
		if !l.requests.take(m) {
			l.log.WarnContext(ctx, "client answered a question that is not open")
		}
	case isNotification:
		l.notified(ctx, m, in.text)
	case isRequest:
		l.request(ctx, m, in.text)
	}
}

func (l *stdioConn) notified(ctx context.Context, m rpcMessage, raw json.RawMessage) {
	if *m.Method == string(mcp.MethodNotificationCancelled) {
		l.inflight.cancelled(m.Params)
		return
	}
	defer l.recovered(ctx, nil)
	l.server.mcp.HandleMessage(ctx, raw)
}

// request serves a request in a goroutine of its own. Only initialize is served
// at once, since what follows depends on it.
func (l *stdioConn) request(ctx context.Context, m rpcMessage, raw json.RawMessage) {
	ctx, cancel := context.WithCancel(ctx)
	r, err := l.inflight.add(m.ID, cancel)
	switch {
	case errors.Is(err, errTwice):
		cancel()
		// With the id it would be taken for the reply to the first.
		l.refuse(nil, mcp.INVALID_REQUEST, fmt.Sprintf("id %s: %v", m.ID, err))
	case err != nil:
		cancel()
		l.refuse(m.ID, mcp.INTERNAL_ERROR, err.Error())
	case *m.Method == string(mcp.MethodInitialize):
		l.handle(ctx, m, r, raw)
	default:
		l.running.Go(func() { l.handle(ctx, m, r, raw) })
	}
}

func (l *stdioConn) handle(ctx context.Context, m rpcMessage, r *inflight, raw json.RawMessage) {
	defer r.cancel()
	defer l.recovered(ctx, m.ID)
	defer l.inflight.remove(m.ID, r) // also after a panic
	response := l.server.respond(ctx, m, raw)
	wanted := l.inflight.remove(m.ID, r)
	l.session.sendNotes(func(v any) { l.send(ctx, v) })
	if response != nil && wanted {
		l.send(ctx, response)
	}
}

// recovered keeps a panic in one handler from ending the process.
func (l *stdioConn) recovered(ctx context.Context, id json.RawMessage) {
	if r := recover(); r != nil {
		l.log.ErrorContext(ctx, "panic in a request handler", "panic", r, "stack", string(debug.Stack()))
		if id != nil {
			l.refuse(id, mcp.INTERNAL_ERROR, "internal error")
		}
	}
}

func (l *stdioConn) refuse(id json.RawMessage, code int, text string) {
	l.send(context.Background(), refusal(id, &replyError{Code: code, Message: text}))
}

// send logs what it cannot write; serve ends with the error.
func (l *stdioConn) send(ctx context.Context, v any) {
	if err := l.write(v); err != nil {
		l.log.WarnContext(ctx, "message to client not sent", "error", err)
	}
}

func (l *stdioConn) write(v any) error {
	text, err := api.Encode(v, "")
	if err != nil {
		return fmt.Errorf("encode message: %w", err)
	}
	l.writing.Lock()
	defer l.writing.Unlock()
	if l.failed != nil {
		return l.failed
	}
	if _, err := l.out.Write(append(text, '\n')); err != nil {
		l.failed = err
		close(l.broken)
		return err
	}
	return nil
}

// hears is always true: whoever is connected reads.
func (l *stdioConn) reachable() bool { return true }

// again sends a question again if told to: what was written to a stream arrives.
func (l *stdioConn) again(q *question, due bool) bool {
	return due && l.requests.send(q.posed, l.lastID.Add(1), l.write) == nil
}

// call sends a request to the client and waits for its reply.
func (l *stdioConn) call(
	ctx context.Context, q *question, r clientRequest,
) (json.RawMessage, *driver.ClientError, error) {
	q.posed = pose(r)
	defer l.requests.close(q.posed)
	if err := l.requests.send(q.posed, l.lastID.Add(1), l.write); err != nil {
		return nil, nil, fmt.Errorf("ask client: %w", err)
	}
	return q.answered(ctx, l.session.conn.gone, func() {
		for _, id := range l.requests.close(q.posed) {
			l.send(ctx, withdrawal(id))
		}
	})
}

func (l *stdioConn) notify(method string, params any) error { return l.write(notice(method, params)) }

// drain lets calls finish after the client has gone: an answer that was taken
// is worth recording. Calls do not wait for people any more, and longer ones are cancelled.
func (l *stdioConn) drain(stopWork context.CancelFunc, limit time.Duration) error {
	close(l.session.conn.gone)
	if !drained(&l.running, stopWork, limit) {
		return errors.New("calls did not end after their connection: the client reads nothing, or the engine hangs")
	}
	return nil
}
