package mcp

import (
	"container/list"
	"slices"
	"sync"
	"time"
)

// Bounds of sessions.
const (
	maxListeners = 4      // GET streams of one session; a further one ends the oldest
	maxAsking    = 16_384 // questions of all sessions that wait for an answer
	pingEvery    = 15 * time.Second
)

// httpSession is one client of the legacy eras. An idle session has no goroutine.
type httpSession struct {
	connection
	in        *sessions
	principal string
	started   time.Time
	gone      chan struct{} // closed when the session ends
	requests  openRequests
	inflight  inflights

	// guarded by in.mu
	users int // calls and streams
	used  time.Time
	place *list.Element // in in.byUse; nil: ended

	streams   sync.Mutex // guards the field below, and via of each question
	listeners []*listener
}

func (t *httpTransport) newSession(principal string) *httpSession {
	now := time.Now()
	s := &httpSession{in: &t.sessions, principal: principal, started: now, used: now, gone: make(chan struct{})}
	s.id = t.server.cfg.SessionID()
	s.questions = newQuestions()
	s.background = t.background
	return s
}

func (s *httpSession) release() {
	s.in.mu.Lock()
	defer s.in.mu.Unlock()
	s.users--
	s.touchLocked(time.Now())
	if s.users == 0 {
		s.questions.forget()
	}
}

func (s *httpSession) touchLocked(now time.Time) {
	s.used = now
	if s.place != nil {
		s.in.byUse.MoveToBack(s.place)
	}
}

// inUseLocked reports whether the session has a call, a stream or an open question.
func (s *httpSession) inUseLocked() bool { return s.users > 0 || s.questions.openCount() > 0 }

func (s *httpSession) listen(l *listener) {
	s.streams.Lock()
	defer s.streams.Unlock()
	if len(s.listeners) >= maxListeners {
		s.listeners[0].end()
		s.listeners = slices.Delete(s.listeners, 0, 1)
	}
	s.listeners = append(s.listeners, l)
}

func (s *httpSession) unlisten(l *listener) {
	l.end()
	s.streams.Lock()
	defer s.streams.Unlock()
	s.listeners = slices.DeleteFunc(s.listeners, func(other *listener) bool { return other == l })
}

// send sends a message on the newest GET stream that accepts it; nil: there is none.
func (s *httpSession) send(v any) carrier {
	s.streams.Lock()
	defer s.streams.Unlock()
	for _, l := range slices.Backward(s.listeners) {
		if l.send(v) == nil {
			return l
		}
	}
	return nil
}

func (s *httpSession) listens() bool {
	s.streams.Lock()
	defer s.streams.Unlock()
	return len(s.listeners) > 0
}
