package metrics

import (
	"strconv"

	"github.com/kairos-mcp/kairos/core/server/rest"
)

var _ rest.Observer = (*Metrics)(nil)

// Served implements rest.Observer.
func (m *Metrics) Served(e rest.Exchange) {
	method, route, tenant := m.bounds.methods.value(e.Method), m.bounds.patterns.value(e.Route), m.bounds.tenant(e.Space)
	m.families.httpRequests.WithLabelValues(method, route, statusOf(e.Status), tenant).Inc()
	m.families.httpDuration.WithLabelValues(method, route, tenant).Observe(e.Took.Seconds())
	m.families.httpInput.WithLabelValues(method, route, tenant).Observe(float64(e.In))
	m.families.httpOutput.WithLabelValues(method, route, tenant).Observe(float64(e.Out))
}

// Active implements rest.Observer.
func (m *Metrics) Active(delta int) { m.families.httpActive.WithLabelValues().Add(float64(delta)) }

func statusOf(code int) string {
	if code < 100 || code > 599 {
		return other
	}
	return strconv.Itoa(code)
}
