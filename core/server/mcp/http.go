package mcp

import (
	"bytes"
	"container/list"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/fault"
)

// JSON-RPC codes that HTTP servers of MCP use for what is wrong with the
// request itself.
const (
	codeBadRequest = -32000
	codeNoSession  = -32001
)

const transportHTTP = "http"

// web is the link to all clients that come over HTTP.
type web struct {
	server *Server
	log    *slog.Logger

	// work is done when calls must not go on.
	work     context.Context
	stopWork context.CancelFunc
	running  sync.WaitGroup // requests and background work
	lastID   atomic.Int64   // of requests to clients; no two clients get the same
	asking   atomic.Int64   // questions that wait for an answer

	mu       sync.Mutex // guards the fields below, and each session's
	closed   bool
	sessions map[string]*webSession
	held     map[string]int // sessions by principal
	byUse    list.List      // of sessions, the one used longest ago first
	sweeper  *time.Timer
}

func newWeb(s *Server) *web {
	w := &web{server: s, log: s.log, sessions: map[string]*webSession{}, held: map[string]int{}}
	w.work, w.stopWork = context.WithCancel(context.Background())
	return w
}

// HTTP serves the MCP endpoint: Streamable HTTP of 2025-11-25 and older, with
// sessions, and of 2026-07-28, without, on one path. Origin, Host, limits of
// rate and size are for the handler around it to check; a body that a
// http.MaxBytesReader cuts is answered with 413.
//
// Streams stay open until Server.Close, which a http.Server's Shutdown would
// wait for: call Close before it, or from RegisterOnShutdown.
func (s *Server) HTTP() http.Handler { return s.web }

// ServeHTTP serves one request of any client.
func (w *web) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	defer w.recovered(r.Context(), func() {
		refuse500(rw, nil)
	})
	if !wellMet(rw, r) {
		return
	}
	who, err := w.identify(r)
	if err != nil {
		w.unidentified(rw, r, err)
		return
	}
	var p *post
	if r.Method == http.MethodPost {
		if p = w.receive(rw, r, who); p == nil {
			return
		}
	}
	if !w.enter() { // not before: Close does not wait for half a message
		unavailable(rw, "the server is shutting down")
		return
	}
	defer w.running.Done()
	switch r.Method {
	case http.MethodPost:
		p.serveEra()
	case http.MethodGet:
		w.get(rw, r, who)
	case http.MethodDelete:
		w.delete(rw, r, who)
	}
}

// wellMet answers methods that there are not: without a session, and in the
// modern era, there is only POST.
func wellMet(rw http.ResponseWriter, r *http.Request) bool {
	allowed := http.MethodPost
	switch r.Method {
	case http.MethodPost:
		return true
	case http.MethodGet, http.MethodDelete:
		if r.Header.Get(mcp.HeaderSessionID) != "" && !mcp.IsModernProtocol(r.Header.Get(mcp.HeaderProtocolVersion)) {
			return true
		}
	default:
		allowed = "GET, POST, DELETE"
	}
	rw.Header().Set("Allow", allowed)
	refuseHTTP(rw, http.StatusMethodNotAllowed, codeBadRequest, r.Method+" is not served here without a session: use POST")
	return false
}

func (w *web) identify(r *http.Request) (access.Caller, error) {
	if w.server.cfg.Identify == nil {
		return w.server.operator(), nil
	}
	return w.server.cfg.Identify(r)
}

func (w *web) unidentified(rw http.ResponseWriter, r *http.Request, err error) {
	var f *fault.Error
	if errors.As(err, &f) && f.Code == fault.Forbidden {
		refuseHTTP(rw, http.StatusForbidden, codeBadRequest, f.Message)
		return
	}
	w.log.ErrorContext(r.Context(), "caller not identified", "error", err)
	refuse500(rw, nil)
}

// enter counts a request in; false: the server is closed.
func (w *web) enter() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return false
	}
	w.running.Add(1)
	return true
}

// background runs f with a context that outlives the request that started it.
func (w *web) background(f func(context.Context)) {
	w.running.Go(func() {
		defer w.recovered(w.work, func() {})
		f(w.work)
	})
}

// recovered keeps a panic in one handler from ending the process or the connection.
func (w *web) recovered(ctx context.Context, answer func()) {
	switch r := recover(); r {
	case nil:
	case http.ErrAbortHandler:
		panic(r)
	default:
		w.log.ErrorContext(ctx, "panic in a request handler", "panic", r, "stack", string(debug.Stack()))
		answer()
	}
}

