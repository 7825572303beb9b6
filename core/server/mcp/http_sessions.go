package mcp

import (
	"container/list"
	"sync"
	"time"
)

// sessions are the HTTP sessions of the legacy eras. They are limited in number, in
// idle time and in age.
type sessions struct {
	max       int
	idle, age time.Duration

	mu          sync.Mutex // guards the fields below, and users, used and place of each session
	closed      bool
	byID        map[string]*httpSession
	byPrincipal map[string]int // number of sessions
	byUse       list.List      // of sessions, the one used longest ago first
	sweeper     *time.Timer    // runs while there are sessions
}

func newSessions(c Config) sessions {
	return sessions{max: c.MaxSessions, idle: c.SessionIdle, age: c.SessionAge, byID: map[string]*httpSession{}, byPrincipal: map[string]int{}}
}

// add keeps a session and evicts another one if there are too many. It returns false
// if all of them are in use.
func (ss *sessions) add(s *httpSession) bool {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if ss.closed || (len(ss.byID) >= ss.max && !ss.evictLocked()) {
		return false
	}
	ss.byID[s.id] = s
	ss.byPrincipal[s.principal]++
	s.place = ss.byUse.PushBack(s)
	if ss.sweeper == nil {
		ss.sweeper = time.AfterFunc(ss.sweepEvery(), ss.sweep)
	}
	return true
}

// evictLocked evicts the longest-idle session of the principal that holds the most,
// so that a principal with many sessions evicts its own. It returns false if all
// sessions are in use.
func (ss *sessions) evictLocked() bool {
	most := 0
	for _, n := range ss.byPrincipal {
		most = max(most, n)
	}
	var last *httpSession
	for e := ss.byUse.Front(); e != nil; e = e.Next() {
		s := e.Value.(*httpSession)
		if s.inUseLocked() || last != nil && ss.byPrincipal[s.principal] <= ss.byPrincipal[last.principal] {
			continue
		}
		if last = s; ss.byPrincipal[s.principal] == most {
			break // the usual case: one principal
		}
	}
	if last == nil {
		return false
	}
	ss.endLocked(last)
	return true
}

// use returns the principal's session, which does not count as idle until release. A
// session of another principal is not found.
func (ss *sessions) use(id, principal string) (s *httpSession, release func(), ok bool) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	s, ok = ss.byID[id]
	if !ok || s.principal != principal {
		return nil, nil, false
	}
	now := time.Now()
	if ss.expiredLocked(s, now) {
		ss.endLocked(s)
		return nil, nil, false
	}
	s.users++
	s.touchLocked(now)
	return s, s.release, true
}

// HasSession reports whether there is an HTTP session with the id.
func (s *Server) HasSession(id string) bool { return s.http.sessions.has(id) }

func (ss *sessions) has(id string) bool {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	_, ok := ss.byID[id]
	return ok
}

func (ss *sessions) end(s *httpSession) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.endLocked(s)
}

// close ends all sessions and refuses new ones.
func (ss *sessions) close() {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.closed = true
	for _, s := range ss.byID {
		ss.endLocked(s)
	}
}

func (ss *sessions) expiredLocked(s *httpSession, now time.Time) bool {
	if now.Sub(s.started) >= ss.age {
		return true
	}
	// An open question does not keep the session: the run has the question, and the
	// client may be gone.
	return now.Sub(s.used) >= ss.idle && s.users == 0
}

// endLocked ends a session: its streams close and its questions are cancelled. Calls
// without a question continue.
func (ss *sessions) endLocked(s *httpSession) {
	if s.place == nil {
		return
	}
	delete(ss.byID, s.id)
	if ss.byPrincipal[s.principal]--; ss.byPrincipal[s.principal] == 0 {
		delete(ss.byPrincipal, s.principal)
	}
	ss.byUse.Remove(s.place)
	s.place = nil
	close(s.gone)
	s.questions.abandon()
	if len(ss.byID) == 0 && ss.sweeper != nil {
		ss.sweeper.Stop()
		ss.sweeper = nil
	}
}

// sweepEvery is the sweep interval: short compared with the limits of a session.
func (ss *sessions) sweepEvery() time.Duration {
	return min(max(min(ss.idle, ss.age)/10, time.Millisecond), time.Minute)
}

// sweep ends expired sessions. One timer serves all sessions.
func (ss *sessions) sweep() {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	now := time.Now()
	for _, s := range ss.byID {
		if ss.expiredLocked(s, now) {
			ss.endLocked(s)
		}
	}
	if ss.sweeper != nil {
		ss.sweeper.Reset(ss.sweepEvery())
	}
}

// broadcast sends a message to every client that has a GET stream open.
func (ss *sessions) broadcast(v any) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	for _, s := range ss.byID {
		s.send(v)
	}
}
