package mcp

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// sessions are the HTTP sessions of the legacy eras. They are limited in number and in
// bytes, first those of one client and then all, in idle time and in age.
type sessions struct {
	max, perClient int
	idle, age      time.Duration

	mu      sync.Mutex // guards the fields below, and those of each client and session that say so
	closed  bool
	byID    map[string]*httpSession
	clients map[string]*sessionClient // with sessions
	held    int64
	sweeper *time.Timer // runs while there are sessions
}

// sessionClient shares a part of the limits: a principal, or without a login an address.
type sessionClient struct {
	// guarded by sessions.mu
	sessions int
	held     int64
	unused   [usages]list.List // sessions that nothing uses, the one used longest ago first
}

// usage is why nothing uses a session.
type usage int

const (
	// left: the client hung up on the last request, so it may be gone.
	left usage = iota
	// idle: the last request has ended.
	idle
	// asking: the same, and there is a question that the client may still answer.
	asking
	usages
)

// Limits of what sessions keep in memory, in bytes.
const (
	maxHeld       = 64 << 20 // by all sessions; one client has half of it
	sessionBytes  = 1 << 10  // by a session beside what its client says about itself
	questionBytes = 4 << 10  // by a question beside its text
)

var (
	errSessionsClosed = errors.New("the server is shutting down")
	errSessionsFull   = errors.New("too many sessions are in use")
)

func newSessions(c Config) sessions {
	return sessions{
		max: c.MaxSessions, perClient: c.MaxSessionsPerClient, idle: c.SessionIdle, age: c.SessionAge,
		byID: map[string]*httpSession{}, clients: map[string]*sessionClient{},
	}
}

// add keeps a session of the client, and evicts others if there are too many.
func (ss *sessions) add(s *httpSession, client string) error {
	size := sessionBytes + s.heldByClient()
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if ss.closed {
		return errSessionsClosed
	}
	c := ss.clients[client]
	if c == nil {
		c = &sessionClient{}
	}
	if err := ss.roomLocked(c, 1, size, left, idle, asking); err != nil {
		return err
	}
	ss.clients[client], ss.byID[s.id] = c, s
	s.client, s.clientName = c, client
	c.sessions++
	ss.holdLocked(s, size)
	s.restLocked(idle)
	if ss.sweeper == nil {
		ss.sweeper = time.AfterFunc(ss.sweepEvery(), ss.sweep)
	}
	return nil
}

// roomLocked evicts sessions until there is room for more of the client: its own as long
// as it has more than its share, then those of the client that has the most. Those of an
// earlier usage go first. A session with a call or a stream is not evicted.
func (ss *sessions) roomLocked(c *sessionClient, sessions int, bytes int64, order ...usage) error {
	for c.sessions+sessions > ss.perClient || c.held+bytes > maxHeld/2 {
		if !ss.evictLocked(c, order) {
			return fmt.Errorf("this client has %d sessions in use, and one client may have %d: end some, then try again", c.sessions, ss.perClient)
		}
	}
	for len(ss.byID)+sessions > ss.max || ss.held+bytes > maxHeld {
		if !ss.evictLocked(nil, order) {
			return errSessionsFull
		}
	}
	return nil
}

// evictLocked evicts a session of the client, or without one of the client that has the
// most. It returns false if all of them are in use.
func (ss *sessions) evictLocked(of *sessionClient, order []usage) bool {
	for _, u := range order {
		var most *sessionClient
		for _, c := range ss.clients {
			if c.unused[u].Len() > 0 && (of == nil || of == c) && (most == nil || c.sessions > most.sessions) {
				most = c
			}
		}
		if most != nil {
			ss.endLocked(most.unused[u].Front().Value.(*httpSession))
			return true
		}
	}
	return false
}

// hold counts bytes that a session keeps until drop, and if there are too many, evicts
// sessions whose questions have no waiting client.
func (ss *sessions) hold(s *httpSession, bytes int64) error {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if s.client == nil {
		return errGone
	}
	if err := ss.roomLocked(s.client, 0, bytes, left, asking, idle); err != nil {
		return errTooManyOpen
	}
	if s.client == nil {
		return errGone // its own call has just ended
	}
	ss.holdLocked(s, bytes)
	return nil
}

func (ss *sessions) drop(s *httpSession, bytes int64) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if s.client != nil {
		ss.holdLocked(s, -bytes)
	}
}

func (ss *sessions) holdLocked(s *httpSession, bytes int64) {
	s.held += bytes
	s.client.held += bytes
	ss.held += bytes
}

// use returns the principal's session for a request, whose end release tells. A session of
// another principal is not found.
func (ss *sessions) use(ctx context.Context, id, principal string) (s *httpSession, release func(), ok bool) {
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
	s.wakeLocked()
	s.users++
	s.used = now
	return s, func() { s.release(ctx.Err() != nil) }, true
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
	if s.client == nil {
		return
	}
	s.wakeLocked()
	ss.holdLocked(s, -s.held)
	if s.client.sessions--; s.client.sessions == 0 {
		delete(ss.clients, s.clientName)
	}
	s.client = nil
	delete(ss.byID, s.id)
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
