package metrics

import (
	"strconv"
	"time"

	"github.com/kairos-mcp/kairos/core/director"
	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/core/embedding"
	"github.com/kairos-mcp/kairos/core/library"
)

var (
	_ director.Observer   = (*Metrics)(nil)
	_ driverhost.Observer = (*Metrics)(nil)
	_ embedding.Observer  = (*Metrics)(nil)
)

func status(err error) string {
	if err != nil {
		return "error"
	}
	return "success"
}

// Routed implements director.Observer.
func (m *Metrics) Routed(r director.Route) {
	via := r.Via
	if via == "" {
		via = none
	}
	challenge, input, via, outcome := m.challenges.value(r.Challenge), m.inputs.value(r.Input), m.driver(via), m.outcomes.value(string(r.Outcome))
	m.routes.WithLabelValues(challenge, input, via, outcome, m.code(r.ErrorCode)).Inc()
	m.routeDuration.WithLabelValues(challenge, input, via, outcome).Observe(r.Took.Seconds())
	if r.Counted {
		m.toolRetries.WithLabelValues("kairos_next", m.tenant(r.Space)).Inc()
	}
}

// Operated implements director.Observer.
func (m *Metrics) Operated(o library.Operation) {
	tenant := m.tenant(o.Space)
	if d := m.memoryDurations[o.Kind]; d != nil {
		d.WithLabelValues(tenant).Observe(o.Took.Seconds())
	}
	if c := m.memoryDone[o.Kind]; c != nil {
		c.WithLabelValues("success", tenant).Add(float64(o.Done))
		c.WithLabelValues("error", tenant).Add(float64(o.Failed))
	}
}

// Stored implements director.Observer.
func (m *Metrics) Stored(space string, steps int) {
	m.chainSize.WithLabelValues(m.tenant(space)).Observe(float64(steps))
}

// Rated implements director.Observer.
func (m *Metrics) Rated(r library.Rated) {
	tenant, agent := m.tenant(r.Space), m.agents.value(r.Agent)
	if r.Outcome == library.OutcomeStored {
		m.memoryStored.WithLabelValues(r.Tier, tenant).Inc()
		m.contributions.WithLabelValues(agent, r.Tier, tenant).Inc()
		m.qualityScore.WithLabelValues(agent, r.Tier, tenant).Observe(float64(r.Score))
	}
	if !r.Attest {
		return
	}
	m.qualityScore.WithLabelValues(agent, r.Tier, tenant).Observe(float64(r.Score))
	m.attested(agent, tenant, r)
}

func (m *Metrics) attested(agent, tenant string, r library.Rated) {
	succeeded := r.Outcome == library.OutcomeSuccess
	m.attempts.WithLabelValues(agent, tenant).Inc()
	if succeeded {
		m.successes.WithLabelValues(agent, tenant).Inc()
		m.bonuses.WithLabelValues(agent, tenant).Add(max(0, r.Bonus))
	}
	if succeeded && (r.Tier == "high" || r.Tier == "excellent") {
		m.rareSuccesses.WithLabelValues(agent, tenant).Inc()
	}
	m.successRate.WithLabelValues(agent, tenant).Set(m.rates.after(agent, tenant, succeeded))
}

// RatingsLost implements director.Observer.
func (m *Metrics) RatingsLost(space string, ratings int) {
	m.qualityErrors.WithLabelValues(m.tenant(space)).Add(float64(ratings))
}

// SimilarFound implements director.Observer.
func (m *Metrics) SimilarFound(transport, space string) {
	m.similarFound.WithLabelValues(m.transports.value(transport), m.tenant(space)).Inc()
}

// Begun implements director.Observer.
func (m *Metrics) Begun(space string) { m.runsBegun.WithLabelValues(m.tenant(space)).Inc() }

// Attested implements director.Observer.
func (m *Metrics) Attested(a director.Attested) {
	m.runsAttested.WithLabelValues(a.Outcome, strconv.FormatBool(a.Verified), m.tenant(a.Space)).Inc()
}

// Called implements driverhost.Observer.
func (m *Metrics) Called(c driverhost.Call) {
	name := m.driver(c.Driver)
	m.driverCalls.WithLabelValues(name, c.Method, status(c.Err)).Inc()
	m.driverDuration.WithLabelValues(name, c.Method).Observe(c.Took.Seconds())
	if c.Repeated {
		m.driverRepeats.WithLabelValues(name).Inc()
	}
}

// Started implements driverhost.Observer.
func (m *Metrics) Started(driver string, _ time.Duration, err error) {
	name := m.driver(driver)
	m.driverStarts.WithLabelValues(name, status(err)).Inc()
	if m.ran.before(name) {
		m.driverRestarts.WithLabelValues(name).Inc()
	}
}

// Crashed implements driverhost.Observer.
func (m *Metrics) Crashed(driver string) { m.driverCrashes.WithLabelValues(m.driver(driver)).Inc() }

// BreakerOpened implements driverhost.Observer.
func (m *Metrics) BreakerOpened(driver string) {
	m.driverBreakerOpens.WithLabelValues(m.driver(driver)).Inc()
}

// Swapped implements driverhost.Observer.
func (m *Metrics) Swapped(driver string, err error) {
	m.driverSwaps.WithLabelValues(m.driver(driver), status(err)).Inc()
}

// Requested implements embedding.Observer.
func (m *Metrics) Requested(r embedding.Request) {
	provider, tenant := m.providers.value(r.Provider), m.tenant(r.Space)
	m.embeddingRequests.WithLabelValues(provider, status(r.Err), tenant).Inc()
	m.embeddingDuration.WithLabelValues(provider, tenant).Observe(r.Took.Seconds())
	m.embeddingBatch.WithLabelValues(provider, tenant).Observe(float64(r.Texts))
	if r.Err != nil {
		m.embeddingErrors.WithLabelValues(provider, tenant).Inc()
		return
	}
	m.embeddingVector.WithLabelValues(provider, tenant).Observe(float64(4 * r.Dimension))
}
