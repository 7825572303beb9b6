package mcp

import (
	"errors"
	"net/http"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/sessions"
)

// session returns the caller's session that a request names, whose end release tells. One
// that is not in memory, because the server was restarted or it had to make room, is made
// again from its id: its questions are in their runs. If ok is false, it has replied.
func (t *httpTransport) session(
	rw http.ResponseWriter, r *http.Request, who access.Caller,
) (s *httpSession, release func(), ok bool) {
	key := sessions.Key(r.Header.Get(mcp.HeaderSessionID))
	if s, release, ok = t.sessions.use(r.Context(), key, holder(who)); ok {
		if t.sessions.checkDue(s) && t.endedElsewhere(r, s) {
			release()
			t.sessions.end(key)
			noSession(rw)
			return nil, nil, false
		}
		return s, release, true
	}
	named, ok := t.named(rw, r, who)
	if !ok {
		return nil, nil, false
	}
	s = t.newSession(holder(who))
	s.is(named)
	named.Client.Transport = transportHTTP
	s.initialized(named.Client)
	s.earlier.looked = true // its client has had its first reply, and knows its runs
	s, release, err := t.sessions.adopt(r.Context(), s, t.clientOf(r, who))
	if err != nil {
		unavailable(rw, err.Error())
		return nil, nil, false
	}
	return s, release, true
}

// endedElsewhere reports whether another process has ended a session. One that nobody can look
// up is served: it was not ended a moment ago, and its calls, which need the database as well,
// say what is wrong with it.
func (t *httpTransport) endedElsewhere(r *http.Request, s *httpSession) bool {
	ended, err := t.server.cfg.Ended.SessionEnded(r.Context(), s.id)
	if err != nil && r.Context().Err() == nil {
		t.log.WarnContext(r.Context(), "it is not known whether a session was ended", "error", err)
	}
	return ended
}

// named reads the id of the caller's session, which was not ended. If ok is false, it has
// replied.
func (t *httpTransport) named(rw http.ResponseWriter, r *http.Request, who access.Caller) (s sessions.Session, ok bool) {
	s, err := t.ids.Open(r.Header.Get(mcp.HeaderSessionID), holder(who))
	if errors.Is(err, sessions.ErrUnknown) {
		noSession(rw)
		return s, false
	}
	var ended bool
	if err == nil {
		ended, err = t.server.cfg.Ended.SessionEnded(r.Context(), s.Key)
	}
	switch {
	case err != nil:
		t.log.ErrorContext(r.Context(), "it is not known whether a session was ended", "error", err)
		unavailable(rw, "the session cannot be looked up now")
		return s, false
	case ended:
		t.sessions.end(s.Key)
		noSession(rw)
		return s, false
	}
	return s, true
}
