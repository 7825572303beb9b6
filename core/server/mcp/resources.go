package mcp

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/fault"
)

//go:embed doc/*.md
var texts embed.FS

// guidePrefix and the name of a file below doc are a guide's URI. That of
// building-kairos-workflows and its name are part of the contract.
const guidePrefix = "kairos://doc/"

// guides are the resources, in the order of a list by URI.
var guides = []struct{ file, name, description string }{
	{"building-kairos-workflows", "Building-Kairos-Workflows", "How to write a protocol: steps, challenges, inputs, templates"},
	{"challenge-types", "Challenge-Types", "What each type of challenge demands and how a solution of it looks"},
	{"error-codes", "Error-Codes", "What each error code means and what to do about it"},
	{"running-protocols", "Running-Protocols", "How to read the replies of a run and fill in next_call"},
}

// The prompt, as the contract names it, and its argument.
const (
	promptName        = "contextual-prompt"
	promptTitle       = "KAIROS Core Execution Engine"
	promptDescription = "Required execution policy for KAIROS protocol runs"
	promptProtocol    = "protocol"
)

// text returns an embedded text without trailing white space.
func text(file string) (string, error) {
	b, err := texts.ReadFile("doc/" + file + ".md")
	return strings.TrimSpace(string(b)), err
}

func addResources(to *server.MCPServer, ps protocols) error {
	for _, g := range guides {
		content, err := text(g.file)
		if err != nil {
			return fmt.Errorf("guide %s: %w", g.file, err)
		}
		contents := []mcp.ResourceContents{
			mcp.TextResourceContents{URI: guidePrefix + g.file, MIMEType: "text/markdown", Text: content + "\n"},
		}
		to.AddResource(
			mcp.NewResource(guidePrefix+g.file, g.name,
				mcp.WithMIMEType("text/markdown"), mcp.WithResourceDescription(g.description), mcp.WithResourceIcons(icon(guideDrawing))),
			func(context.Context, mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) { return contents, nil },
		)
	}
	policy, err := text(promptName)
	if err != nil {
		return fmt.Errorf("prompt %s: %w", promptName, err)
	}
	to.AddPrompt(
		mcp.NewPrompt(promptName, mcp.WithPromptTitle(promptTitle), mcp.WithPromptDescription(promptDescription),
			mcp.WithArgument(promptProtocol, mcp.ArgumentDescription("Title or URI of the protocol to run; left out: only the policy"))),
		func(ctx context.Context, req mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			if n := noteFrom(ctx); n != nil && n.prompt != "" {
				return ps.start(ctx, n.prompt, req.Params.Arguments)
			}
			order, err := ps.order(ctx, strings.TrimSpace(req.Params.Arguments[promptProtocol]))
			if err != nil {
				return nil, err
			}
			message := mcp.NewPromptMessage(mcp.RoleUser, mcp.NewTextContent(policy+"\n"+order))
			return mcp.NewGetPromptResult(promptDescription, []mcp.PromptMessage{message}), nil
		},
	)
	return nil
}

// protocols finds protocols for prompts and for completions.
type protocols struct {
	engine  Engine
	callers callers
	log     *slog.Logger
}

// order is the sentence of the prompt that names the protocol to run.
func (ps protocols) order(ctx context.Context, protocol string) (string, error) {
	if protocol == "" {
		return "", nil
	}
	c, err := ps.find(ctx, protocol)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("\nNow run the protocol %q: call kairos_begin with %s\n", c.Title, c.URI), nil
}

// find finds a protocol that the caller may read by its title or the URI of a step.
func (ps protocols) find(ctx context.Context, protocol string) (api.ChainInfo, error) {
	caller := ps.callers.of(ctx, mcp.CallToolRequest{})
	if strings.HasPrefix(strings.ToLower(protocol), memPrefix) {
		whole, err := ps.engine.Dump(ctx, caller, api.DumpRequest{URI: protocol, Protocol: true})
		return api.ChainInfo{URI: whole.URI, Title: whole.Label}, ps.notFound(ctx, err, protocol)
	}
	var found api.ChainInfo
	err := ps.each(ctx, caller, func(c api.ChainInfo) bool {
		if !strings.EqualFold(c.Title, protocol) {
			return true
		}
		found = c
		return false
	})
	if err == nil && found.URI == "" {
		err = fault.New(fault.NotFound, "no such protocol")
	}
	return found, ps.notFound(ctx, err, protocol)
}

// notFound is the error for a client: that it may read no such protocol, or
// without details that reading failed.
func (ps protocols) notFound(ctx context.Context, err error, protocol string) error {
	switch fault.CodeOf(err) {
	case "":
		return nil
	case fault.NotFound, fault.InvalidArgument:
		return invalidParams(fmt.Errorf("%s: no protocol %.200q in your spaces", promptProtocol, protocol))
	}
	ps.log.ErrorContext(ctx, "protocols could not be read", "error", err)
	return errors.New("the protocols cannot be read now")
}
