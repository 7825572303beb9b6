package metrics

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/director/observe"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/server/toolset"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// Names from clients and protocols become labels up to these numbers of distinct
// values; later ones are "other".
const (
	maxTenants    = 100
	maxAgents     = 50
	maxDrivers    = 64
	maxChallenges = 64
	maxProviders  = 8
	maxRoutes     = 64
	maxLength     = 128 // bytes of a value
)

const (
	other = "other"
	none  = "none" // there is nothing to name
)

// bounds keep label values few.
type bounds struct {
	tenants, agents, drivers, challenges, providers, patterns *bound

	tools, codes, inputs, outcomes, transports, methods set
}

func newBounds() bounds {
	return bounds{
		tenants: newBound(maxTenants, access.AppSpace), agents: newBound(maxAgents), drivers: newBound(maxDrivers),
		challenges: newBound(maxChallenges), providers: newBound(maxProviders), patterns: newBound(maxRoutes),
		tools:      setOf(toolset.Names()...),
		codes:      setOf(errorCodes()...),
		inputs:     setOf(driver.KindApproval, driver.KindEvidence, driver.KindFiles, driver.KindSimilarity, driver.KindRunInput, driver.KindAcceptance, driver.KindJudge),
		outcomes:   setOf(outcomes...),
		transports: setOf("stdio", "http", "rest", "cli"),
		methods:    setOf("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"),
	}
}

var outcomes = []string{
	string(observe.Accepted), string(observe.Rejected), string(observe.Answered), string(observe.Refused), "declined",
	string(decision.Unavailable), string(decision.Errored), string(decision.Invalid), string(decision.TimedOut), string(decision.Abandoned), string(decision.Exhausted),
}

// errorCodes are those of the table, and that of a call that ended in an error
// of JSON-RPC. The codes that drivers make up are "other".
func errorCodes() []string {
	codes := []string{"RPC_ERROR"}
	for _, row := range fault.Table {
		codes = append(codes, string(row.Code))
	}
	return codes
}

func (b bounds) tenant(space string) string { return b.tenants.value(space) }
func (b bounds) driver(name string) string  { return b.drivers.value(name) }

// code is the label of an error code; an empty one stays empty, which is a
// success.
func (b bounds) code(c string) string {
	if c == "" {
		return ""
	}
	return b.codes.value(c)
}

// set is a closed set of values.
type set map[string]struct{}

func setOf(values ...string) set {
	s := make(set, len(values))
	for _, v := range values {
		s[v] = struct{}{}
	}
	return s
}

func (s set) value(v string) string {
	if _, ok := s[v]; ok {
		return v
	}
	return other
}

// bound is a set that takes values until it is full.
type bound struct {
	max int

	mu   sync.RWMutex // guards the field below
	seen set
}

func newBound(most int, first ...string) *bound { return &bound{max: most, seen: setOf(first...)} }

func (b *bound) value(v string) string {
	if v == "" {
		return none
	}
	b.mu.RLock()
	_, known := b.seen[v]
	b.mu.RUnlock()
	if known {
		return v
	}
	v = valid(v)
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, known := b.seen[v]; known {
		return v
	}
	if len(b.seen) >= b.max || v == other {
		return other
	}
	b.seen[v] = struct{}{}
	return v
}

func (b *bound) known() []string {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return slices.Collect(maps.Keys(b.seen))
}

// valid makes a text that somebody sent fit for a label.
func valid(v string) string {
	if len(v) > maxLength {
		v = v[:maxLength]
	}
	return strings.ToValidUTF8(v, "?")
}
