// Package clock is the time by which KAIROS records what happens and decides
// what is over. It follows the machine's clock forward, and continues from where it was
// when that is set back. It does not measure durations: time.Since does.
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
	// Tolerance is how far two readings may differ without one of the clocks
	// having been set: machines correct theirs by small steps all the time.
	Tolerance = 10 * time.Second
)

// Source reads the time of a machine. It is called concurrently.
type Source interface {
	// Wall is what the machine's clock shows. It may be set to any time.
	Wall() time.Time
	// Elapsed is the time that has passed since some moment. It only grows,
	// whatever the machine's clock is set to.
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

// jump is by how much the machine's clock is ahead of Settled.
type jump struct {
	seen time.Duration // elapsed when it was noticed
	by   time.Duration // the least since then
}

// New returns a clock that begins with what the machine's clock shows.
func New(source Source) *Clock {
	wall := source.Wall()
	return &Clock{source: source, elapsed: source.Elapsed(), now: wall, settled: wall}
}

// System returns a clock of this machine.
func System() *Clock { return New(system{start: time.Now()}) }

type system struct{ start time.Time }

// Wall has no monotonic reading, so that comparisons go by what the clock shows.
func (system) Wall() time.Time { return time.Now().Round(0) }

func (s system) Elapsed() time.Duration { return time.Since(s.start) }

// Now is the present time. It is never less than it was: when the machine's
// clock is set back, time continues from where it was. A jump forward is followed
// at once, so whatever is allowed for a time ends in time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read()
	return c.now
}

// Settled is the time by which things may be removed for good. It does not
// follow a jump forward before the machine's clock has stayed there for
// SettleTime, because that clock may be wrong. It is never more than Now.
func (c *Clock) Settled() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read()
	return c.settled
}

// Wall is what the machine's clock shows, wrong or not. It is for what several
// processes compare: they agree on it.
func (c *Clock) Wall() time.Time { return c.source.Wall() }

// Moment is a moment by both clocks of a machine.
type Moment struct {
	wall    time.Time
	elapsed time.Duration
}

// Moment is the present one.
func (c *Clock) Moment() Moment {
	return Moment{wall: c.source.Wall(), elapsed: c.source.Elapsed()}
}

// Since is the time that has passed since the moment, whatever the machine's clock
// was set to.
func (c *Clock) Since(m Moment) time.Duration { return c.source.Elapsed() - m.elapsed }

// Earliest is the least that the machine's clock has shown since the moment. It
// may have been set once in between.
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

// NewID returns a UUIDv7 of the present time. Each one sorts after all that the
// clock returned before.
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
