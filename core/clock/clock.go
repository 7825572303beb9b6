// Package clock provides the time for records and expiry. It follows the machine's
// clock forward and never goes back: if that clock is set back, time continues
// from where it was. To measure durations use time.Since.
package clock

import (
	"encoding/binary"
	"sync"
	"time"

	"github.com/google/uuid"
)

const (
	// SettleTime is how long the machine's clock has to stay ahead after a jump
	// forward until Settled follows it.
	SettleTime = 24 * time.Hour
	// Tolerance is the difference between two readings up to which no clock
	// counts as set: machines correct their clocks by small steps.
	Tolerance = 10 * time.Second
)

// Source reads the time of a machine. It is called concurrently.
type Source interface {
	// Wall is what the machine's clock shows. It may be set to any time.
	Wall() time.Time
	// Elapsed is the time since a fixed moment. It only grows, even if the
	// machine's clock is set.
	Elapsed() time.Duration
}

// Clock is the time of a process. Its methods may be called concurrently.
type Clock struct {
	source Source

	mu      sync.Mutex    // guards the fields below
	elapsed time.Duration // when now and settled were worked out
	now     time.Time
	settled time.Time
	jump    *jump // nil: settled agrees with the machine
	lastID  uint64
}

// jump returns how far the machine's clock is ahead of Settled.
type jump struct {
	seen time.Duration // elapsed when it was noticed
	by   time.Duration // the least since then
}

// New returns a clock that starts at the time of the machine's clock.
func New(source Source) *Clock {
	wall := source.Wall()
	return &Clock{source: source, elapsed: source.Elapsed(), now: wall, settled: wall}
}

// System returns a clock of this machine.
func System() *Clock { return New(system{start: time.Now()}) }

type system struct{ start time.Time }

// Wall returns a time without a monotonic reading, so that comparisons use the wall clock.
func (system) Wall() time.Time { return time.Now().Round(0) }

func (s system) Elapsed() time.Duration { return time.Since(s.start) }

// Now returns the current time. It never decreases: if the machine's clock is set
// back, time continues from where it was. It follows a jump forward at once, so
// permissions expire in time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read()
	return c.now
}

// Settled returns the time to use for permanent removal. It follows a jump forward
// only after the machine's clock has stayed there for SettleTime, because that
// clock may be wrong. It is never later than Now.
func (c *Clock) Settled() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read()
	return c.settled
}

// Wall returns the machine's clock, right or wrong. Use it for times that several
// processes compare.
func (c *Clock) Wall() time.Time { return c.source.Wall() }

// Moment is a moment by both clocks of a machine.
type Moment struct {
	wall    time.Time
	elapsed time.Duration
}

// Moment returns the current moment.
func (c *Clock) Moment() Moment {
	return Moment{wall: c.source.Wall(), elapsed: c.source.Elapsed()}
}

// Since returns the time elapsed since the moment, even if the machine's clock was
// set in between.
func (c *Clock) Since(m Moment) time.Duration { return c.source.Elapsed() - m.elapsed }

// Earliest returns the earliest time that the machine's clock has shown since the
// moment. The clock may have been set once in between.
func (c *Clock) Earliest(since Moment) time.Time {
	now := c.Moment()
	if begin := now.wall.Add(since.elapsed - now.elapsed); begin.Before(since.wall) {
		return begin
	}
	return since.wall
}

// read brings the clock up to date. The caller holds mu.
func (c *Clock) read() {
	wall, elapsed := c.source.Wall(), c.source.Elapsed()
	passed := max(elapsed-c.elapsed, 0)
	c.elapsed = elapsed
	c.now, c.settled = c.now.Add(passed), c.settled.Add(passed)
	if wall.After(c.now) {
		c.now = wall
	}
	ahead := wall.Sub(c.settled)
	switch {
	case ahead <= Tolerance:
		c.settled, c.jump = c.settled.Add(max(ahead, 0)), nil
	case c.jump == nil:
		c.jump = &jump{seen: elapsed, by: ahead}
	case elapsed-c.jump.seen < SettleTime:
		c.jump.by = min(c.jump.by, ahead)
	default:
		c.settled, c.jump = c.settled.Add(min(c.jump.by, ahead)), nil
	}
}

// NewID returns a UUIDv7 of the current time. Each ID sorts after all earlier IDs
// of the clock.
func (c *Clock) NewID() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read()
	// RFC 9562: 48 bits of milliseconds, and here 12 bits of their fraction.
	whole, rest := c.now.UnixMilli(), c.now.Nanosecond()%int(time.Millisecond)
	c.lastID = max(uint64(whole)<<12|uint64(rest)<<12/uint64(time.Millisecond), c.lastID+1)
	id := uuid.New()
	binary.BigEndian.PutUint64(id[:8], c.lastID>>12<<16|7<<12|c.lastID&0xfff)
	return id.String()
}
