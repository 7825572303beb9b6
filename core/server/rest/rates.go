package rest

import (
	"container/list"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

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
