package httpapi

import (
	"bytes"
	"container/list"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"golang.org/x/time/rate"

	"github.com/kairos-mcp/kairos/core/jsonlimit"
)

// busyFor is when a client should try again that was refused for want of room.
const busyFor = time.Second

// later tells the client when to try again.
func (c *call) later(wait time.Duration) {
	c.w.Header().Set("Retry-After", strconv.Itoa(seconds(wait)))
}

// seconds rounds up.
func seconds(d time.Duration) int { return int(math.Ceil(d.Seconds())) }

// bodied reads the body before anything else is done with the call: one that
// comes slowly holds a connection and nothing more.
func (a *API) bodied(next handler) handler {
	return func(c *call) {
		if c.r.ContentLength == 0 || c.route.open {
			next(c)
			return
		}
		if c.r.ContentLength > a.cfg.Limits.Body {
			a.tooLarge(c)
			return
		}
		taken, err := a.read(c)
		defer func() { a.bodies.give(taken) }()
		if err != nil {
			a.unread(c, err)
			return
		}
		if err := shape(c.body, c.route.json); err != nil {
			c.refuse(http.StatusBadRequest, invalidInput, "%v", err)
			return
		}
		c.r.Body, c.r.ContentLength = io.NopCloser(bytes.NewReader(c.body)), int64(len(c.body))
		next(c)
	}
}

// smallBody is what there is always room for, in bytes: a few clients with large
// bodies that come slowly must not keep all others out.
const smallBody = 16 << 10

// errNoRoom: too many bytes of bodies are in memory.
var errNoRoom = errors.New("no room for the body")

// read reads the body, and tells how much of the room for bodies it takes.
func (a *API) read(c *call) (taken int64, err error) {
	_ = c.w.control.SetReadDeadline(time.Now().Add(a.cfg.Limits.BodyTime))
	body := http.MaxBytesReader(c.w.ResponseWriter, c.r.Body, a.cfg.Limits.Body)
	chunk := make([]byte, 0, min(max(c.r.ContentLength+1, 512), 64<<10))
	for {
		if len(chunk) == cap(chunk) {
			chunk = append(chunk, 0)[:len(chunk)]
		}
		n, err := body.Read(chunk[len(chunk):cap(chunk)])
		chunk = chunk[:len(chunk)+n]
		taken += int64(n)
		if !a.bodies.take(int64(n)) && taken > smallBody {
			return taken, errNoRoom
		}
		if errors.Is(err, io.EOF) {
			// The deadline is over: the server goes on reading, to notice a client that leaves.
			_ = c.w.control.SetReadDeadline(time.Time{})
			c.body = chunk
			return taken, nil
		}
		if err != nil {
			return taken, err
		}
	}
}

// unread answers a call whose body did not come.
func (a *API) unread(c *call, err error) {
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		a.tooLarge(c)
	case errors.Is(err, errNoRoom):
		c.later(busyFor)
		c.close()
		c.refuse(http.StatusServiceUnavailable, "BUSY", "The server holds as many bodies as it can; try again in %d s.", seconds(busyFor))
	case errors.Is(err, os.ErrDeadlineExceeded):
		c.close()
		c.refuse(http.StatusRequestTimeout, "BODY_TIMEOUT", "The body did not arrive within %s.", a.cfg.Limits.BodyTime)
	default:
		c.close()
		c.refuse(http.StatusBadRequest, invalidInput, "The body could not be read.")
	}
}

func (a *API) tooLarge(c *call) {
	c.close()
	c.refuse(http.StatusRequestEntityTooLarge, "BODY_TOO_LARGE", "The body is larger than %d bytes; shorten it.", a.cfg.Limits.Body)
}

// close ends the connection after the reply: what of the body is still to come
// is not read.
func (c *call) close() { c.w.Header().Set("Connection", "close") }

// bytesInUse bounds how many bytes of bodies are in memory.
type bytesInUse struct {
	max int64
	now atomic.Int64
}

// take counts n bytes and reports whether there was room; they are given back
// in either case.
func (b *bytesInUse) take(n int64) bool { return b.now.Add(n) <= b.max }

func (b *bytesInUse) give(n int64) { b.now.Add(-n) }

// shape says what of a body would cost too much to decode, or cannot be text.
func shape(b []byte, isJSON bool) error {
	if !utf8.Valid(b) {
		return fmt.Errorf("the body is not UTF-8; the first wrong byte is at %d", firstInvalid(b))
	}
	if !isJSON {
		return nil
	}
	if err := jsonlimit.Check(b); err != nil {
		return fmt.Errorf("the body cannot be read: %w", err)
	}
	return nil
}

func firstInvalid(b []byte) int {
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return len(b)
}

// maxRates is of how many principals the rate is remembered; who was not heard
// of for longest is forgotten first.
const maxRates = 10_000

// rates bounds the calls of each principal.
type rates struct {
	limit rate.Limit
	burst int

	mu     sync.Mutex // guards the fields below
	byName map[string]*list.Element
	recent *list.List // of *rated, the latest first
}

type rated struct {
	principal string
	limiter   *rate.Limiter
}

// newRates allows as many calls a minute and at once; less than none: all.
func newRates(perMinute, burst int) *rates {
	limit := rate.Limit(float64(perMinute) / 60)
	if perMinute < 0 {
		limit = rate.Inf
	}
	return &rates{limit: limit, burst: burst, byName: make(map[string]*list.Element), recent: list.New()}
}

// take counts a call, or says how long to wait until one is allowed.
func (r *rates) take(principal string) (wait time.Duration) {
	if r.limit == rate.Inf {
		return 0
	}
	res := r.of(principal).Reserve()
	if wait = res.Delay(); wait > 0 {
		res.Cancel()
	}
	return wait
}

func (r *rates) of(principal string) *rate.Limiter {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e, ok := r.byName[principal]; ok {
		r.recent.MoveToFront(e)
		return e.Value.(*rated).limiter
	}
	if r.recent.Len() >= maxRates {
		oldest := r.recent.Back()
		delete(r.byName, r.recent.Remove(oldest).(*rated).principal)
	}
	of := &rated{principal: principal, limiter: rate.NewLimiter(r.limit, r.burst)}
	r.byName[principal] = r.recent.PushFront(of)
	return of.limiter
}

// slots are the places of calls that are worked on and of those that wait.
type slots struct{ working, waiting chan struct{} }

func newSlots(working, waiting int) *slots {
	return &slots{working: make(chan struct{}, working), waiting: make(chan struct{}, waiting)}
}

// take gives a place at once or not at all.
func (s *slots) take(stream bool) (*slot, bool) {
	among := s.working
	if stream {
		among = s.waiting
	}
	select {
	case among <- struct{}{}:
		return &slot{of: s, held: among}, true
	default:
		return nil, false
	}
}

// slot is the place of one call.
type slot struct {
	of *slots

	mu   sync.Mutex    // guards held
	held chan struct{} // nil: released
}

// park makes the call one that waits. Where no more may wait it keeps its place.
func (s *slot) park() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held != s.of.working {
		return
	}
	select {
	case s.of.waiting <- struct{}{}:
		<-s.of.working
		s.held = s.of.waiting
	default:
	}
}

// parkAfter parks the call if it takes this long; stop is called when it is done.
func (s *slot) parkAfter(d time.Duration) (stop func()) {
	t := time.AfterFunc(d, s.park)
	return func() { t.Stop() }
}

func (s *slot) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	<-s.held
	s.held = nil
}
