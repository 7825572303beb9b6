package mcpserver

import (
	"context"
	_ "embed"

	"github.com/mark3labs/mcp-go/mcp"
)

// guideURI is part of the contract.
const guideURI = "kairos://doc/building-kairos-workflows"

//go:embed doc/building-kairos-workflows.md
var guide string

//go:embed doc/contextual-prompt.md
var policy string

func (s *Server) addResources() {
	s.mcp.AddResource(
		mcp.NewResource(guideURI, "Building-Kairos-Workflows", mcp.WithMIMEType("text/markdown"),
			mcp.WithResourceDescription("How to write a protocol: steps, challenges, inputs, templates")),
		func(context.Context, mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
			return []mcp.ResourceContents{
				mcp.TextResourceContents{URI: guideURI, MIMEType: "text/markdown", Text: guide},
			}, nil
		},
	)
	const description = "Required execution policy for KAIROS protocol runs"
	s.mcp.AddPrompt(
		mcp.NewPrompt("contextual-prompt", mcp.WithPromptTitle("KAIROS Core Execution Engine"),
			mcp.WithPromptDescription(description)),
		func(context.Context, mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			text := mcp.NewTextContent(policy)
			return mcp.NewGetPromptResult(description,
				[]mcp.PromptMessage{mcp.NewPromptMessage(mcp.RoleUser, text)}), nil
		},
	)
}
