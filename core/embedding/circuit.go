package embedding

import (
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// Down is the error while the endpoint is left alone after a failure.
type Down struct {
	Until time.Time // when it is asked again
	Cause error     // of the failure
}

func (d *Down) Error() string {
	return fmt.Sprintf("the embedding endpoint is left alone until %s: %v", d.Until.Format(time.TimeOnly), d.Cause)
}

func (d *Down) Unwrap() error { return d.Cause }

// circuit remembers that the endpoint failed just now. When its time has
// passed one caller tries; the others are told no until that one is back.
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

// enter asks whether the endpoint may be asked now.
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

// answered is what a caller who was let in says afterwards.
func (c *circuit) answered() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause != nil {
		c.log.Info("the embedding endpoint answers again")
	}
	c.cause, c.wait, c.probing = nil, 0, false
}

// gaveUp: the caller left before the endpoint could answer, which proves nothing.
func (c *circuit) gaveUp() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.probing = false
}

// failed closes the endpoint for a while, at least for as long as it asked for.
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
