package mcp

import (
	"container/list"
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// Bounds of sessions.
const (
	maxListeners = 4      // GET streams of one session; a further one ends the oldest
	maxAsking    = 16_384 // questions of all sessions that wait for an answer
	pingEvery    = 15 * time.Second
)

// webSession is a client of the legacy eras over HTTP. An idle one is small and
// has no goroutine.
type webSession struct {
	connection
	web       *web
	principal string
	started   time.Time
	gone      chan struct{} // closed when the session ends
	asked     asked
	inflight  inflights

	// guarded by web.mu
	users int // calls and streams
	used  time.Time
	place *list.Element // in web.byUse; nil: not in there

	hearing   sync.Mutex // guards the fields below
	listeners []*listener
	sent      map[questionKey]*sent
}

// sent is a question on its way to the client.
type sent struct {
	message ourRequest
	via     carrier // nil: none took it; guarded by webSession.hearing
}

func (w *web) newSession(principal string) *webSession {
	now := time.Now()
	s := &webSession{web: w, principal: principal, started: now, used: now, gone: make(chan struct{})}
	s.id = rand.Text() // unguessable, and no other has it
	s.questions = newQuestions()
	s.background = w.background
	return s
}

// add keeps a session. If there is no room, an idle one makes it; false: all are
// in use.
func (w *web) add(s *webSession) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || (len(w.sessions) >= w.server.cfg.MaxSessions && !w.evictLocked()) {
		return false
	}
	w.sessions[s.id] = s
	w.held[s.principal]++
	s.place = w.byUse.PushBack(s)
	if w.sweeper == nil {
		w.sweeper = time.AfterFunc(w.sweepEvery(), w.sweep)
	}
	return true
}

// evictLocked ends the session that has been idle longest among those of the
// principal with the most sessions: who opens many pushes out their own. false:
// all are in use.
func (w *web) evictLocked() bool {
	most := 0
	for _, n := range w.held {
		most = max(most, n)
	}
	var last *webSession
	for e := w.byUse.Front(); e != nil; e = e.Next() {
		s := e.Value.(*webSession)
		if s.inUseLocked() || last != nil && w.held[s.principal] <= w.held[last.principal] {
			continue
		}
		if last = s; w.held[s.principal] == most {
			break // as nearly always, where there is one principal
		}
	}
	if last == nil {
		return false
	}
	w.endLocked(last)
	return true
}

// use finds the principal's session and keeps it from being taken for idle
// until release. Whose session another one is, is not told.
func (w *web) use(id, principal string) (s *webSession, release func(), ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s, ok = w.sessions[id]
	if !ok || s.principal != principal {
		return nil, nil, false
	}
	now := time.Now()
	if w.overLocked(s, now) {
		w.endLocked(s)
		return nil, nil, false
	}
	s.users++
	s.touchLocked(now)
	return s, s.release, true
}

// HasSession reports whether there is an HTTP session with the id.
func (s *Server) HasSession(id string) bool {
	s.web.mu.Lock()
	defer s.web.mu.Unlock()
	_, ok := s.web.sessions[id]
	return ok
}

func (s *webSession) release() {
	s.web.mu.Lock()
	defer s.web.mu.Unlock()
	s.users--
	s.touchLocked(time.Now())
	if s.users == 0 {
		s.questions.forget()
	}
}

func (s *webSession) touchLocked(now time.Time) {
	s.used = now
	if s.place != nil {
		s.web.byUse.MoveToBack(s.place)
	}
}

// inUseLocked: somebody waits for something, be it a person who thinks.
func (s *webSession) inUseLocked() bool { return s.users > 0 || s.questions.open() > 0 }

func (w *web) overLocked(s *webSession, now time.Time) bool {
	if now.Sub(s.started) >= w.server.cfg.SessionAge {
		return true
	}
	// An open question does not keep the session: its client may have gone, and
	// the run has the question.
	return now.Sub(s.used) >= w.server.cfg.SessionIdle && s.users == 0
}

// endLocked ends a session: its streams close and its questions are given up.
// Calls that ask nothing go on.
func (w *web) endLocked(s *webSession) {
	if s.place == nil {
		return
	}
	delete(w.sessions, s.id)
	if w.held[s.principal]--; w.held[s.principal] == 0 {
		delete(w.held, s.principal)
	}
	w.byUse.Remove(s.place)
	s.place = nil
	close(s.gone)
	s.questions.abandon()
	if len(w.sessions) == 0 && w.sweeper != nil {
		w.sweeper.Stop()
		w.sweeper = nil
	}
}

// sweepEvery is often enough that a session outlives its time by little.
func (w *web) sweepEvery() time.Duration {
	return min(max(min(w.server.cfg.SessionIdle, w.server.cfg.SessionAge)/10, time.Millisecond), time.Minute)
}

// sweep ends the sessions that are over. One timer serves all of them, and only
// while there are any.
func (w *web) sweep() {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	for _, s := range w.sessions {
		if w.overLocked(s, now) {
			w.endLocked(s)
		}
	}
	if w.sweeper != nil {
		w.sweeper.Reset(w.sweepEvery())
	}
}

