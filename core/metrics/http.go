package metrics

import (
	"strconv"

	"github.com/kairos-mcp/kairos/core/server/rest"
)

var _ rest.Observer = (*Metrics)(nil)

// Served implements rest.Observer.
func (m *Metrics) Served(e rest.Exchange) {
	method, route, tenant := m.methods.value(e.Method), m.patterns.value(e.Route), m.tenant(e.Space)
	m.httpRequests.WithLabelValues(method, route, statusOf(e.Status), tenant).Inc()
	m.httpDuration.WithLabelValues(method, route, tenant).Observe(e.Took.Seconds())
	m.httpInput.WithLabelValues(method, route, tenant).Observe(float64(e.In))
	m.httpOutput.WithLabelValues(method, route, tenant).Observe(float64(e.Out))
}

// Active implements rest.Observer.
func (m *Metrics) Active(delta int) { m.httpActive.WithLabelValues().Add(float64(delta)) }

func statusOf(code int) string {
	if code < 100 || code > 599 {
		return other
	}
	return strconv.Itoa(code)
}
