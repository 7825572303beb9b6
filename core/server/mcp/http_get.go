package mcp

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/audit"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// delete ends a session at the request of its client.
func (t *httpTransport) delete(rw http.ResponseWriter, r *http.Request, who access.Caller) {
	named, ok := t.named(rw, r, who)
	if !ok {
		return
	}
	err := t.audited(r.Context(), audit.SessionEnd, named.Key, who, driver.Client{Transport: transportHTTP}, func() error {
		return t.server.cfg.Ended.EndSession(r.Context(), named.Key, t.server.cfg.Clock.Settled(), named.Expires)
	})
	if err != nil {
		t.log.ErrorContext(r.Context(), "a session is not ended", "error", err)
		unavailable(rw, "the session cannot be ended now")
		return
	}
	t.sessions.end(named.Key)
	rw.WriteHeader(http.StatusOK)
}

// audited has audited what a client does to its session. The audit log has the begin of the key.
func (t *httpTransport) audited(ctx context.Context, action audit.Action, key string, who access.Caller, client driver.Client, do func() error) error {
	who.Client = client
	act := audit.Act{Action: action, Object: key[:min(len(key), 16)], Anyway: action == audit.SessionEnd}
	return t.server.cfg.Audit.Do(ctx, who, act, func(*audit.Doing) error { return do() })
}

// shown is what of an error clients may see.
func shown(err error) string {
	var f *fault.Error
	if errors.As(err, &f) {
		return f.Message
	}
	return err.Error()
}

// get serves a stream of messages that do not belong to a call.
func (t *httpTransport) get(rw http.ResponseWriter, r *http.Request, who access.Caller) {
	s, release, ok := t.session(rw, r, who)
	switch {
	case !ok:
		return
	case !accepts(r.Header, "text/event-stream"):
		release()
		refuseHTTP(rw, http.StatusNotAcceptable, codeBadRequest, "the Accept header must list text/event-stream")
		return
	case !canFlush(rw):
		release()
		rw.Header().Set("Allow", http.MethodPost)
		refuseHTTP(rw, http.StatusMethodNotAllowed, codeBadRequest, "streams are not supported here")
		return
	}
	defer release()
	_ = http.NewResponseController(rw).SetReadDeadline(time.Time{})
	l := newListener()
	s.listen(l)
	defer s.unlisten(l)
	startEvents(rw)
	if err := writeNow(rw, []byte(": open\n\n")); err != nil {
		return
	}
	if err := l.carry(r.Context(), rw, s.gone); err != nil {
		t.log.DebugContext(r.Context(), "stream ended", "error", err)
	}
}

// carry writes messages, and now and then a comment, until the stream is over.
func (l *listener) carry(ctx context.Context, rw http.ResponseWriter, gone <-chan struct{}) error {
	ping := time.NewTicker(pingEvery)
	defer ping.Stop()
	for {
		select {
		case v := <-l.out:
			text, err := api.Encode(v, "")
			if err != nil {
				return err
			}
			if err := writeEvent(rw, text); err != nil {
				return err
			}
		case <-ping.C:
			if err := writeNow(rw, []byte(": ping\n\n")); err != nil {
				return err
			}
		case <-l.over:
			return errStreamOver
		case <-gone:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}
