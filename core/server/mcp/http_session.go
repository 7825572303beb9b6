package mcp

import (
	"container/list"
	"slices"
	"sync"
	"time"

	"github.com/kairos-mcp/kairos/core/sessions"
)

// Bounds of sessions.
const (
	maxListeners = 4 // GET streams of one session; a further one ends the oldest
	pingEvery    = 15 * time.Second
)

// httpSession is one client of the legacy eras. An idle session has no goroutine.
type httpSession struct {
	connection
	in       *liveSessions
	holder   string
	expires  time.Time
	requests openRequests
	inflight inflights

	// guarded by in.mu
	client     *sessionClient // nil: not kept yet, or ended
	clientName string
	held       int64 // bytes in memory
	users      int   // calls and streams
	used       time.Time
	checked    time.Time // when it was not ended by another process
	rests      usage
	place      *list.Element // in client.unused[rests]; nil: in use

	streams   sync.Mutex // guards the field below, and via of each question
	listeners []*listener
}

// newSession returns a session without an id.
func (t *httpTransport) newSession(holder string) *httpSession {
	now := time.Now()
	s := &httpSession{in: &t.sessions, holder: holder, used: now, checked: now}
	s.questions, s.gone = newQuestions(), make(chan struct{})
	s.background = t.background
	return s
}

// is makes it the session that an id names.
func (s *httpSession) is(named sessions.Session) { s.id, s.expires = named.Key, named.Expires }

// heldByClient is how many bytes the session keeps of what its client said about itself.
func (s *httpSession) heldByClient() int64 {
	c := s.legacyClient()
	return int64(len(c.Name) + len(c.Version) + len(c.Capabilities))
}

// release ends a use; hungUp: the client did not wait for the end of the request.
func (s *httpSession) release(hungUp bool) {
	s.in.mu.Lock()
	defer s.in.mu.Unlock()
	s.users--
	s.used = time.Now()
	if s.users > 0 {
		return
	}
	s.questions.forget()
	if s.client == nil {
		return
	}
	switch {
	case hungUp:
		s.restLocked(left)
	case s.questions.openCount() > 0:
		s.restLocked(asking)
	default:
		s.restLocked(idle)
	}
}

// restLocked puts the session among those that nothing uses.
func (s *httpSession) restLocked(u usage) {
	s.rests, s.place = u, s.client.unused[u].PushBack(s)
}

func (s *httpSession) wakeLocked() {
	if s.place != nil {
		s.client.unused[s.rests].Remove(s.place)
		s.place = nil
	}
}

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

// send sends a message on the newest GET stream that accepts it. It returns nil if none does.
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
