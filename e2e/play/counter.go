package play

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"
)

// counterArg turns this binary into the tool server whose tool writes down who called
// it: the truth about effects, outside of KAIROS.
const counterArg = "play-counter"

// serveCounter is the tool server. It appends callers to a file.
func serveCounter(file string) error {
	s := mcpserver.NewMCPServer("counter", "1.0.0", mcpserver.WithToolCapabilities(false))
	s.AddTool(mcp.NewTool("count", mcp.WithString("who", mcp.Required())), func(_ context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600) //nolint:gosec // the test's own file
		if err != nil {
			return nil, err
		}
		if _, err := fmt.Fprintln(f, req.GetString("who", "nobody")); err != nil {
			return nil, err
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
		time.Sleep(5 * time.Millisecond)
		return mcp.NewToolResultText(`{"counted":true}`), nil
	})
	return mcpserver.ServeStdio(s)
}

// Counted is how often the tool was called by each.
func (s *Server) Counted() map[string]int {
	text, err := os.ReadFile(s.Path("counted"))
	if err != nil && !os.IsNotExist(err) {
		s.t.Error(err)
	}
	calls := map[string]int{}
	for _, who := range strings.Fields(string(text)) {
		calls[who]++
	}
	return calls
}
