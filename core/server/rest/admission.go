package rest

import (
	"cmp"
	"context"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/kairos-mcp/kairos/core/fault"
)

// Limits bound what clients may take. The zero value is the documented default.
type Limits struct {
	// Body is the largest body in bytes. The default is 16 MiB.
	Body int64
	// Bodies is how many bytes of bodies may be in memory at a time. The default is 64 MiB.
	// One client may have three quarters of it, or one body. Calls with up to 16 KiB do not count.
	Bodies int64
	// BodyTime is how long a body may take to arrive. The default is 30 s.
	BodyTime time.Duration
	// Concurrent is how many calls are worked on at a time. The default is 256.
	Concurrent int
	// Waiting is how many streams and calls that wait (for a person, say) may
	// be open besides. The default is 10240.
	Waiting int
	// WaitsAfter is when a call counts as waiting. The default is 2 s.
	WaitsAfter time.Duration
	// Patience is how long a call may wait for room for its body, or for its
	// turn to be worked on, until it is refused. The default is 5 s.
	Patience time.Duration
	// PerMinute and Burst bound the calls of one client, which is a principal
	// and without Identify a session, else an address. The default is 600000 and 20000,
	// which is more than one local client gets out of a server on two cores;
	// PerMinute less than zero: not at all. The clients of one address share
	// four times as much.
	PerMinute, Burst int
	// WriteTime is how long one write may take until the client counts as
	// gone. The default is 60 s.
	WriteTime time.Duration
}

// perAddress is how many times the calls of one client an address may make.
const perAddress = 4

func (l Limits) withDefaults() Limits {
	l.Body, l.Bodies = cmp.Or(l.Body, 16<<20), cmp.Or(l.Bodies, 64<<20)
	l.BodyTime = cmp.Or(l.BodyTime, 30*time.Second)
	l.Concurrent, l.Waiting = cmp.Or(l.Concurrent, 256), cmp.Or(l.Waiting, 10240)
	l.WaitsAfter = cmp.Or(l.WaitsAfter, 2*time.Second)
	l.Patience = cmp.Or(l.Patience, 5*time.Second)
	l.PerMinute, l.Burst = cmp.Or(l.PerMinute, 600_000), cmp.Or(l.Burst, 20_000)
	l.WriteTime = cmp.Or(l.WriteTime, time.Minute)
	return l
}

// admission bounds what clients take of the server: how often they call, how
// large their bodies are, and how many calls are worked on at a time.
type admission struct {
	limits  Limits
	network network
	// identified: callers are principals, not sessions and addresses.
	identified bool
	session    func(id string) bool // whether an MCP session exists; may be nil

	rates *rates
	// addresses bounds the calls of all clients of an address.
	addresses *rates
	slots     *slots
	bodies    *shares
}

func newAdmission(cfg Config, n network) *admission {
	l := cfg.Limits
	return &admission{
		limits: l, network: n, identified: cfg.Identify != nil, session: cfg.Session,
		rates:     newRates(l.PerMinute, l.Burst),
		addresses: newRates(perAddress*l.PerMinute, perAddress*l.Burst),
		slots:     newSlots(l.Concurrent, l.Waiting),
		bodies:    newShares(l.Bodies, max(l.Bodies/4*3, l.Body)),
	}
}

// busyFor is when a client should try again that was refused for want of room.
const busyFor = time.Second

// later tells the client when to try again.
func (c *call) later(wait time.Duration) {
	c.w.Header().Set("Retry-After", strconv.Itoa(seconds(wait)))
}

// seconds rounds up.
func seconds(d time.Duration) int { return int(math.Ceil(d.Seconds())) }

// clientOf names who shares the limits: whoever is identified, and without a
// login the MCP session, else the address.
func (a *admission) clientOf(c *call) string {
	if a.identified {
		return "principal " + c.caller.Principal
	}
	if id := c.r.Header.Get("Mcp-Session-Id"); id != "" && a.session != nil && a.session(id) {
		return "session " + id
	}
	return "address " + a.network.remote(c.r)
}

// rated bounds how much one client calls. Without a login the sessions of one
// address share a bound of their own.
func (a *admission) rated(next handler) handler {
	return func(c *call) {
		if c.route.by == anybody {
			next(c)
			return
		}
		c.client = a.clientOf(c)
		wait := a.rates.take(c.client)
		if wait == 0 && !a.identified {
			wait = a.addresses.take(a.network.remote(c.r))
		}
		if wait > 0 {
			c.later(wait)
			c.refuse(fault.RateLimited, "Too many calls; try again in %d s.", seconds(wait))
			return
		}
		next(c)
	}
}

// slotted bounds how many calls are worked on at a time. One that waits, for a
// person or as an open stream, gives its place to others. Where all places are
// taken, clients get the next free one in turn.
func (a *admission) slotted(next handler) handler {
	return func(c *call) {
		if c.route.by == anybody {
			next(c)
			return
		}
		s, ok := a.place(c)
		if !ok {
			c.later(busyFor)
			c.refuse(fault.Busy, "The server works on as many calls as it can; try again in %d s.", seconds(busyFor))
			return
		}
		defer s.release()
		c.w.onStream = s.park
		defer s.parkAfter(a.limits.WaitsAfter)()
		next(c)
	}
}

func (a *admission) place(c *call) (*slot, bool) {
	if c.route.pattern == mcpPath && c.r.Method == http.MethodGet {
		return a.slots.stream()
	}
	ctx, cancel := context.WithTimeout(c.r.Context(), a.limits.Patience)
	defer cancel()
	return a.slots.work(ctx, c.client)
}
