package mcp

import (
	"context"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/kairos-mcp/kairos/core/api"
)

func (s *Server) attest(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	var in struct {
		URI          string  `json:"uri"`
		Outcome      string  `json:"outcome"`
		Message      string  `json:"message"`
		QualityBonus float64 `json:"quality_bonus"`
		ModelID      string  `json:"llm_model_id"`
		RunID        string  `json:"run_id"`
	}
	if err := bind(req, &in); err != nil {
		return nil, err
	}
	reply, err := s.engine.Attest(ctx, s.caller(ctx, req), api.AttestRequest{
		URI: in.URI, Outcome: in.Outcome, Message: in.Message,
		QualityBonus: in.QualityBonus, ModelID: in.ModelID, RunID: in.RunID,
	})
	if err != nil {
		return s.failed(ctx, req, err)
	}
	return result(reply, "  ") // people read this one
}
