package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/director"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// Limits of one connection.
const (
	maxOpen    = 512 // unanswered questions
	maxSettled = 128 // answered ones that a slower call may still join
)

var (
	errGone        = errors.New("the connection ended before the client answered")
	errUnreachable = errors.New("the client has no stream open on which it could be asked")
	errLost        = errors.New("taking the client's answer failed")
	errTooManyOpen = fault.New(fault.Conflict,
		"Too many questions of this client, or of all clients, are unanswered: answer or cancel some, then call again.")
)

type questionKey struct {
	run run.ID
	seq int64
}

// question is a request that was sent to the client. It outlives the call that asked:
// an answer counts as long as the connection is open.
type question struct {
	key      questionKey
	cancel   context.CancelFunc
	posed    *posed        // set before out is closed
	out      chan struct{} // closed when it was sent
	settled  chan struct{} // closed when round and err are set
	resolved chan struct{} // closed after the last message about it to the client

	round director.Round
	err   error
	after *time.Duration // that the answer took; set with it; nil: it was not measured

	// guarded by questions.mu
	waiters int
	caller  func() access.Caller // of the call that joined last
	asker   *call                // which sent the newest copy; nil: it has ended
	ended   time.Time            // when that call ended
	cut     bool                 // its client did not wait for its end
	overdue int                  // how often the answer was overdue
}

func (q *question) isSettled() bool {
	select {
	case <-q.settled:
		return true
	default:
		return false
	}
}

// questions are the questions of one connection.
type questions struct {
	mu      sync.Mutex // guards the fields below and each question's
	closed  bool
	coming  map[run.ID]int64 // seq of a question that a call is about to join
	byKey   map[questionKey]*question
	recent  map[questionKey]*question // settled without error
	settled []questionKey             // of recent, oldest first
}

func newQuestions() *questions {
	return &questions{} // the maps are made when needed: most connections are idle
}

func (qs *questions) isOpen(k questionKey) bool {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	_, ok := qs.byKey[k]
	seq, coming := qs.coming[k.run]
	return ok || coming && seq == k.seq
}

// expect announces that a call will join the question or refuse it, so that a call in
// between does not treat it as a question without a waiter.
func (qs *questions) expect(k questionKey) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	if qs.coming == nil {
		qs.coming = map[run.ID]int64{}
	}
	qs.coming[k.run] = k.seq
}

// refused withdraws the announcement of a question that is not sent.
func (qs *questions) refused(k questionKey) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	qs.arrivedLocked(k)
}

func (qs *questions) arrivedLocked(k questionKey) {
	if qs.coming[k.run] == k.seq {
		delete(qs.coming, k.run)
	}
}

// join returns the question of the ask, and whether it is new. If it is, the caller
// must send and settle it, and cancel ends the wait for the answer. An older question
// of the same run is settled, because its answer would be rejected: its waiters
// continue with this one.
func (qs *questions) join(a *director.Ask, c *call, cancel context.CancelFunc) (q *question, fresh bool, err error) {
	key := questionKey{a.Run, a.Seq}
	qs.mu.Lock()
	defer qs.mu.Unlock()
	qs.arrivedLocked(key)
	if q, ok := qs.recent[key]; ok {
		q.waiters++
		return q, false, nil
	}
	if q, ok := qs.byKey[key]; ok {
		q.waiters++
		q.caller = c.caller
		return q, false, nil
	}
	if qs.closed {
		return nil, false, errGone
	}
	for k, old := range qs.byKey {
		if k.run == key.run {
			qs.settleLocked(old, director.Round{Ask: a}, nil)
			old.cancel()
		}
	}
	if len(qs.byKey) >= maxOpen {
		return nil, false, errTooManyOpen
	}
	q = &question{
		key: key, waiters: 1, caller: c.caller, asker: c, cancel: cancel,
		out: make(chan struct{}), settled: make(chan struct{}), resolved: make(chan struct{}),
	}
	if qs.byKey == nil {
		qs.byKey, qs.recent = map[questionKey]*question{}, map[questionKey]*question{}
	}
	qs.byKey[key] = q
	return q, true, nil
}

