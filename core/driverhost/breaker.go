package driverhost

import (
	"slices"
	"time"
)

const (
	firstDelay = 100 * time.Millisecond
	maxDelay   = 5 * time.Second

	// The breaker opens after maxFailures failures within breakerWindow, not
	// counting the time that calls took, and without a served call in between.
	maxFailures   = 5
	breakerWindow = 60 * time.Second
)

// breaker is the circuit breaker of a driver: it decides when a driver that failed
// may be started again. It is not safe for concurrent use.
type breaker struct {
	failures  []time.Time // crashes and failed starts since the last served call
	notBefore time.Time   // of the next start
	trial     bool        // half-open: one start was let through and no call is served yet
	cause     error       // the failure that opened the breaker
}

// succeed forgets the failures, because the driver served a call.
func (b *breaker) succeed() { b.failures, b.trial = nil, false }

// add records a failure and reports whether it exhausts the driver's credit.
func (b *breaker) add(now time.Time, window time.Duration) (exhausted bool) {
	b.failures = slices.DeleteFunc(b.failures, func(at time.Time) bool { return now.Sub(at) > window })
	b.failures = append(b.failures, now)
	return b.trial || len(b.failures) >= maxFailures
}

// open rejects starts until the time.
func (b *breaker) open(until time.Time, cause error) { *b = breaker{notBefore: until, cause: cause} }

// delay sets the time of the next start, later with each failure in a row. The
// first of them costs nothing if it is free.
func (b *breaker) delay(now time.Time, free bool) {
	n := len(b.failures)
	if free {
		n--
	}
	b.notBefore = now
	if n > 0 {
		b.notBefore = now.Add(min(maxDelay, firstDelay<<min(n-1, 10)))
	}
}

// waits reports whether the time of the next start has not come yet.
func (b *breaker) waits(now time.Time) bool { return now.Before(b.notBefore) }
