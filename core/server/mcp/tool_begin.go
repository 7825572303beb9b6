package mcp

import (
	"context"
	"encoding/json"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/engine"
)

func (s *Server) begin(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	var in struct {
		URI       string          `json:"uri"`
		Input     json.RawMessage `json:"input"`
		SessionID string          `json:"session_id"`
		Roots     []string        `json:"roots"`
	}
	if err := bind(req, &in); err != nil {
		return nil, err
	}
	return s.exchange(ctx, req, func(ctx context.Context, c access.Caller) (engine.Round, error) {
		return s.engine.Begin(ctx, c, api.BeginRequest{
			URI: in.URI, Input: object(in.Input), SessionID: in.SessionID, Roots: in.Roots,
		})
	})
}
