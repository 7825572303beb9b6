package mcp

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/kairos-mcp/kairos/core/audit"
)

// legacy serves a message of the eras with a handshake. One without a session
// is that of a client that can do nothing itself.
func (p *post) legacy(version string) {
	initializing := p.kind == isRequest && *p.msg.Method == string(mcp.MethodInitialize)
	if initializing {
		p.initialize()
		return
	}
	if !p.checkVersion(version) {
		return
	}
	if p.r.Header.Get(mcp.HeaderSessionID) == "" {
		p.sessionless(version)
		return
	}
	sess, release, ok := p.http.session(p.w, p.r, p.who)
	if !ok {
		return
	}
	defer release()
	switch p.kind {
	case isAnswer:
		p.answered(sess)
	case isNotification:
		p.notified(sess)
	case isRequest:
		p.serve(p.origin(sess), sess, legacyStatus)
	}
}

// checkVersion refuses unknown versions. Old clients send none.
func (p *post) checkVersion(version string) bool {
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

// answered takes an answer. One that comes too late is refused, so that the client does
// not take it for received. An error is not: it is how clients confirm a cancellation.
func (p *post) answered(sess *httpSession) {
	if sess.requests.take(p.msg) || p.msg.isError() {
		p.w.WriteHeader(http.StatusAccepted)
		return
	}
	p.http.log.DebugContext(p.r.Context(), "client answered a question that is not open", "id", string(p.msg.ID))
	refuseHTTP(p.w, http.StatusBadRequest, codeBadRequest, "this answer does not count: no question with its id is open; "+
		"it was answered, withdrawn or asked again under another id. Call the tool again to see where the run is")
}

func legacyStatus(*reply) int { return http.StatusOK }

func (p *post) notified(sess *httpSession) {
	if *p.msg.Method == string(mcp.MethodNotificationCancelled) {
		sess.inflight.cancelled(p.msg.Params)
	} else {
		p.http.server.mcp.HandleMessage(withOrigin(p.r.Context(), p.origin(sess)), p.body)
	}
	p.w.WriteHeader(http.StatusAccepted)
}

func (p *post) origin(sess *httpSession) *origin {
	return &origin{transport: transportHTTP, who: p.who, conn: &sess.connection}
}

// initialize serves the handshake and keeps the session if it went well.
func (p *post) initialize() {
	sess := p.http.newSession(holder(p.who))
	ctx := p.http.server.mcp.WithContext(withOrigin(p.r.Context(), p.origin(sess)), &session{conn: &sess.connection})
	r := p.http.server.respond(ctx, p.msg, p.body)
	if r == nil {
		p.w.WriteHeader(http.StatusAccepted)
		return
	}
	if r.Error == nil {
		id, named, err := p.http.ids.New(holder(p.who), sess.legacyClient())
		if err != nil {
			p.http.log.ErrorContext(p.r.Context(), "the id of a session cannot be sealed", "error", err)
			refuse500(p.w, p.msg.ID)
			return
		}
		sess.is(named)
		err = p.http.audited(p.r.Context(), audit.SessionOpen, named.Key, p.who, sess.legacyClient(), func() error {
			return p.http.sessions.add(sess, p.http.clientOf(p.r, p.who))
		})
		if err != nil {
			p.http.log.WarnContext(p.r.Context(), "a session was not begun", "error", err)
			unavailable(p.w, shown(err))
			return
		}
		p.w.Header().Set(mcp.HeaderSessionID, id)
	}
	writeJSON(p.w, http.StatusOK, r)
}
