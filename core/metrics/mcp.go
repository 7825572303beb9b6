package metrics

import (
	"github.com/kairos-mcp/kairos/core/fault"
	mcpserver "github.com/kairos-mcp/kairos/core/server/mcp"
)

var _ mcpserver.Observer = (*Metrics)(nil)

// ToolCalled implements mcpserver.Observer.
func (m *Metrics) ToolCalled(c mcpserver.ToolCall) {
	tool, tenant, ended := m.tools.value(c.Tool), m.tenant(c.Space), "success"
	if c.Failed {
		ended = "error"
		m.toolErrors.WithLabelValues(tool, tenant).Inc()
	}
	m.toolCalls.WithLabelValues(tool, ended, tenant).Inc()
	m.toolDuration.WithLabelValues(tool, ended, tenant).Observe(c.Took.Seconds())
	m.toolInput.WithLabelValues(tool, tenant).Observe(float64(c.In))
	m.toolOutput.WithLabelValues(tool, tenant).Observe(float64(c.Out))
	if c.ErrorCode == "" {
		return
	}
	m.toolErrorCodes.WithLabelValues(tool, m.code(c.ErrorCode), tenant).Inc()
	if c.ErrorCode == string(fault.MaxRetriesExceeded) {
		m.toolBreaker.WithLabelValues(tool, tenant).Inc()
	}
}
