package driverhost

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// Status is what can be seen of a driver from outside. It holds no secrets.
type Status struct {
	Name        string             `json:"name"`
	Version     string             `json:"version"`
	Role        driver.Role        `json:"role"`
	Handles     []string           `json:"handles"`
	Effect      driver.Effect      `json:"effect"`
	Transport   string             `json:"transport"` // grpc or exec
	State       State              `json:"state"`
	Since       time.Time          `json:"since"`
	Generation  int                `json:"generation"` // of the latest start; 0: never started
	SHA256      string             `json:"sha256"`
	PID         int                `json:"pid,omitempty"`
	StartedAt   time.Time          `json:"started_at,omitzero"`
	Starts      int                `json:"starts"`
	Crashes     int                `json:"crashes"`
	Breaker     Breaker            `json:"breaker"`
	RetryAt     time.Time          `json:"retry_at,omitzero"` // backoff ends
	Calls       int64              `json:"calls"`
	Failures    int64              `json:"failures"`
	Repeats     int64              `json:"repeats"`    // calls made again because the process died under them
	Remembered  int64              `json:"remembered"` // calls of a pure driver that were answered from memory, without the process
	InFlight    int                `json:"in_flight"`
	Latency     map[string]Latency `json:"latency,omitempty"` // by method
	RSSBytes    int64              `json:"rss_bytes,omitempty"`
	Excess      MemoryExcess       `json:"memory_excess,omitzero"`
	Config      json.RawMessage    `json:"config,omitempty"` // secrets hidden
	EnvFrom     []string           `json:"env_from,omitempty"`
	Protection  []string           `json:"protection,omitempty"`
	Warnings    []string           `json:"warnings,omitempty"` // of the driver about its configuration
	Isolation   Level              `json:"isolation"`          // from the server's own files
	May         []Permission       `json:"may"`
	MayNot      []Permission       `json:"may_not,omitempty"` // of what its descriptor claims
	LastError   string             `json:"last_error,omitempty"`
	LastErrorAt time.Time          `json:"last_error_at,omitzero"`
}

// Breaker says whether a driver that failed too often is left alone.
type Breaker struct {
	State string    `json:"state"` // closed, open or half-open
	Until time.Time `json:"until,omitzero"`
}

// Status describes the drivers of the set in use, by name.
func (h *Host) Status() []Status {
	set := h.present()
	out := make([]Status, 0, len(set.slots))
	for _, name := range slices.Sorted(maps.Keys(set.slots)) {
		out = append(out, set.status(name))
	}
	return out
}

// StatusOf describes one driver of the set in use.
func (h *Host) StatusOf(name string) (Status, bool) {
	set := h.present()
	if _, ok := set.slots[name]; !ok {
		return Status{}, false
	}
	return set.status(name), true
}

func (s *Set) status(name string) Status {
	out := s.slots[name].status()
	sp := s.slots[name].spec
	out.May, out.MayNot = sp.config.May.Of(sp.entry.Descriptor)
	return out
}

func (s *slot) status() Status {
	d := s.spec.entry.Descriptor
	out := Status{
		Name: d.Name, Version: d.Version, Role: d.Role, Handles: d.Handles, Effect: d.Effect, Transport: transportOf(d),
		SHA256: s.spec.entry.SHA256[Platform()], Config: hideSecrets(s.spec.config.Config, d.ConfigSchema), EnvFrom: s.spec.config.EnvFrom,
		Isolation: s.isolation(),
	}
	s.lifeIn(&out)
	s.journal.statusIn(&out)
	return out
}

func transportOf(d driver.Descriptor) string {
	if d.Transport == driver.TransportGRPC {
		return "grpc"
	}
	return string(d.Transport)
}

// lifeIn fills in the lifecycle.
func (s *slot) lifeIn(out *Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out.State, out.Since = s.state, s.since
	out.Breaker = Breaker{State: "closed"}
	switch {
	case s.state == BreakerOpen && s.breaker.waits(time.Now()):
		out.Breaker = Breaker{State: "open", Until: s.breaker.notBefore}
	case s.state == BreakerOpen:
		// The breaker has cooled down and the next call tries.
		out.State, out.Breaker.State = HalfOpen, "half-open"
	case s.breaker.trial:
		out.Breaker.State = "half-open"
	}
	if s.state == Backoff {
		out.RetryAt = s.breaker.notBefore
	}
	if s.gen == nil {
		return
	}
	out.PID, out.InFlight, out.Protection = s.gen.transport.pid(), s.gen.inFlight(), s.gen.transport.protection()
	out.RSSBytes, out.Warnings = residentBytes(out.PID), s.gen.warned()
	if s.state == Ready {
		out.StartedAt = s.startedAt
	}
}

func (j *journal) statusIn(out *Status) {
	j.mu.Lock()
	defer j.mu.Unlock()
	out.Generation, out.Starts, out.Crashes = j.generation, j.generation, j.crashes
	out.Calls, out.Failures, out.Repeats, out.Remembered = j.calls, j.failures, j.repeats, j.fromMemory
	out.LastError, out.LastErrorAt, out.Excess = j.lastError, j.lastAt, j.excess
	out.Latency = make(map[string]Latency, len(j.latency))
	for method, s := range j.latency {
		out.Latency[method] = s.summary()
	}
}
