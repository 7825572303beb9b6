package metrics

import (
	"strconv"
	"time"

	"github.com/kairos-mcp/kairos/core/director/observe"
	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/core/embedding"
	"github.com/kairos-mcp/kairos/core/library"
)

var (
	_ observe.Observer    = (*Metrics)(nil)
	_ driverhost.Observer = (*Metrics)(nil)
	_ embedding.Observer  = (*Metrics)(nil)
)

func status(err error) string {
	if err != nil {
		return "error"
	}
	return "success"
}

// Routed implements observe.Observer.
func (m *Metrics) Routed(r observe.Route) {
	via := r.Via
	if via == "" {
		via = none
	}
	challenge, input, via, outcome := m.bounds.challenges.value(r.Challenge), m.bounds.inputs.value(r.Input), m.bounds.driver(via), m.bounds.outcomes.value(string(r.Outcome))
	m.families.routes.WithLabelValues(challenge, input, via, outcome, m.bounds.code(r.ErrorCode)).Inc()
	m.families.routeDuration.WithLabelValues(challenge, input, via, outcome).Observe(r.Took.Seconds())
	if r.Counted {
		m.families.toolRetries.WithLabelValues("kairos_next", m.bounds.tenant(r.Space)).Inc()
	}
}

// Operated implements observe.Observer.
func (m *Metrics) Operated(o library.Operation) {
	tenant := m.bounds.tenant(o.Space)
	if d := m.families.memoryDurations[o.Kind]; d != nil {
		d.WithLabelValues(tenant).Observe(o.Took.Seconds())
	}
	if c := m.families.memoryDone[o.Kind]; c != nil {
		c.WithLabelValues("success", tenant).Add(float64(o.Done))
		c.WithLabelValues("error", tenant).Add(float64(o.Failed))
	}
}

// Stored implements observe.Observer.
func (m *Metrics) Stored(space string, steps int) {
	m.families.chainSize.WithLabelValues(m.bounds.tenant(space)).Observe(float64(steps))
}

// Rated implements observe.Observer.
func (m *Metrics) Rated(r library.Rated) {
	tenant, agent := m.bounds.tenant(r.Space), m.bounds.agents.value(r.Agent)
	if r.Outcome == library.OutcomeStored {
		m.families.memoryStored.WithLabelValues(r.Tier, tenant).Inc()
		m.families.contributions.WithLabelValues(agent, r.Tier, tenant).Inc()
		m.families.qualityScore.WithLabelValues(agent, r.Tier, tenant).Observe(float64(r.Score))
	}
	if !r.Attest {
		return
	}
	m.families.qualityScore.WithLabelValues(agent, r.Tier, tenant).Observe(float64(r.Score))
	m.attested(agent, tenant, r)
}

func (m *Metrics) attested(agent, tenant string, r library.Rated) {
	succeeded := r.Outcome == library.OutcomeSuccess
	m.families.attempts.WithLabelValues(agent, tenant).Inc()
	if succeeded {
		m.families.successes.WithLabelValues(agent, tenant).Inc()
		m.families.bonuses.WithLabelValues(agent, tenant).Add(max(0, r.Bonus))
	}
	if succeeded && (r.Tier == "high" || r.Tier == "excellent") {
		m.families.rareSuccesses.WithLabelValues(agent, tenant).Inc()
	}
	m.families.successRate.WithLabelValues(agent, tenant).Set(m.rates.after(agent, tenant, succeeded))
}

// RatingsLost implements observe.Observer.
func (m *Metrics) RatingsLost(space string, ratings int) {
	m.families.qualityErrors.WithLabelValues(m.bounds.tenant(space)).Add(float64(ratings))
}

// AuditLost returns what counts a line that is not in the audit log.
func AuditLost(m *Metrics) func() { return m.families.auditLost.WithLabelValues().Inc }

// SimilarFound implements observe.Observer.
func (m *Metrics) SimilarFound(transport, space string) {
	m.families.similarFound.WithLabelValues(m.bounds.transports.value(transport), m.bounds.tenant(space)).Inc()
}

// Begun implements observe.Observer.
func (m *Metrics) Begun(space string) {
	m.families.runsBegun.WithLabelValues(m.bounds.tenant(space)).Inc()
}

// Attested implements observe.Observer.
func (m *Metrics) Attested(a observe.Attested) {
	m.families.runsAttested.WithLabelValues(a.Outcome, strconv.FormatBool(a.Verified), m.bounds.tenant(a.Space)).Inc()
}

// Called implements driverhost.Observer.
func (m *Metrics) Called(c driverhost.Call) {
	name := m.bounds.driver(c.Driver)
	m.families.driverCalls.WithLabelValues(name, c.Method, status(c.Err)).Inc()
	m.families.driverDuration.WithLabelValues(name, c.Method).Observe(c.Took.Seconds())
	if c.Repeated {
		m.families.driverRepeats.WithLabelValues(name).Inc()
	}
}

// Started implements driverhost.Observer.
func (m *Metrics) Started(driver string, _ time.Duration, err error) {
	name := m.bounds.driver(driver)
	m.families.driverStarts.WithLabelValues(name, status(err)).Inc()
	if _, before := m.ran.LoadOrStore(name, true); before {
		m.families.driverRestarts.WithLabelValues(name).Inc()
	}
}

// Crashed implements driverhost.Observer.
func (m *Metrics) Crashed(driver string) {
	m.families.driverCrashes.WithLabelValues(m.bounds.driver(driver)).Inc()
}

// BreakerOpened implements driverhost.Observer.
func (m *Metrics) BreakerOpened(driver string) {
	m.families.driverBreakerOpens.WithLabelValues(m.bounds.driver(driver)).Inc()
}

// Swapped implements driverhost.Observer.
func (m *Metrics) Swapped(driver string, err error) {
	m.families.driverSwaps.WithLabelValues(m.bounds.driver(driver), status(err)).Inc()
}

// Requested implements embedding.Observer.
func (m *Metrics) Requested(r embedding.Request) {
	provider, tenant := m.bounds.providers.value(r.Provider), m.bounds.tenant(r.Space)
	m.families.embeddingRequests.WithLabelValues(provider, status(r.Err), tenant).Inc()
	m.families.embeddingDuration.WithLabelValues(provider, tenant).Observe(r.Took.Seconds())
	m.families.embeddingBatch.WithLabelValues(provider, tenant).Observe(float64(r.Texts))
	if r.Err != nil {
		m.families.embeddingErrors.WithLabelValues(provider, tenant).Inc()
		return
	}
	m.families.embeddingVector.WithLabelValues(provider, tenant).Observe(float64(4 * r.Dimension))
}
