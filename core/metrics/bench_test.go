package metrics_test

import (
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/director"
	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/metrics"
	mcpserver "github.com/kairos-mcp/kairos/core/server/mcp"
	"github.com/kairos-mcp/kairos/core/server/rest"
)

// BenchmarkWhatOneNextIsCounted is everything that a kairos_next over HTTP
// adds because it is measured.
func BenchmarkWhatOneNextIsCounted(b *testing.B) {
	m := metrics.New("1", "i")
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			m.Active(1)
			for _, method := range []string{"Advance", "Interpret", "Advance"} {
				m.Called(driverhost.Call{Driver: "shell", Method: method, Took: time.Millisecond})
			}
			m.Routed(director.Route{Space: space, Challenge: "shell", Input: "evidence", Via: "agent", Outcome: director.RouteAccepted, Took: time.Millisecond})
			m.Rated(library.Rated{Space: space, Outcome: library.OutcomeSuccess, Tier: "high", Score: 6})
			m.ToolCalled(mcpserver.ToolCall{Tool: "kairos_next", Transport: "http", Space: space, Took: time.Millisecond, In: 300, Out: 900})
			m.Served(rest.Exchange{Method: "POST", Route: "/mcp", Status: 200, Took: time.Millisecond, In: 300, Out: 900, Space: space})
			m.Active(-1)
		}
	})
}
