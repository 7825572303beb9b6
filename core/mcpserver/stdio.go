package mcpserver

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// Bounds of a stdio connection.
const (
	maxLine     = 32 << 20 // bytes of one message
	maxInFlight = 1024     // requests being served
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
	l := &stdioLink{
		server: s, log: s.log, out: out,
		broken: make(chan struct{}), gone: make(chan struct{}),
		notes:   make(chan mcp.JSONRPCNotification, maxInFlight),
		pending: map[int64]chan clientReply{}, inflight: map[string]*inflight{},
	}
	conn := &connection{
		id: uuid.NewString(), transport: "stdio", peer: l, questions: newQuestions(),
		background: func(f func(context.Context)) {
			l.running.Go(func() {
				defer l.recovered(work, nil)
				f(work)
			})
		},
	}
	if !s.register(l, link{conn, stopReading}) {
		return errors.New("the server is closed")
	}
	defer s.unregister(l)
	serving := s.mcp.WithContext(withConnection(work, conn), &session{id: conn.id, link: l})
	err := l.serve(serving, reading.Done(), readLines(reading, in))
	stopReading()
	if c, ok := in.(io.Closer); ok && err != nil {
		err = errors.Join(err, c.Close())
	}
	if errors.Is(err, errStopped) {
		err = ctx.Err() // nil after Close
	}
	conn.questions.abandon()
	return errors.Join(err, l.drain(stopWork, s.cfg.DrainTimeout))
}

// errStopped: the connection was ended from this side.
var errStopped = errors.New("stopped")

// register keeps a link until it is unregistered; false: the server is closed.
func (s *Server) register(l *stdioLink, as link) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.links[l] = as
	s.served.Add(1)
	return true
}

func (s *Server) unregister(l *stdioLink) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.links, l)
	s.served.Done()
}

// stdioLink is our own link between the streams and mcp-go. mcp-go's would
// share one session among all servers of the process, serve five calls at a
// time, drop the code of a client's error and lose large request ids.
type stdioLink struct {
	server *Server
	log    *slog.Logger

	running sync.WaitGroup // handlers and background work
	gone    chan struct{}  // closed when the client sends no more
	notes   chan mcp.JSONRPCNotification

	writing sync.Mutex // guards out and failed
	out     io.Writer
	failed  error         // of the first write that failed
	broken  chan struct{} // closed with failed

	mu       sync.Mutex // guards the fields below
	lastID   int64
	pending  map[int64]chan clientReply
	inflight map[string]*inflight
}

type clientReply struct {
	result json.RawMessage
	err    *driver.ClientError
}

// inflight is a request being served.
type inflight struct {
	cancel    context.CancelFunc
	cancelled bool // by the client, which wants no reply; guarded by stdioLink.mu
}

// rpcMessage is any JSON-RPC message.
type rpcMessage struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  *string         `json:"method"`
	Params  json.RawMessage `json:"params"`
	Result  json.RawMessage `json:"result"`
	Error   json.RawMessage `json:"error"`
}

// line is one line of input, or why there is none.
type line struct {
	text    []byte
	tooLong bool
}

// readLines reads in a goroutine of its own, because a read cannot be
// cancelled. The channel is closed at the end of the input.
func readLines(ctx context.Context, in io.Reader) <-chan line {
	lines := make(chan line)
	go func() {
		defer close(lines)
		r := bufio.NewReaderSize(in, 64<<10)
		for {
			l, err := readLine(r)
			if len(bytes.TrimSpace(l.text)) > 0 || l.tooLong {
				select {
				case lines <- l:
				case <-ctx.Done():
					return
				}
			}
			if err != nil {
				return
			}
		}
	}()
	return lines
}

