package mcpserver

import (
	"context"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/kairos-mcp/kairos/core/engine"
)

func (s *Server) search(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	var in struct {
		Query   string `json:"query"`
		Space   string `json:"space"`
		SpaceID string `json:"space_id"`
	}
	if err := bind(req, &in); err != nil {
		return nil, err
	}
	if in.Space == "" {
		in.Space = in.SpaceID
	}
	reply, err := s.engine.Search(ctx, s.caller(ctx, req), engine.SearchInput{Query: in.Query, Space: in.Space})
	return answered(ctx, s, req, reply, err)
}