// stopWaiting records that a call waits no longer. It was cut short if its client cancelled
// it or hung up.
func (qs *questions) stopWaiting(q *question, c *call, cut bool) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q.waiters--
	if q.asker == c {
		q.asker, q.ended, q.cut = nil, time.Now(), cut
	}
}

// maxDoubled limits how often the time after which an answer is overdue doubles.
const maxDoubled = 6

// takeOver makes the call the one that asks the question, and reports whether it has to
// ask it again: the call that asked was cut short, or it ended and since then there was
// no answer for the time, which doubles. Nobody knows then whether the client still
// shows the question or its answer was lost.
func (qs *questions) takeOver(q *question, c *call, after time.Duration) bool {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	switch {
	case q.asker != nil:
		return false
	case !q.cut && time.Since(q.ended) < after<<min(q.overdue, maxDoubled):
		return false
	case !q.cut:
		q.overdue++
	}
	q.asker = c
	return true
}

// asks records that the call has sent the newest copy of the question.
func (qs *questions) asks(q *question, c *call) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q.asker = c
}

// giveUp cancels a question without waiters, and reports whether it did.
func (qs *questions) giveUp(q *question) bool {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	if q.waiters != 0 || qs.byKey[q.key] != q {
		return false
	}
	qs.settleLocked(q, director.Round{}, errLost)
	q.cancel()
	return true
}

// openCount is the number of questions that wait for an answer.
func (qs *questions) openCount() int {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	return len(qs.byKey)
}

// forget drops the settled questions. Call it when no call can join one.
func (qs *questions) forget() {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	qs.settled = nil
	if len(qs.byKey) == 0 {
		qs.byKey, qs.recent = nil, nil
		return
	}
	clear(qs.recent)
}

// answering returns the caller for an answer that has just arrived: the call that
// waits, or a detached one.
func (qs *questions) answering(q *question) access.Caller {
	qs.mu.Lock()
	caller, detached := q.caller, q.waiters == 0
	qs.mu.Unlock()
	c := caller()
	c.Detached = detached
	return c
}

func (qs *questions) settle(q *question, round director.Round, err error) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	qs.settleLocked(q, round, err)
}

// settleLocked keeps a settled question for a while if there was no error: a call that
// saw it open in the run may join it after it was answered.
func (qs *questions) settleLocked(q *question, round director.Round, err error) {
	if qs.byKey[q.key] != q {
		return // superseded before
	}
	delete(qs.byKey, q.key)
	q.round, q.err = round, err
	close(q.settled)
	if err != nil {
		return
	}
	qs.recent[q.key] = q
	qs.settled = append(qs.settled, q.key)
	if len(qs.settled) > maxSettled {
		delete(qs.recent, qs.settled[0])
		qs.settled = qs.settled[1:]
	}
}

// answered waits for the reply to the question, which is out, until ctx or the connection
// ends. withdraw cancels the copies that the client has not answered.
func (q *question) answered(ctx context.Context, gone <-chan struct{}, withdraw func()) (json.RawMessage, *driver.ClientError, error) {
	close(q.out)
	select {
	case r := <-q.posed.answer:
		withdraw()
		q.after = r.after
		return r.result, r.err, nil
	case <-gone:
		return nil, nil, errGone
	case <-ctx.Done():
	}
	select {
	case <-gone: // a connection that ends cancels its questions
		return nil, nil, errGone
	default:
		withdraw()
		return nil, nil, ctx.Err()
	}
}

// abandon cancels all questions and refuses new ones. Answers that are being processed
// are completed.
func (qs *questions) abandon() {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	qs.closed = true
	for _, q := range qs.byKey {
		q.cancel()
	}
}
