// Package rest serves the main HTTP port: the REST mirror of the nine tools,
// health, the description of the interface, and the guards that stand before
// all of it and before the MCP endpoint, which it only mounts. It decides
// nothing about protocols and runs: that is the engine's.
package rest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/director"
	"github.com/kairos-mcp/kairos/core/server/toolset"
)

// Engine is what this face calls.
type Engine interface {
	toolset.Engine
	// Continue takes that a client without capabilities answers nothing.
	Continue(ctx context.Context, c access.Caller, in director.Continuation) (director.Round, error)
}

var _ Engine = (*director.Engine)(nil)

// Tool is one of the nine tools as agents see it.
type Tool struct {
	Name, Title, Description string
	Input, Output            json.RawMessage // JSON Schemas
}

// Health is what /health tells of the parts that a server depends on.
type Health struct {
	// Store says why the protocols or runs cannot be used; nil: they can.
	Store error
	// Qdrant: it keeps the protocols.
	Qdrant bool
	// Embedding says why the endpoint does not answer; nil: it does, or none is configured.
	Embedding error
	// Provider turns texts into vectors; Preferred is the configured choice.
	Provider, Preferred string
}

// Snapshot is what POST /api/snapshot tells of a snapshot that was made.
type Snapshot struct {
	Name string
	// Path is where the server of the store keeps it; may be empty.
	Path  string
	Bytes int64
}

// Observer hears of every request. Called concurrently; returns at once.
type Observer interface {
	Served(Exchange)
	// Active is called with 1 when a request comes and with -1 when it is done.
	Active(delta int)
}

// Exchange is one request and what became of it.
type Exchange struct {
	Method string // an HTTP method, or "other"
	Route  string // the pattern, or "other"
	Status int
	Took   time.Duration
	In     int64 // bytes of the body that were read
	Out    int64 // bytes of the reply's body
	Space  string
}

// Access says from where requests are taken.
type Access struct {
	// Local: only this machine reaches the listener, so only its names are
	// hosts. Otherwise any address is one, too; names have to be listed.
	Local bool
	// Hosts are further hosts by which the server is called, without port;
	// "*": any.
	Hosts []string
	// Origins are further origins whose pages may call, such as
	// https://app.example.org; "*": any. The server's own pages always may.
	Origins []string
	// Proxies are believed what X-Forwarded-For and -Proto say.
	Proxies []netip.Prefix
}

// Limits bound what clients may take. The zero value is the documented default.
type Limits struct {
	// Body is the largest body in bytes; zero: 16 MiB.
	Body int64
	// Bodies is how many bytes of bodies may be in memory at a time; zero: 64 MiB.
	// One client may have three quarters of it, or one body. Calls with up to 16 KiB do not count.
	Bodies int64
	// BodyTime is how long a body may take to arrive; zero: 30 s.
	BodyTime time.Duration
	// Concurrent is how many calls are worked on at a time; zero: 256.
	Concurrent int
	// Waiting is how many streams and calls that wait (for a person, say) may
	// be open besides; zero: 10240.
	Waiting int
	// WaitsAfter is when a call counts as waiting; zero: 2 s.
	WaitsAfter time.Duration
	// Patience is how long a call may wait for room for its body, or for its
	// turn to be worked on, until it is refused; zero: 5 s.
	Patience time.Duration
	// PerMinute and Burst bound the calls of one client, which is a principal
	// and without Identify a session, else an address; zero: 60000 and 5000;
	// PerMinute less than zero: not at all. The clients of one address share
	// four times as much.
	PerMinute, Burst int
	// WriteTime is how long one write may take until the client counts as
	// gone; zero: 60 s.
	WriteTime time.Duration
}

// perAddress is how many times the calls of one client an address may make.
const perAddress = 4

func (l Limits) withDefaults() Limits {
	for to, fallback := range map[*int64]int64{&l.Body: 16 << 20, &l.Bodies: 64 << 20} {
		if *to == 0 {
			*to = fallback
		}
	}
	for to, fallback := range map[*int]int{&l.Concurrent: 256, &l.Waiting: 10240, &l.PerMinute: 60000, &l.Burst: 5000} {
		if *to == 0 {
			*to = fallback
		}
	}
	for to, fallback := range map[*time.Duration]time.Duration{
		&l.BodyTime: 30 * time.Second, &l.WaitsAfter: 2 * time.Second, &l.WriteTime: time.Minute, &l.Patience: 5 * time.Second,
	} {
		if *to == 0 {
			*to = fallback
		}
	}
	return l
}

