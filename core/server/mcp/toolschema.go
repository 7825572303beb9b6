package mcp

import (
	"encoding/json"
	"fmt"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/server/toolset"
	"github.com/mark3labs/mcp-go/mcp"
)

// Tools lists the tools with their whole schemas, as other faces than MCP serve them: that
// of kairos_next names the configured challenge types. It may be called concurrently.
func (s *Server) Tools() []toolset.Served {
	s.tools.refresh()
	out := make([]toolset.Served, len(toolset.Table))
	for i, t := range toolset.Table {
		var types []string
		if t.Name == api.Next.Name {
			types = s.tools.listedTypes()
		}
		out[i] = toolset.Served{
			Name: t.Name, Title: t.Title, Description: t.Description,
			Input: t.InputOf(types).JSON(), Output: t.Output().JSON(),
		}
	}
	return out
}

// Check validates the arguments of a tool as a call does, for faces other than MCP. It
// returns a *fault.Error for invalid arguments.
func (s *Server) Check(tool string, arguments json.RawMessage) error {
	check, ok := s.tools.checks[tool]
	if !ok {
		return fault.New(fault.NotFound, "no tool %q", tool)
	}
	c, err := check()
	if err != nil {
		return fmt.Errorf("input schema of %s: %w", tool, err)
	}
	if f := c.problem(arguments); f != nil {
		return f
	}
	return nil
}

// Refresh notifies clients if their list of tools is out of date. Call it after the
// types of challenges may have changed. Clients of the modern era ask again by
// themselves, after the time to live of their list.
func (s *Server) Refresh() {
	s.tools.refresh()
	if !s.tools.announce() {
		return
	}
	s.stdio.notify(string(mcp.MethodNotificationToolsListChanged), func(*connection) bool { return true })
	s.http.sessions.broadcast(notice(string(mcp.MethodNotificationToolsListChanged), map[string]any{}))
}