// delete ends a session at its client's wish.
func (w *web) delete(rw http.ResponseWriter, r *http.Request, who access.Caller) {
	s, release, ok := w.use(r.Header.Get(mcp.HeaderSessionID), who.Principal)
	if !ok {
		noSession(rw)
		return
	}
	defer release()
	w.mu.Lock()
	w.endLocked(s)
	w.mu.Unlock()
	rw.WriteHeader(http.StatusOK)
}

// get opens a stream for what the server says outside of calls.
func (w *web) get(rw http.ResponseWriter, r *http.Request, who access.Caller) {
	s, release, ok := w.use(r.Header.Get(mcp.HeaderSessionID), who.Principal)
	switch {
	case !ok:
		noSession(rw)
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
		w.log.DebugContext(r.Context(), "stream ended", "error", err)
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

func (s *webSession) listen(l *listener) {
	s.hearing.Lock()
	defer s.hearing.Unlock()
	if len(s.listeners) >= maxListeners {
		s.listeners[0].end()
		s.listeners = slices.Delete(s.listeners, 0, 1)
	}
	s.listeners = append(s.listeners, l)
}

func (s *webSession) unlisten(l *listener) {
	l.end()
	s.hearing.Lock()
	defer s.hearing.Unlock()
	s.listeners = slices.DeleteFunc(s.listeners, func(other *listener) bool { return other == l })
}

// say sends a message on the newest GET stream that takes it; nil: on none.
func (s *webSession) say(v any) carrier {
	s.hearing.Lock()
	defer s.hearing.Unlock()
	for _, l := range slices.Backward(s.listeners) {
		if l.send(v) == nil {
			return l
		}
	}
	return nil
}

func (s *webSession) listens() bool {
	s.hearing.Lock()
	defer s.hearing.Unlock()
	return len(s.listeners) > 0
}

// tell says something to every client that has introduced itself and listens.
func (w *web) tell(v any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.sessions {
		s.say(v)
	}
}

// sessionPeer reaches the client of one POST: by the response to it, or else by
// a GET stream of its session.
type sessionPeer struct {
	sess *webSession
	own  *postStream
}

func (p *sessionPeer) hears() bool { return p.own.speaks() || p.sess.listens() }

func (p *sessionPeer) notify(method string, params any) error {
	return p.own.send(notice(method, params)) // it is about this call
}

func (p *sessionPeer) call(
	ctx context.Context, q *question, r clientRequest,
) (json.RawMessage, *driver.ClientError, error) {
	w := p.sess.web
	defer w.asking.Add(-1)
	if w.asking.Add(1) > maxAsking {
		return nil, nil, errTooManyHeld
	}
	id := w.lastID.Add(1)
	answer := p.sess.asked.open(id)
	defer p.sess.asked.close(id)
	message := &sent{message: ourRequest{mcp.JSONRPC_VERSION, id, r}}
	p.sess.keep(q.key, message)
	defer p.sess.drop(q.key, message)
	if !p.deliver(message) {
		return nil, nil, errUnheard
	}
	close(q.out)
	select {
	case r := <-answer:
		return r.result, r.err, nil
	case <-p.sess.gone:
		return nil, nil, errGone
	case <-ctx.Done():
		if over(p.sess.gone) {
			return nil, nil, errGone
		}
		p.say(withdrawal(id))
		return nil, nil, ctx.Err()
	}
}

// say sends a message however the client can be reached; nil: it cannot.
func (p *sessionPeer) say(v any) carrier {
	if p.own.send(v) == nil {
		return p.own
	}
	return p.sess.say(v)
}

// deliver sends a question. If the client has just hung up, its next call gets
// it; false: there is no way to the client, and none is to be expected.
func (p *sessionPeer) deliver(q *sent) bool {
	via := p.say(q.message)
	p.sess.hearing.Lock()
	defer p.sess.hearing.Unlock()
	q.via = via
	return via != nil || p.own.able
}

// rejoin sends a question again that went out on a connection which broke: the
// same request, so that either answer is the answer.
func (p *sessionPeer) rejoin(key questionKey) {
	p.sess.hearing.Lock()
	q, ok := p.sess.sent[key]
	lost := ok && (q.via == nil || q.via.lost())
	if lost {
		q.via = p.own // so that no other call does it as well
	}
	p.sess.hearing.Unlock()
	if lost {
		p.deliver(q)
	}
}

func (s *webSession) keep(key questionKey, q *sent) {
	s.hearing.Lock()
	defer s.hearing.Unlock()
	if s.sent == nil {
		s.sent = map[questionKey]*sent{}
	}
	s.sent[key] = q
}

func (s *webSession) drop(key questionKey, q *sent) {
	s.hearing.Lock()
	defer s.hearing.Unlock()
	if s.sent[key] == q {
		delete(s.sent, key)
	}
}
