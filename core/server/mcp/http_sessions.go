package mcp

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/kairos-mcp/kairos/core/sessions"
)

// liveSessions are the HTTP sessions of the legacy eras. They are limited in number and in
// bytes, first those of one client and then all, in idle time and in age.
type liveSessions struct {
	max, perClient int
	idle           time.Duration

	mu      sync.Mutex // guards the fields below, and those of each client and session that say so
	closed  bool
	byID    map[string]*httpSession   // by sessions.Key of their ids
	clients map[string]*sessionClient // with sessions
	held    int64
	sweeper *time.Timer // runs while there are sessions
}

// sessionClient shares a part of the limits: a principal, or without a login an address.
type sessionClient struct {
	// guarded by liveSessions.mu
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

// checkEvery is how long a session that another process has ended is served at most.
const checkEvery = 5 * time.Second

// checkDue reports whether a request has to look whether another process has ended the session.
func (ss *liveSessions) checkDue(s *httpSession) bool {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if time.Since(s.checked) < checkEvery {
		return false
	}
	s.checked = time.Now() // further requests need not look
	return true
}

var (
	errSessionsClosed = errors.New("the server is shutting down")
	errSessionsFull   = errors.New("too many sessions are in use")
)

func newSessions(c Config) liveSessions {
	return liveSessions{
		max: c.MaxSessions, perClient: c.MaxSessionsPerClient, idle: c.SessionIdle,
		byID: map[string]*httpSession{}, clients: map[string]*sessionClient{},
	}
}

// add keeps a session of the client, and evicts others if there are too many: their clients
// continue them by their ids.
func (ss *liveSessions) add(s *httpSession, client string) error {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return ss.addLocked(s, client)
}

func (ss *liveSessions) addLocked(s *httpSession, client string) error {
	size := sessionBytes + s.heldByClient()
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
func (ss *liveSessions) roomLocked(c *sessionClient, sessions int, bytes int64, order ...usage) error {
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
func (ss *liveSessions) evictLocked(of *sessionClient, order []usage) bool {
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
func (ss *liveSessions) hold(s *httpSession, bytes int64) error {
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

func (ss *liveSessions) drop(s *httpSession, bytes int64) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if s.client != nil {
		ss.holdLocked(s, -bytes)
	}
}

func (ss *liveSessions) holdLocked(s *httpSession, bytes int64) {
	s.held += bytes
	s.client.held += bytes
	ss.held += bytes
}

// use returns the session with the key for a request of its holder, whose end release
// tells. A session of another holder is not found.
func (ss *liveSessions) use(ctx context.Context, key, holder string) (s *httpSession, release func(), ok bool) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	s, ok = ss.byID[key]
	if !ok || s.holder != holder {
		return nil, nil, false
	}
	return s, ss.useLocked(ctx, s), true
}

// adopt is use for the session s, whether it is kept or not yet.
func (ss *liveSessions) adopt(ctx context.Context, s *httpSession, client string) (*httpSession, func(), error) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if kept, ok := ss.byID[s.id]; ok {
		return kept, ss.useLocked(ctx, kept), nil
	}
	if err := ss.addLocked(s, client); err != nil {
		return nil, nil, err
	}
	return s, ss.useLocked(ctx, s), nil
}

func (ss *liveSessions) useLocked(ctx context.Context, s *httpSession) (release func()) {
	s.wakeLocked()
	s.users++
	s.used = time.Now()
	return func() { s.release(ctx.Err() != nil) }
}

// HasSession reports whether the HTTP session with the id is in memory.
func (s *Server) HasSession(id string) bool { return s.http.sessions.has(sessions.Key(id)) }

func (ss *liveSessions) has(key string) bool {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	_, ok := ss.byID[key]
	return ok
}

// end ends the session with the key if it is kept.
func (ss *liveSessions) end(key string) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if s, ok := ss.byID[key]; ok {
		ss.endLocked(s)
	}
}

// close ends all sessions and refuses new ones.
func (ss *liveSessions) close() {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.closed = true
	for _, s := range ss.byID {
		ss.endLocked(s)
	}
}

// outlivedLocked reports whether the session is not kept in memory any longer. An open
// question does not keep it: the run has the question, and the client may be gone.
func (ss *liveSessions) outlivedLocked(s *httpSession, now time.Time) bool {
	return !now.Before(s.expires) || now.Sub(s.used) >= ss.idle && s.users == 0
}

// endLocked ends a session: its streams close and its questions are cancelled. Calls
// without a question continue.
func (ss *liveSessions) endLocked(s *httpSession) {
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

// sweepEvery is the sweep interval: short compared with the time that sessions are kept.
func (ss *liveSessions) sweepEvery() time.Duration {
	return min(max(ss.idle/10, time.Millisecond), time.Minute)
}

// sweep drops sessions that are not kept any longer. One timer serves all sessions.
func (ss *liveSessions) sweep() {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	now := time.Now()
	for _, s := range ss.byID {
		if ss.outlivedLocked(s, now) {
			ss.endLocked(s)
		}
	}
	if ss.sweeper != nil {
		ss.sweeper.Reset(ss.sweepEvery())
	}
}

// broadcast sends a message to every client that has a GET stream open.
func (ss *liveSessions) broadcast(v any) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	for _, s := range ss.byID {
		s.send(v)
	}
}
