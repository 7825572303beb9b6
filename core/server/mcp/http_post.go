package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/mark3labs/mcp-go/mcp"
)

// post is one POST, with one message in it.
type post struct {
	http *httpTransport
	w    http.ResponseWriter
	r    *http.Request
	who  access.Caller
	body []byte
	msg  rpcMessage
	kind messageKind
}

// receive reads the message of a POST. If it returns nil it has sent an error reply.
func (t *httpTransport) receive(rw http.ResponseWriter, r *http.Request, who access.Caller) *post {
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
	return &post{http: t, w: rw, r: r, who: who, body: body, msg: m, kind: kind}
}

// serveEra decides which era the message is of.
func (p *post) serveEra() {
	header, inBody := p.r.Header.Get(mcp.HeaderProtocolVersion), versionInBody(p.body)
	// A handshake is of the eras that have one, whatever newer version the client would like:
	// it is negotiated.
	handshake := p.kind == isRequest && *p.msg.Method == string(mcp.MethodInitialize)
	if mcp.IsModernProtocol(header) && !handshake || mcp.IsModernProtocol(inBody) {
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

// serve serves a request, in a session if there is one. The call ends with the
// client's connection, but an answer that it has given is taken all the same.
func (p *post) serve(from *origin, sess *httpSession, status func(*reply) int) {
	ctx, cancel := context.WithCancel(p.r.Context())
	defer cancel()
	defer context.AfterFunc(p.http.work, cancel)()
	stream := newPostStream(p.w, cancel)
	defer func() { stream.end(p.r.Context().Err() != nil) }()
	defer p.http.recovered(ctx, func() {
		internal := refusal(p.msg.ID, &replyError{Code: mcp.INTERNAL_ERROR, Message: "internal error"})
		stream.finish(http.StatusInternalServerError, &internal)
	})
	wanted := func() bool { return true }
	inner := &session{}
	if sess != nil {
		r, err := sess.inflight.add(p.msg.ID, cancel)
		if err != nil {
			p.rejectRequest(err)
			return
		}
		defer sess.inflight.remove(p.msg.ID, r) // also after a panic
		wanted = func() bool { return sess.inflight.remove(p.msg.ID, r) }
		from.peer = &sessionPeer{http: p.http, sess: sess, own: stream}
		inner.id, inner.conn = sess.id, &sess.connection
	}
	response := p.http.server.respond(p.http.server.mcp.WithContext(withOrigin(ctx, from), inner), p.msg, p.body)
	inner.sendNotes(func(v any) {
		if err := stream.send(v); err != nil {
			p.http.log.DebugContext(ctx, "notification not sent", "error", err)
		}
	})
	switch {
	case !wanted() || response == nil:
		stream.finish(0, nil)
	default:
		stream.finish(status(response), response)
	}
}

// rejectRequest replies to a request that the session cannot serve.
func (p *post) rejectRequest(err error) {
	if errors.Is(err, errTwice) {
		p.refuse(&replyError{Code: mcp.INVALID_REQUEST, Message: err.Error()})
		return
	}
	unavailable(p.w, err.Error())
}

// refuse replies with an error about the message.
func (p *post) refuse(e *replyError) { writeJSON(p.w, http.StatusBadRequest, refusal(p.msg.ID, e)) }