// close ends all sessions and lets calls finish for a while: an answer that was
// taken is worth writing down. What takes longer is cancelled.
func (w *web) close(limit time.Duration) error {
	w.mu.Lock()
	w.closed = true
	for _, s := range w.sessions {
		w.endLocked(s)
	}
	w.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.running.Wait()
	}()
	timeout := time.AfterFunc(limit, w.stopWork)
	defer timeout.Stop()
	defer w.stopWork()
	select {
	case <-done:
		return nil
	case <-time.After(2*limit + time.Second):
		return errors.New("HTTP calls did not end with the server: a client reads nothing, or the engine hangs")
	}
}

// post is one POST, with one message in it.
type post struct {
	web  *web
	w    http.ResponseWriter
	r    *http.Request
	who  access.Caller
	body []byte
	msg  rpcMessage
	kind messageKind
}

// receive reads the message of a POST; nil: the client was told what is wrong.
func (w *web) receive(rw http.ResponseWriter, r *http.Request, who access.Caller) *post {
	if !accepts(r.Header, "application/json") || !accepts(r.Header, "text/event-stream") {
		refuseHTTP(rw, http.StatusNotAcceptable, codeBadRequest,
			"the Accept header must list application/json and text/event-stream")
		return nil
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		refuseHTTP(rw, http.StatusUnsupportedMediaType, codeBadRequest, "the Content-Type must be application/json")
		return nil
	}
	body, ok := readBody(rw, r)
	if !ok {
		return nil
	}
	m, kind, problem := read(body)
	if problem != nil {
		writeJSON(rw, http.StatusBadRequest, refusal(m.ID, problem))
		return nil
	}
	return &post{web: w, w: rw, r: r, who: who, body: body, msg: m, kind: kind}
}

// serveEra decides which era the message is of.
func (p *post) serveEra() {
	header, inBody := p.r.Header.Get(mcp.HeaderProtocolVersion), versionInBody(p.body)
	if mcp.IsModernProtocol(header) || mcp.IsModernProtocol(inBody) {
		p.modern(header, inBody)
		return
	}
	p.legacy(header)
}

func readBody(rw http.ResponseWriter, r *http.Request) ([]byte, bool) {
	body, err := io.ReadAll(http.MaxBytesReader(rw, r.Body, maxMessage))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		refuseHTTP(rw, http.StatusRequestEntityTooLarge, codeBadRequest,
			fmt.Sprintf("the message is longer than %d bytes", large.Limit))
		return nil, false
	case err != nil:
		refuseHTTP(rw, http.StatusBadRequest, mcp.PARSE_ERROR, "the body ended early")
		return nil, false
	}
	// A deadline for reading the request would end the call as well.
	_ = http.NewResponseController(rw).SetReadDeadline(time.Time{})
	return body, true
}

var metaKeyVersion = []byte(mcp.MetaKeyProtocolVersion)

// versionInBody is the protocol version that the message itself names.
func versionInBody(body []byte) string {
	if !bytes.Contains(body, metaKeyVersion) {
		return "" // or written with escapes: then it is served as on stdio
	}
	var m struct {
		Params struct {
			Meta *mcp.Meta `json:"_meta"`
		} `json:"params"`
	}
	if err := json.Unmarshal(body, &m); err != nil {
		return ""
	}
	return m.Params.Meta.ProtocolVersion()
}

// modern serves a message of the era without sessions: a session id is ignored.
func (p *post) modern(header, inBody string) {
	if p.kind == isAnswer {
		p.refuse(&replyError{Code: mcp.INVALID_REQUEST, Message: "in protocol version " +
			mcp.ProtocolVersion20260728 + " answers come with the call that is repeated"})
		return
	}
	if problem := p.modernProblem(header, inBody); problem != nil {
		p.refuse(problem)
		return
	}
	if p.kind == isNotification {
		p.w.WriteHeader(http.StatusAccepted) // a call is cancelled by closing its connection
		return
	}
	p.serve(&origin{transport: transportHTTP, who: p.who}, nil, modernStatus)
}

