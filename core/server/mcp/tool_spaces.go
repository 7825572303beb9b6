package mcp

import (
	"context"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/kairos-mcp/kairos/core/api"
)

func (s *Server) spaces(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	var in struct {
		Titles bool   `json:"include_chain_titles"`
		Limit  int    `json:"limit"`
		Cursor string `json:"cursor"`
	}
	if err := bind(req, &in); err != nil {
		return nil, err
	}
	reply, err := s.engine.Spaces(ctx, s.caller(ctx, req), api.SpacesRequest{Titles: in.Titles, Limit: in.Limit, Cursor: in.Cursor})
	return answered(ctx, s, req, reply, err)
}
