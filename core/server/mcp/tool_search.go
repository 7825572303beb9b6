package mcp

import (
	"cmp"
	"context"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/kairos-mcp/kairos/core/api"
)

func (s *Server) search(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	var in struct {
		Query   string   `json:"query"`
		Queries []string `json:"queries"`
		Space   string   `json:"space"`
		SpaceID string   `json:"space_id"`
		Limit   int      `json:"limit"`
	}
	if err := bind(req, &in); err != nil {
		return nil, err
	}
	reply, err := s.engine.Search(ctx, s.caller(ctx, req), api.SearchRequest{
		Query: in.Query, Queries: in.Queries, Space: cmp.Or(in.Space, in.SpaceID), Limit: in.Limit,
	})
	return answered(ctx, s, req, reply, err)
}