// modernProblem holds the headers against the message; nil: they agree.
func (p *post) modernProblem(header, inBody string) *replyError {
	mismatch := func(text string) *replyError { return &replyError{Code: mcp.HEADER_MISMATCH, Message: text} }
	switch {
	case p.r.Header.Get(mcp.HeaderLastEventID) != "":
		return mismatch(mcp.HeaderLastEventID + ": streams cannot be resumed, send the request again")
	case header == "":
		return mismatch(mcp.HeaderProtocolVersion + " header is required")
	case inBody == "" && p.kind == isRequest:
		return &replyError{Code: mcp.INVALID_PARAMS, Message: "missing or invalid _meta field " + mcp.MetaKeyProtocolVersion}
	case inBody != "" && inBody != header:
		return mismatch(fmt.Sprintf("%s header %q, but the message says %q", mcp.HeaderProtocolVersion, header, inBody))
	case !mcp.IsValidProtocolVersion(header):
		e := mcp.UnsupportedProtocolVersionError{Version: header, Supported: mcp.ValidProtocolVersions}.JSONRPCError().Error
		return &replyError{Code: e.Code, Message: e.Message, Data: e.Data}
	case p.kind == isNotification && p.r.Header.Get(mcp.HeaderMethod) == "":
		return nil
	}
	err := mcp.ValidateStandardHeaders(p.r.Header.Get, header, mcp.MCPMethod(*p.msg.Method), p.msg.Params)
	if err != nil {
		return mismatch(err.Error())
	}
	return nil
}

// modernStatus is what 2026-07-28 prescribes for a reply.
func modernStatus(r *reply) int {
	if r.Error == nil {
		return http.StatusOK
	}
	switch r.Error.Code {
	case mcp.METHOD_NOT_FOUND:
		return http.StatusNotFound
	case mcp.HEADER_MISMATCH, mcp.MISSING_REQUIRED_CLIENT_CAPABILITY, mcp.UNSUPPORTED_PROTOCOL_VERSION,
		mcp.INVALID_REQUEST, mcp.INVALID_PARAMS, mcp.PARSE_ERROR:
		return http.StatusBadRequest
	}
	return http.StatusOK
}

// legacy serves a message of the eras with a handshake. One without a session
// is that of a client that can do nothing itself.
func (p *post) legacy(version string) {
	initializing := p.kind == isRequest && *p.msg.Method == string(mcp.MethodInitialize)
	if initializing {
		p.initialize()
		return
	}
	if !p.known(version) {
		return
	}
	id := p.r.Header.Get(mcp.HeaderSessionID)
	if id == "" {
		p.sessionless(version)
		return
	}
	sess, release, ok := p.web.use(id, p.who.Principal)
	if !ok {
		noSession(p.w)
		return
	}
	defer release()
	switch p.kind {
	case isAnswer:
		if !sess.asked.answered(p.msg) {
			p.web.log.DebugContext(p.r.Context(), "client answered a question that is not open")
		}
		p.w.WriteHeader(http.StatusAccepted)
	case isNotification:
		p.notified(sess)
	case isRequest:
		p.serve(p.origin(sess), sess, legacyStatus)
	}
}

// known refuses a version that nobody has heard of. Without one it is an old client.
func (p *post) known(version string) bool {
	if version == "" || mcp.IsValidProtocolVersion(version) {
		return true
	}
	p.refuse(&replyError{Code: codeBadRequest, Message: fmt.Sprintf(
		"unsupported protocol version %q; supported are %s", version, strings.Join(mcp.ValidProtocolVersions, ", "))})
	return false
}

func (p *post) sessionless(version string) {
	switch p.kind {
	case isAnswer:
		refuseHTTP(p.w, http.StatusBadRequest, codeBadRequest, "an answer needs the session of its question")
	case isNotification:
		p.w.WriteHeader(http.StatusAccepted)
	case isRequest:
		p.serve(&origin{transport: transportHTTP, who: p.who, era: version}, nil, legacyStatus)
	}
}

func legacyStatus(*reply) int { return http.StatusOK }

func (p *post) notified(sess *webSession) {
	if *p.msg.Method == string(mcp.MethodNotificationCancelled) {
		sess.inflight.cancelled(p.msg.Params)
	} else {
		p.web.server.mcp.HandleMessage(withOrigin(p.r.Context(), p.origin(sess)), p.body)
	}
	p.w.WriteHeader(http.StatusAccepted)
}

func (p *post) origin(sess *webSession) *origin {
	return &origin{transport: transportHTTP, who: p.who, conn: &sess.connection}
}

// initialize serves the handshake and keeps the session if it went well.
func (p *post) initialize() {
	sess := p.web.newSession(p.who.Principal)
	ctx := p.web.server.mcp.WithContext(withOrigin(p.r.Context(), p.origin(sess)), &session{id: sess.id, conn: &sess.connection})
	r := p.web.server.respond(ctx, p.msg.ID, p.body)
	switch {
	case r == nil:
		p.w.WriteHeader(http.StatusAccepted)
		return
	case r.Error != nil:
	case !p.web.add(sess):
		unavailable(p.w, "too many sessions are in use")
		return
	default:
		p.w.Header().Set(mcp.HeaderSessionID, sess.id)
	}
	writeJSON(p.w, http.StatusOK, r)
}

