package mcpserver

import (
	"context"

	"github.com/mark3labs/mcp-go/mcp"
)

func (s *Server) spaces(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	var in struct {
		Titles bool `json:"include_chain_titles"`
	}
	if err := bind(req, &in); err != nil {
		return nil, err
	}
	reply, err := s.engine.Spaces(ctx, s.caller(ctx, req), in.Titles)
	reply.Spaces = orEmpty(reply.Spaces)
	return answered(ctx, s, req, reply, err)
}
