package mcp

import (
	"context"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/kairos-mcp/kairos/core/api"
)

func (s *Server) mint(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	var in struct {
		Document string `json:"markdown_doc"`
		ModelID  string `json:"llm_model_id"`
		Force    bool   `json:"force_update"`
		Space    string `json:"space"`
	}
	if err := bind(req, &in); err != nil {
		return nil, err
	}
	reply, err := s.engine.Mint(ctx, s.caller(ctx, req), api.MintRequest{
		Document: in.Document, ModelID: in.ModelID, Force: in.Force, Space: in.Space,
	})
	return answered(ctx, s, req, reply, err)
}
