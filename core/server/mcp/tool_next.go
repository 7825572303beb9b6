package mcp

import (
	"context"
	"encoding/json"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/engine"
)

func (s *Server) nextStep(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	var in struct {
		URI      string          `json:"uri"`
		Solution json.RawMessage `json:"solution"`
		RunID    string          `json:"run_id"`
	}
	if err := bind(req, &in); err != nil {
		return nil, err
	}
	return s.exchange(ctx, req, func(ctx context.Context, c access.Caller) (engine.Round, error) {
		return s.engine.Next(ctx, c, api.NextRequest{
			URI: in.URI, Solution: object(in.Solution), RunID: in.RunID,
		})
	})
}
