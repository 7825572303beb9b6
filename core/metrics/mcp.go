package metrics

import (
	"github.com/kairos-mcp/kairos/core/fault"
	mcpserver "github.com/kairos-mcp/kairos/core/server/mcp"
)

var _ mcpserver.Observer = (*Metrics)(nil)

// ToolCalled implements mcpserver.Observer.
func (m *Metrics) ToolCalled(c mcpserver.ToolCall) {
	tool, tenant, ended := m.bounds.tools.value(c.Tool), m.bounds.tenant(c.Space), "success"
	if c.Failed {
		ended = "error"
		m.families.toolErrors.WithLabelValues(tool, tenant).Inc()
	}
	m.families.toolCalls.WithLabelValues(tool, ended, tenant).Inc()
	m.families.toolDuration.WithLabelValues(tool, ended, tenant).Observe(c.Took.Seconds())
	m.families.toolInput.WithLabelValues(tool, tenant).Observe(float64(c.In))
	m.families.toolOutput.WithLabelValues(tool, tenant).Observe(float64(c.Out))
	if c.ErrorCode == "" {
		return
	}
	m.families.toolErrorCodes.WithLabelValues(tool, m.bounds.code(c.ErrorCode), tenant).Inc()
	if c.ErrorCode == string(fault.MaxRetriesExceeded) {
		m.families.toolBreaker.WithLabelValues(tool, tenant).Inc()
	}
}
