package rest

import (
	"bytes"
	"container/list"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
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
// comes slowly holds a connection and its share of memory, and nothing more.
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
		err := a.read(c)
		defer c.free()
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

// read reads the body. Memory for a large one is reserved first: for its
// length, or for the largest body if the client does not tell.
func (a *API) read(c *call) error {
	length := c.r.ContentLength
	if length > smallBody && !a.reserve(c, length) {
		return errNoRoom
	}
	_ = c.w.control.SetReadDeadline(time.Now().Add(a.cfg.Limits.BodyTime))
	body := http.MaxBytesReader(c.w.ResponseWriter, c.r.Body, a.cfg.Limits.Body)
	chunk := make([]byte, 0, max(length+1, 512))
	for {
		if len(chunk) == cap(chunk) {
			chunk = append(chunk, 0)[:len(chunk)]
		}
		n, err := body.Read(chunk[len(chunk):cap(chunk)])
		chunk = chunk[:len(chunk)+n]
		if length < 0 && len(chunk) > smallBody {
			if length = a.cfg.Limits.Body; !a.reserve(c, length) {
				return errNoRoom
			}
			_ = c.w.control.SetReadDeadline(time.Now().Add(a.cfg.Limits.BodyTime))
		}
		if errors.Is(err, io.EOF) {
			// The deadline is over: the server goes on reading, to notice a client that leaves.
			_ = c.w.control.SetReadDeadline(time.Time{})
			c.body = chunk
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// reserve takes room for a body until the end of the call, waiting for it for a
// while.
func (a *API) reserve(c *call, n int64) bool {
	ctx, cancel := context.WithTimeout(c.r.Context(), a.cfg.Limits.Patience)
	defer cancel()
	give, ok := a.bodies.take(ctx, c.client, n)
	if ok {
		c.give = give
	}
	return ok
}

// free gives back the room of the body.
func (c *call) free() {
	if c.give != nil {
		c.give()
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
		a.discard(c)
		c.refuse(http.StatusServiceUnavailable, "BUSY", "The server holds as many large bodies as it can; try again in %d s.", seconds(busyFor))
	case errors.Is(err, os.ErrDeadlineExceeded):
		c.close()
		c.refuse(http.StatusRequestTimeout, "BODY_TIMEOUT", "The body did not arrive within %s.", a.cfg.Limits.BodyTime)
	default:
		c.close()
		c.refuse(http.StatusBadRequest, invalidInput, "The body could not be read.")
	}
}

func (a *API) tooLarge(c *call) {
	a.discard(c)
	c.refuse(http.StatusRequestEntityTooLarge, "BODY_TOO_LARGE", "The body is larger than %d bytes; shorten it.", a.cfg.Limits.Body)
}

// maxDiscard is how many bodies of the largest size are read and thrown away.
const maxDiscard = 4

// discard reads on, within the time of a body and up to a bound, before the
// connection is closed. Closing it on a client that is still sending would
// reset it, and most clients would never see the reply.
func (a *API) discard(c *call) {
	c.close()
	if strings.EqualFold(c.r.Header.Get("Expect"), "100-continue") {
		return // such a client reads the reply instead of sending the body
	}
	_ = c.w.control.SetReadDeadline(time.Now().Add(a.cfg.Limits.BodyTime))
	_, _ = io.CopyN(io.Discard, c.r.Body, maxDiscard*a.cfg.Limits.Body) // a client that has gone needs no reply
}

// close ends the connection after the reply: what of the body is still to come
// is not read.
func (c *call) close() { c.w.Header().Set("Connection", "close") }

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

// maxRates is of how many clients the rate is remembered; the one that has not
// called for longest is forgotten first.
const maxRates = 10_000

// rates bounds the calls of each client.
type rates struct {
	limit rate.Limit
	burst int

	mu     sync.Mutex // guards the fields below
	byName map[string]*list.Element
	recent *list.List // of *rated, the latest first
}

type rated struct {
	client  string
	limiter *rate.Limiter
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
func (r *rates) take(client string) (wait time.Duration) {
	if r.limit == rate.Inf {
		return 0
	}
	res := r.of(client).Reserve()
	if wait = res.Delay(); wait > 0 {
		res.Cancel()
	}
	return wait
}

func (r *rates) of(client string) *rate.Limiter {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e, ok := r.byName[client]; ok {
		r.recent.MoveToFront(e)
		return e.Value.(*rated).limiter
	}
	if r.recent.Len() >= maxRates {
		oldest := r.recent.Back()
		delete(r.byName, r.recent.Remove(oldest).(*rated).client)
	}
	of := &rated{client: client, limiter: rate.NewLimiter(r.limit, r.burst)}
	r.byName[client] = r.recent.PushFront(of)
	return of.limiter
}

// slots are the places of calls that are worked on and of those that wait.
type slots struct {
	working *shares
	waiting chan struct{}
}

func newSlots(working, waiting int) *slots {
	return &slots{working: newShares(int64(working), int64(working)), waiting: make(chan struct{}, waiting)}
}

// work gives the client a place among those that are worked on, in its turn.
func (s *slots) work(ctx context.Context, client string) (*slot, bool) {
	give, ok := s.working.take(ctx, client, 1)
	return &slot{of: s, give: give}, ok
}

// stream gives a place among those that wait, at once or not at all.
func (s *slots) stream() (*slot, bool) {
	select {
	case s.waiting <- struct{}{}:
		return &slot{of: s, parked: true}, true
	default:
		return nil, false
	}
}

// slot is the place of one call.
type slot struct {
	of   *slots
	give func() // gives back the place among those that are worked on

	mu       sync.Mutex // guards the fields below
	parked   bool       // it has a place among those that wait instead
	released bool
}

// park makes the call one that waits. Where no more may wait it keeps its place.
func (s *slot) park() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.parked || s.released {
		return
	}
	select {
	case s.of.waiting <- struct{}{}:
		s.give()
		s.parked = true
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
	s.released = true
	if s.parked {
		<-s.of.waiting
		return
	}
	s.give()
}
