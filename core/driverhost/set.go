package driverhost

import (
	"context"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/driverrpc"
)

// Set is the drivers of one configuration. A caller of its drivers holds the set, so that
// it is not drained meanwhile. Its methods are safe for concurrent use.
type Set struct {
	host *Host
	plan
	slots map[string]*slot // fixed at creation
	gone  []string         // Gone; fixed before the set is used

	mu       sync.Mutex // guards the fields below
	holders  int
	draining bool
	released chan struct{} // closed when draining and without holders
}

// Hold keeps the set's drivers running until Release. It returns false if the set is
// draining; the caller must then use the present set.
func (s *Set) Hold() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		return false
	}
	s.holders++
	return true
}

// Release ends one Hold.
func (s *Set) Release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holders--
	if s.draining && s.holders == 0 {
		close(s.released)
	}
}

// beginDrain refuses further holders. It returns false if the set is draining already.
func (s *Set) beginDrain() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		return false
	}
	s.draining = true
	if s.holders == 0 {
		close(s.released)
	}
	return true
}

// Lock returns the lock of the set, attached drivers included.
func (s *Set) Lock() Lock { return s.lock }

// Descriptors returns the descriptors of the drivers, by name.
func (s *Set) Descriptors() []driver.Descriptor { return s.lock.Descriptors() }

// Describe returns the named driver's descriptor from the lock and the sha256 of its
// binary on this platform. It starts nothing.
func (s *Set) Describe(name string) (d driver.Descriptor, sha256 string, ok bool) {
	sl, ok := s.slots[name]
	if !ok {
		return driver.Descriptor{}, "", false
	}
	return sl.spec.entry.Descriptor, sl.spec.entry.SHA256[Platform()], true
}

// Isolation is the level at which the named driver is kept from the server's
// own files; empty: there is no such driver.
func (s *Set) Isolation(name string) string {
	sl, ok := s.slots[name]
	if !ok {
		return ""
	}
	return string(sl.isolation())
}

// Limits are what the operator lets the named driver vouch for: the strongest
// provenance that it is recorded with (empty: any), and whether it may answer for a person.
func (s *Set) Limits(name string) (strongest driver.Provenance, forPersons bool) {
	l := s.limits[name]
	return l.MaxProvenance, !l.NoPerson
}

// Challenge returns the named challenge driver. Its first call starts the
// process; a call under which the process dies is made once more on a fresh one.
func (s *Set) Challenge(name string) (driver.Challenge, bool) {
	sl, ok := s.slots[name]
	if !ok || sl.spec.entry.Descriptor.Role != driver.RoleChallenge {
		return nil, false
	}
	return challengeCalls{sl}, true
}

// Capability returns the named capability driver; see Challenge. Each of its
// calls is bounded by within, which defaults to the driver's own call timeout.
func (s *Set) Capability(name string, within time.Duration) (driver.Capability, bool) {
	sl, ok := s.slots[name]
	if !ok || sl.spec.entry.Descriptor.Role != driver.RoleCapability {
		return nil, false
	}
	return capabilityCalls{sl, within}, true
}

// Warm starts the named drivers now, all at once and in the background, unless
// ctx is over already. A driver that does not start says so in the log and
// again when it is called. Host.Close waits for the starts.
func (s *Set) Warm(ctx context.Context, names ...string) {
	for _, name := range names {
		if sl, ok := s.slots[name]; ok && ctx.Err() == nil {
			sl.warm()
		}
	}
}

// CopyBinary writes the very bytes that the named driver runs, even when its
// file has been replaced meanwhile.
func (s *Set) CopyBinary(name string, to io.Writer) error {
	sl, ok := s.slots[name]
	if !ok {
		return unknown(name)
	}
	return sl.pinned.copyTo(to)
}

// Version is which driver it is.
type Version struct {
	Version string `json:"version"`
	SHA256  string `json:"sha256"`
}

// Change is what a later set does with one driver. From or To is empty where
// there is none.
type Change struct {
	Driver string `json:"driver"`
	// Kind is added, removed, changed, restarted, adjusted (the same process, with
	// other timeouts or limits) or kept.
	Kind string  `json:"kind"`
	From Version `json:"from,omitzero"`
	To   Version `json:"to,omitzero"`
	// Why says what is different: binary, configuration, settings, environment,
	// folder, timeouts, limits.
	Why []string `json:"why,omitempty"`
}