// readLine reads to the end of the line, and drops it when it is too long.
func readLine(r *bufio.Reader) (line, error) {
	var l line
	for {
		part, err := r.ReadSlice('\n')
		if len(l.text)+len(part) > maxLine {
			l.text, l.tooLong = nil, true
		}
		if !l.tooLong {
			l.text = append(l.text, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return l, err
		}
	}
}

// serve takes messages until the input ends, done is closed, or the client
// cannot be written to.
func (l *stdioLink) serve(ctx context.Context, done <-chan struct{}, lines <-chan line) error {
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
func (l *stdioLink) receive(ctx context.Context, in line) {
	if in.tooLong {
		l.refuse(nil, mcp.INVALID_REQUEST, fmt.Sprintf("message longer than %d bytes", maxLine))
		return
	}
	var m rpcMessage
	if err := json.Unmarshal(in.text, &m); err != nil {
		code, text := mcp.PARSE_ERROR, "not JSON"
		if json.Valid(in.text) {
			code, text = mcp.INVALID_REQUEST, "not a JSON-RPC message; batches are not supported"
		}
		l.refuse(nil, code, text)
		return
	}
	switch {
	case m.Method == nil && (m.Result != nil || m.Error != nil):
		l.answered(ctx, m)
	case m.Method == nil:
		l.refuse(m.ID, mcp.INVALID_REQUEST, "neither method nor result")
	case m.ID == nil:
		l.notified(ctx, *m.Method, m.Params, in.text)
	default:
		l.request(ctx, m, in.text)
	}
}

// answered takes the client's reply to one of our requests. One that nobody
// waits for is dropped: an answer to it would be taken for a reply to a request.
func (l *stdioLink) answered(ctx context.Context, m rpcMessage) {
	id, err := strconv.ParseInt(string(m.ID), 10, 64)
	l.mu.Lock()
	reply, ok := l.pending[id]
	delete(l.pending, id)
	l.mu.Unlock()
	if err != nil || !ok {
		l.log.WarnContext(ctx, "client answered a question that is not open")
		return
	}
	if m.Error != nil && string(m.Error) != "null" {
		reply <- clientReply{err: clientError(m.Error)}
		return
	}
	reply <- clientReply{result: m.Result}
}

// clientError reads an error object, or what a client sent instead of one.
func clientError(raw json.RawMessage) *driver.ClientError {
	var e struct {
		Code    float64 `json:"code"`
		Message string  `json:"message"`
	}
	if err := json.Unmarshal(raw, &e); err != nil {
		return &driver.ClientError{Code: mcp.INTERNAL_ERROR, Message: "the client sent an error that cannot be read"}
	}
	return &driver.ClientError{Code: int(e.Code), Message: e.Message}
}

func (l *stdioLink) notified(ctx context.Context, method string, params, raw json.RawMessage) {
	if method == string(mcp.MethodNotificationCancelled) {
		var p struct {
			RequestID json.RawMessage `json:"requestId"`
		}
		if err := json.Unmarshal(params, &p); err == nil {
			l.cancelled(string(p.RequestID))
		}
		return
	}
	defer l.recovered(ctx, nil)
	l.server.mcp.HandleMessage(ctx, raw)
}

// cancelled ends a request of the client, which then gets no reply.
func (l *stdioLink) cancelled(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r, ok := l.inflight[id]; ok {
		r.cancelled = true
		r.cancel()
	}
}

// request serves a request in a goroutine of its own. Only initialize is served
// at once, since what follows depends on it.
func (l *stdioLink) request(ctx context.Context, m rpcMessage, raw json.RawMessage) {
	if !validID(m.ID) {
		l.refuse(nil, mcp.INVALID_REQUEST, "the id is neither a string nor a number")
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	r := &inflight{cancel: cancel}
	l.mu.Lock()
	busy := len(l.inflight) >= maxInFlight
	if !busy {
		l.inflight[string(m.ID)] = r
	}
	l.mu.Unlock()
	if busy {
		cancel()
		l.refuse(m.ID, mcp.INTERNAL_ERROR, "too many requests at a time")
		return
	}
	if *m.Method == string(mcp.MethodInitialize) {
		l.handle(ctx, m.ID, r, raw)
		return
	}
	l.running.Go(func() { l.handle(ctx, m.ID, r, raw) })
}

func validID(id json.RawMessage) bool {
	return len(id) > 0 && (id[0] == '"' || id[0] == '-' || (id[0] >= '0' && id[0] <= '9'))
}

func (l *stdioLink) handle(ctx context.Context, id json.RawMessage, r *inflight, raw json.RawMessage) {
	defer l.recovered(ctx, id)
	defer func() {
		r.cancel()
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.inflight[string(id)] == r {
			delete(l.inflight, string(id))
		}
	}()
	n := &note{}
	response := l.server.mcp.HandleMessage(withNote(ctx, n), raw)
	l.mu.Lock()
	unwanted := r.cancelled
	l.mu.Unlock()
	l.sendNotes(ctx)
	if response != nil && !unwanted {
		l.send(ctx, wireReply(id, response, n))
	}
}

// sendNotes writes what mcp-go wants said before the reply.
func (l *stdioLink) sendNotes(ctx context.Context) {
	for {
		select {
		case n := <-l.notes:
			l.send(ctx, n)
		default:
			return
		}
	}
}

// recovered keeps a panic in one handler from ending the process.
func (l *stdioLink) recovered(ctx context.Context, id json.RawMessage) {
	if r := recover(); r != nil {
		l.log.ErrorContext(ctx, "panic in a request handler", "panic", r, "stack", string(debug.Stack()))
		if id != nil {
			l.refuse(id, mcp.INTERNAL_ERROR, "internal error")
		}
	}
}

// reply is a JSON-RPC response with the id exactly as the client wrote it.
type reply struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  any             `json:"result,omitempty"`
	Error   *replyError     `json:"error,omitempty"`
}

type replyError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data,omitempty"`
}

// wireReply puts back what mcp-go could not carry.
func wireReply(id json.RawMessage, response mcp.JSONRPCMessage, n *note) any {
	out := reply{JSONRPC: mcp.JSONRPC_VERSION, ID: id}
	switch r := response.(type) {
	case mcp.JSONRPCResponse:
		out.Result = r.Result
		if res, ok := r.Result.(*mcp.CallToolResult); ok && n.requests != nil {
			out.Result = inputRequired{
				Meta: res.Meta, ResultType: res.ResultType, Requests: n.requests, State: res.RequestState,
			}
		}
	case mcp.JSONRPCError:
		out.Error = &replyError{Code: r.Error.Code, Message: r.Error.Message, Data: r.Error.Data}
		if n.err != nil {
			out.Error = &replyError{Code: n.err.code, Message: n.err.message}
		}
	default:
		return response
	}
	return out
}

// inputRequired is the result that asks the client, with the requests verbatim.
type inputRequired struct {
	Meta       *mcp.Meta                `json:"_meta,omitempty"`
	ResultType mcp.ResultType           `json:"resultType"`
	Requests   map[string]clientRequest `json:"inputRequests"`
	State      string                   `json:"requestState"`
}

func (l *stdioLink) refuse(id json.RawMessage, code int, text string) {
	if !validID(id) {
		id = json.RawMessage("null")
	}
	l.send(context.Background(), reply{
		JSONRPC: mcp.JSONRPC_VERSION, ID: id, Error: &replyError{Code: code, Message: text},
	})
}

// send logs what it cannot write; serve ends with the error.
func (l *stdioLink) send(ctx context.Context, v any) {
	if err := l.write(v); err != nil {
		l.log.WarnContext(ctx, "message to client not sent", "error", err)
	}
}

func (l *stdioLink) write(v any) error {
	text, err := encode(v, "")
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

// call sends a request to the client and waits for its reply.
func (l *stdioLink) call(
	ctx context.Context, method string, params json.RawMessage,
) (json.RawMessage, *driver.ClientError, error) {
	answer := make(chan clientReply, 1)
	l.mu.Lock()
	l.lastID++
	id := l.lastID
	l.pending[id] = answer
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.pending, id)
	}()
	err := l.write(struct {
		JSONRPC string `json:"jsonrpc"`
		ID      int64  `json:"id"`
		clientRequest
	}{mcp.JSONRPC_VERSION, id, clientRequest{method, params}})
	if err != nil {
		return nil, nil, fmt.Errorf("ask client: %w", err)
	}
	select {
	case r := <-answer:
		return r.result, r.err, nil
	case <-l.gone:
		return nil, nil, errGone
	case <-ctx.Done():
		return nil, nil, errors.Join(ctx.Err(), l.withdraw(id))
	}
}

