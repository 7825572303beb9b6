package mcp

import (
	"context"
	"encoding/json"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/kairos-mcp/kairos/core/api"
)

func (s *Server) update(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	var in struct {
		URIs      []string        `json:"uris"`
		Documents []string        `json:"markdown_doc"`
		Updates   json.RawMessage `json:"updates"`
	}
	if err := bind(req, &in); err != nil {
		return nil, err
	}
	if len(in.Documents) > 0 && len(in.Documents) != len(in.URIs) {
		return errorResult(req, invalidInput("markdown_doc: must have as many items as uris"))
	}
	reply, err := s.engine.Update(ctx, s.caller(ctx, req), api.UpdateRequest{
		URIs: in.URIs, Documents: in.Documents, Updates: object(in.Updates),
	})
	return answered(ctx, s, req, reply, err)
}