// Changes says what becomes of each driver when following takes the set's place, by name.
func (s *Set) Changes(following *Set) []Change {
	names := slices.Sorted(maps.Keys(s.slots))
	for name := range following.slots {
		if s.slots[name] == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	out := make([]Change, 0, len(names))
	for _, name := range names {
		c := change(name, s.slots[name], following.slots[name])
		if s.slots[name] != nil && following.slots[name] != nil {
			c.adjust("timeouts", s.times[name] != following.times[name])
			c.adjust("limits", s.limits[name] != following.limits[name])
		}
		out = append(out, c)
	}
	return out
}

// adjust notes a difference that needs no other process.
func (c *Change) adjust(what string, differs bool) {
	if !differs {
		return
	}
	c.Why = append(c.Why, what)
	if c.Kind == "kept" {
		c.Kind = "adjusted"
	}
}

func change(name string, from, to *slot) Change {
	c := Change{Driver: name, Kind: "changed"}
	if from != nil {
		c.From = from.spec.version()
	}
	if to != nil {
		c.To = to.spec.version()
	}
	switch {
	case from == nil:
		c.Kind = "added"
	case to == nil:
		c.Kind = "removed"
	case from == to:
		c.Kind = "kept"
	default:
		if c.Why = from.spec.differences(to.spec); len(c.Why) == 0 {
			c.Kind = "restarted"
		}
	}
	return c
}

type challengeCalls struct{ s *slot }

func (c challengeCalls) Validate(ctx context.Context, req driver.ValidateRequest) (driver.ValidateResult, error) {
	return call(ctx, c.s, invocation{method: "Validate"}, soundValidate, func(ctx context.Context, rpc driverrpc.Calls) (driver.ValidateResult, error) {
		return rpc.Challenge().Validate(ctx, req)
	})
}

func (c challengeCalls) Advance(ctx context.Context, req driver.AdvanceRequest) (driver.AdvanceResult, error) {
	in := invocation{method: "Advance"}
	if len(req.Answers) == 0 {
		in.memo = req // what a step needs; with answers it hardly comes again
	}
	return call(ctx, c.s, in, soundAdvance, func(ctx context.Context, rpc driverrpc.Calls) (driver.AdvanceResult, error) {
		return rpc.Challenge().Advance(ctx, req)
	})
}

type capabilityCalls struct {
	s       *slot
	timeout time.Duration
}

func (c capabilityCalls) Render(ctx context.Context, req driver.RenderRequest) (driver.RenderResult, error) {
	roots, refused := rootsOf(c.s, req.Input, req.Client, nil)
	if refused != nil {
		return driver.CannotRender(refused.Error()), nil
	}
	in := invocation{method: "Render", timeout: c.timeout, roots: roots}
	if len(req.Diagnostics) == 0 && req.Links == (driver.Links{}) {
		in.memo = req
	}
	return call(ctx, c.s, in, soundRender, func(ctx context.Context, rpc driverrpc.Calls) (driver.RenderResult, error) {
		return rpc.Capability().Render(ctx, req)
	})
}

// Preview makes capabilityCalls a driver.Previewer. Of a driver without
// driver.FeaturePreview it is unavailable.
func (c capabilityCalls) Preview(ctx context.Context, req driver.PreviewRequest) (driver.PreviewResult, error) {
	if !c.s.spec.entry.Descriptor.Has(driver.FeaturePreview) {
		return driver.CannotPreview("the driver has no plans to show"), nil
	}
	return call(ctx, c.s, invocation{method: "Preview", timeout: c.timeout}, soundPreview, func(ctx context.Context, rpc driverrpc.Calls) (driver.PreviewResult, error) {
		p, ok := rpc.Capability().(driver.Previewer)
		if !ok {
			return driver.CannotPreview("its transport has no previews"), nil
		}
		return p.Preview(ctx, req)
	})
}

func (c capabilityCalls) Interpret(ctx context.Context, req driver.InterpretRequest) (driver.InterpretResult, error) {
	roots, refused := rootsOf(c.s, req.Input, req.Client, req.Raw)
	if refused != nil {
		return driver.CannotInterpret(refused.Error()), nil
	}
	return call(ctx, c.s, invocation{method: "Interpret", timeout: c.timeout, roots: roots}, soundInterpret, func(ctx context.Context, rpc driverrpc.Calls) (driver.InterpretResult, error) {
		return rpc.Capability().Interpret(ctx, req)
	})
}