// withdraw tells the client that a question is over, so that it can close its form.
func (l *stdioLink) withdraw(id int64) error {
	select {
	case <-l.gone:
		return nil
	default:
		return l.notify(string(mcp.MethodNotificationCancelled),
			map[string]any{"requestId": id, "reason": "the question is no longer open"})
	}
}

func (l *stdioLink) notify(method string, params any) error {
	return l.write(struct {
		JSONRPC string `json:"jsonrpc"`
		Method  string `json:"method"`
		Params  any    `json:"params"`
	}{mcp.JSONRPC_VERSION, method, params})
}

// drain lets calls finish after the client has gone: an answer that was taken
// is worth writing down. What takes longer is cancelled.
func (l *stdioLink) drain(stopWork context.CancelFunc, limit time.Duration) error {
	close(l.gone)
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.running.Wait()
	}()
	timeout := time.AfterFunc(limit, stopWork)
	defer timeout.Stop()
	select {
	case <-done:
		return nil
	case <-time.After(2*limit + time.Second):
		return errors.New("calls did not end after their connection: the client reads nothing, or the engine hangs")
	}
}

// session is what mcp-go wants to know of a connection. It keeps no client
// info: see hooks.
type session struct {
	id   string
	link *stdioLink
}

func (s *session) Initialize()       {}
func (s *session) Initialized() bool { return true }
func (s *session) SessionID() string { return s.id }

// NotificationChannel is used for the acknowledgement of subscriptions alone:
// that a list has changed is said by Server.Refresh.
func (s *session) NotificationChannel() chan<- mcp.JSONRPCNotification { return s.link.notes }