// Config of an API. Version, Principal, Space and at least one of Engine and
// Approvals are required.
type Config struct {
	Version string
	// Engine is behind REST; nil: only the approval page is served.
	Engine Engine
	// Approvals is behind the approval page; nil: there is none.
	Approvals Approvals
	// MCP is mounted at /mcp and owns the methods there; nil: nothing is. It
	// gets bodies that are whole and within Limits.
	MCP http.Handler
	// Tools describes the tools for openapi.json; nil: that is not served.
	Tools func() []Tool
	// Check judges a body by the input schema of a tool; its error is a
	// *fault.Error. nil: what cannot be decoded is refused, the rest is the engine's.
	Check func(tool string, arguments json.RawMessage) error
	// Identify says who calls; fault.Forbidden is 403. nil: everybody is Principal.
	Identify func(*http.Request) (access.Caller, error)
	// Session reports whether an MCP session exists. Without Identify its calls
	// count apart from those of other sessions; nil: they count by address.
	Session func(id string) bool
	// Principal and Space are those of every caller without Identify.
	Principal, Space string
	// Health and Ready look at what the server depends on; nil: all is well.
	// They are called at most once a second each.
	Health func(context.Context) Health
	Ready  func(context.Context) error
	// Snapshot makes a snapshot of the store of protocols; nil: it has none.
	Snapshot func(context.Context) (Snapshot, error)
	Access   Access
	Limits   Limits
	// Observer; nil: nobody listens.
	Observer Observer
}

// Validate reports what is missing or impossible.
func (c Config) Validate() error {
	var errs []error
	if c.Version == "" {
		errs = append(errs, errors.New("version is empty"))
	}
	if c.Engine == nil && c.Approvals == nil {
		errs = append(errs, errors.New("engine is missing"))
	}
	if c.Principal == "" || c.Space == "" {
		errs = append(errs, errors.New("principal and space are required"))
	}
	for name, n := range map[string]int64{
		"body": c.Limits.Body, "bodies": c.Limits.Bodies, "concurrent": int64(c.Limits.Concurrent), "waiting": int64(c.Limits.Waiting),
		"burst": int64(c.Limits.Burst), "body time": int64(c.Limits.BodyTime), "waits after": int64(c.Limits.WaitsAfter), "write time": int64(c.Limits.WriteTime),
		"patience": int64(c.Limits.Patience),
	} {
		if n < 0 {
			errs = append(errs, fmt.Errorf("limit %s is negative", name))
		}
	}
	for _, o := range c.Access.Origins {
		if _, err := parseOrigin(o); o != anyName && err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// API is the main port's handler. Its methods may be called concurrently.
type API struct {
	cfg     Config
	log     *slog.Logger
	began   time.Time
	routes  map[string]*route
	handle  handler
	origins map[string]bool
	rates   *rates
	// addresses bounds the calls of all clients of an address.
	addresses *rates
	slots     *slots
	bodies    *shares
	health    remembered[Health]
	ready     remembered[error]

	ending context.Context // of streams: ends with Drain
	endNow context.CancelFunc
}

// New returns the handler. It starts nothing.
func New(cfg Config, log *slog.Logger) (*API, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("http api: %w", err)
	}
	cfg.Limits = cfg.Limits.withDefaults()
	a := &API{cfg: cfg, log: log, began: time.Now(), origins: make(map[string]bool)}
	a.ending, a.endNow = context.WithCancel(context.Background())
	for _, o := range cfg.Access.Origins {
		origin, _ := parseOrigin(o) // Validate has seen it
		a.origins[origin] = true
	}
	a.rates = newRates(cfg.Limits.PerMinute, cfg.Limits.Burst)
	a.addresses = newRates(perAddress*cfg.Limits.PerMinute, perAddress*cfg.Limits.Burst)
	a.slots = newSlots(cfg.Limits.Concurrent, cfg.Limits.Waiting)
	a.bodies = newShares(cfg.Limits.Bodies, max(cfg.Limits.Bodies/4*3, cfg.Limits.Body))
	a.routes = a.table()
	a.handle = a.guarded(func(c *call) { c.route.handle(c) })
	return a, nil
}

// ServeHTTP implements http.Handler.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.handle(newCall(w, r, a.cfg.Limits.WriteTime))
}

// Drain ends the streams and refuses new ones: the server is about to stop, and
// calls in flight are to be finished. It may be called more than once.
func (a *API) Drain() { a.endNow() }
