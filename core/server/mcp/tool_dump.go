package mcp

import (
	"context"

	"github.com/mark3labs/mcp-go/mcp"
)

func (s *Server) dump(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	var in struct {
		URI      string `json:"uri"`
		Protocol bool   `json:"protocol"`
	}
	if err := bind(req, &in); err != nil {
		return nil, err
	}
	reply, err := s.engine.Dump(ctx, s.caller(ctx, req), in.URI, in.Protocol)
	return answered(ctx, s, req, reply, err)
}
