package rest

import (
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"
)

// maxRates is of how many clients the rate is remembered; the one that has not
// called for longest is forgotten first.
const maxRates = 10_000

// rates bounds the calls of each client.
type rates struct {
	limit    rate.Limit
	burst    int
	limiters *lru.Cache[string, *rate.Limiter] // by client
}

// newRates allows as many calls a minute and at once; less than none: all.
func newRates(perMinute, burst int) *rates {
	r := &rates{limit: rate.Limit(float64(perMinute) / 60), burst: burst}
	if perMinute < 0 {
		r.limit = rate.Inf
	}
	r.limiters, _ = lru.New[string, *rate.Limiter](maxRates) // fails for a negative size only
	return r
}

// take counts a call, or says how long to wait until one is allowed.
func (r *rates) take(client string) (wait time.Duration) {
	limiter, known := r.limiters.Get(client)
	if !known {
		limiter = rate.NewLimiter(r.limit, r.burst)
		if other, added, _ := r.limiters.PeekOrAdd(client, limiter); added { // by another call meanwhile
			limiter = other
		}
	}
	res := limiter.Reserve()
	if wait = res.Delay(); wait > 0 {
		res.Cancel()
	}
	return wait
}
