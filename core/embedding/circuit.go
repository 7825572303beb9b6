package embedding

import (
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// Down is the error while the circuit breaker is open after a failure.
type Down struct {
	Until time.Time // when it is asked again
	Cause error     // of the failure
}

func (d *Down) Error() string {
	return fmt.Sprintf("the embedding endpoint is left alone until %s: %v", d.Until.Format(time.TimeOnly), d.Cause)
}

func (d *Down) Unwrap() error { return d.Cause }

// circuit is a circuit breaker. After the cool-down one caller tries; the others
// get Down until that one is back.
type circuit struct {
	first time.Duration // the shortest cool-down
	log   *slog.Logger

	mu      sync.Mutex // guards the fields below
	wait    time.Duration
	until   time.Time
	cause   error // nil: closed
	probing bool
}

// maxCoolDowns bounds how often the cool-down doubles: 16 times its length.
const maxCoolDowns = 16

// enter reports whether the endpoint may be called now.
func (c *circuit) enter() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause == nil {
		return nil
	}
	if c.probing || time.Now().Before(c.until) {
		return &Down{Until: c.until, Cause: c.cause}
	}
	c.probing = true
	return nil
}

// answered closes the circuit after a successful call.
func (c *circuit) answered() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause != nil {
		c.log.Info("the embedding endpoint answers again")
	}
	c.cause, c.wait, c.probing = nil, 0, false
}

// gaveUp is called if the caller left before the endpoint could answer, which
// proves nothing.
func (c *circuit) gaveUp() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.probing = false
}

// failed opens the circuit for the cool-down, at least for the time that the
// endpoint asked for.
func (c *circuit) failed(cause error, atLeast time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause == nil {
		c.log.Warn("the embedding endpoint fails; until it answers, words alone decide", "error", cause)
	}
	c.wait = min(max(2*c.wait, c.first), maxCoolDowns*c.first)
	c.until = time.Now().Add(max(c.wait, min(atLeast, 5*time.Minute)))
	c.cause, c.probing = cause, false
}
