package mcp

import (
	"context"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
)

const memPrefix = "kairos://mem/"

// Limits of a completion.
const (
	maxValues  = 100  // of a reply, the limit of MCP
	titlesPage = 1000 // read at a time
	maxTitles  = 5000 // searched; a longer input finds the others
)

// completion offers the protocols that the caller may read: for the prompt's
// argument their titles, or URIs if the input begins like one, and for a reference to
// kairos://mem/ the ids of their first steps. The input is part of the title, or the
// beginning of the URI or id. For an argument of a protocol's prompt it offers the
// allowed values.
type completion struct{ protocols protocols }

// CompletePromptArgument implements server.PromptCompletionProvider.
func (c completion) CompletePromptArgument(
	ctx context.Context, prompt string, argument mcp.CompleteArgument, _ mcp.CompleteContext,
) (*mcp.Completion, error) {
	if prompt != promptName {
		return c.completePrompt(ctx, prompt, argument)
	}
	if argument.Name != promptProtocol {
		return &mcp.Completion{}, nil
	}
	return c.complete(ctx, argument.Value, func(p api.ChainInfo) string { return p.Title })
}

// CompleteResourceArgument implements server.ResourceCompletionProvider.
func (c completion) CompleteResourceArgument(
	ctx context.Context, uri string, argument mcp.CompleteArgument, _ mcp.CompleteContext,
) (*mcp.Completion, error) {
	if !strings.HasPrefix(uri, memPrefix) {
		return &mcp.Completion{}, nil
	}
	return c.complete(ctx, argument.Value, func(p api.ChainInfo) string { return strings.TrimPrefix(p.URI, memPrefix) })
}

// complete lists the protocols that match the input. shown formats a protocol unless
// the input is a URI.
func (c completion) complete(ctx context.Context, typed string, shown func(api.ChainInfo) string) (*mcp.Completion, error) {
	typed = strings.ToLower(strings.TrimSpace(typed))
	isURI := len(typed) > len("kairos:") && strings.HasPrefix(memPrefix, typed) || strings.HasPrefix(typed, memPrefix)
	if isURI {
		shown = func(p api.ChainInfo) string { return p.URI }
	}
	var out mcp.Completion
	seen := 0
	err := c.protocols.each(ctx, c.protocols.callers.of(ctx, mcp.CallToolRequest{}), func(p api.ChainInfo) bool {
		seen++
		if fits(p, typed, isURI) {
			if len(out.Values) == maxValues {
				out.HasMore = true
				return false
			}
			out.Values = append(out.Values, shown(p))
		}
		if seen == maxTitles {
			out.HasMore = true
		}
		return seen < maxTitles
	})
	if !out.HasMore {
		out.Total = len(out.Values)
	}
	return &out, c.protocols.notFound(ctx, err, typed)
}

func fits(p api.ChainInfo, typed string, isURI bool) bool {
	if isURI {
		return strings.HasPrefix(p.URI, typed)
	}
	return strings.Contains(strings.ToLower(p.Title), typed) || strings.HasPrefix(p.URI, memPrefix+typed)
}

// each calls do for each protocol that the caller may read until it returns false.
func (ps protocols) each(ctx context.Context, c access.Caller, do func(api.ChainInfo) bool) error {
	for in := (api.SpacesRequest{Titles: true, Limit: titlesPage}); ; {
		page, err := ps.engine.Spaces(ctx, c, in)
		if err != nil {
			return err
		}
		for _, space := range page.Spaces {
			for _, chain := range space.Chains {
				if !do(chain) {
					return nil
				}
			}
		}
		if page.NextCursor == "" || page.NextCursor == in.Cursor {
			return nil
		}
		in.Cursor = page.NextCursor
	}
}
