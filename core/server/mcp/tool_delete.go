package mcp

import (
	"context"

	"github.com/mark3labs/mcp-go/mcp"
)

func (s *Server) delete(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	var in struct {
		URIs []string `json:"uris"`
	}
	if err := bind(req, &in); err != nil {
		return nil, err
	}
	reply, err := s.engine.Delete(ctx, s.caller(ctx, req), in.URIs)
	return answered(ctx, s, req, reply, err)
}