// serve serves a request, in a session if there is one. The call ends with the
// client's connection, but an answer that it has given is taken all the same.
func (p *post) serve(from *origin, sess *webSession, status func(*reply) int) {
	ctx, cancel := context.WithCancel(p.r.Context())
	defer cancel()
	defer context.AfterFunc(p.web.work, cancel)()
	stream := newPostStream(p.w, cancel)
	defer func() { stream.end(p.r.Context().Err() != nil) }()
	defer p.web.recovered(ctx, func() {
		internal := refusal(p.msg.ID, &replyError{Code: mcp.INTERNAL_ERROR, Message: "internal error"})
		stream.finish(http.StatusInternalServerError, &internal)
	})
	wanted := func() bool { return true }
	inner := &session{}
	if sess != nil {
		r, err := sess.inflight.add(p.msg.ID, cancel)
		if err != nil {
			p.crowded(err)
			return
		}
		defer sess.inflight.remove(p.msg.ID, r) // also after a panic
		wanted = func() bool { return sess.inflight.remove(p.msg.ID, r) }
		from.peer = &sessionPeer{sess: sess, own: stream}
		inner.id, inner.conn = sess.id, &sess.connection
	}
	response := p.web.server.respond(p.web.server.mcp.WithContext(withOrigin(ctx, from), inner), p.msg.ID, p.body)
	inner.sendNotes(func(v any) {
		if err := stream.send(v); err != nil {
			p.web.log.DebugContext(ctx, "notification not sent", "error", err)
		}
	})
	switch {
	case !wanted() || response == nil:
		stream.finish(0, nil)
	default:
		stream.finish(status(response), response)
	}
}

// crowded refuses a request that a session cannot take up now.
func (p *post) crowded(err error) {
	if errors.Is(err, errTwice) {
		p.refuse(&replyError{Code: mcp.INVALID_REQUEST, Message: err.Error()})
		return
	}
	unavailable(p.w, err.Error())
}

// refuse says what is wrong with the message.
func (p *post) refuse(e *replyError) { writeJSON(p.w, http.StatusBadRequest, refusal(p.msg.ID, e)) }

// noSession answers for a session that is not there, or is not the caller's.
func noSession(rw http.ResponseWriter) {
	refuseHTTP(rw, http.StatusNotFound, codeNoSession, "no such session: initialize again")
}

// unavailable asks the client to come again.
func unavailable(rw http.ResponseWriter, why string) {
	rw.Header().Set("Retry-After", strconv.Itoa(1))
	refuseHTTP(rw, http.StatusServiceUnavailable, codeBadRequest, why)
}

func refuse500(rw http.ResponseWriter, id json.RawMessage) {
	writeJSON(rw, http.StatusInternalServerError,
		refusal(id, &replyError{Code: mcp.INTERNAL_ERROR, Message: "internal error"}))
}

// refuseHTTP says what is wrong with the HTTP request.
func refuseHTTP(rw http.ResponseWriter, status, code int, text string) {
	writeJSON(rw, status, refusal(nil, &replyError{Code: code, Message: text}))
}

func writeJSON(rw http.ResponseWriter, status int, v any) {
	text, err := api.Encode(v, "")
	if err != nil {
		http.Error(rw, "internal error", http.StatusInternalServerError)
		return
	}
	rw.Header().Set("Content-Type", "application/json")
	rw.WriteHeader(status)
	_, _ = rw.Write(text) // a client that is gone needs no reply
}

// accepts reports whether the Accept header admits the media type. The most
// exact of its ranges decides; without a header nothing is admitted, because
// the specification demands one.
func accepts(h http.Header, want string) bool {
	family, _, _ := strings.Cut(want, "/")
	best, admitted := 0, false
	for _, line := range h.Values("Accept") {
		for part := range strings.SplitSeq(line, ",") {
			name, params, _ := strings.Cut(part, ";")
			exact := 0
			switch strings.ToLower(strings.TrimSpace(name)) {
			case want:
				exact = 3
			case family + "/*":
				exact = 2
			case "*/*":
				exact = 1
			}
			if exact > best {
				best, admitted = exact, weight(params) > 0
			}
		}
	}
	return admitted
}

// weight is the q of a media range.
func weight(params string) float64 {
	for param := range strings.SplitSeq(params, ";") {
		key, value, _ := strings.Cut(param, "=")
		if strings.EqualFold(strings.TrimSpace(key), "q") {
			q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				return 0
			}
			return q
		}
	}
	return 1
}
