package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
)

// menu offers a prompt for each protocol that the caller may read, after the prompts
// that mcp-go keeps. Those are the same for every client; these are not, so they are
// added to the list when it is asked for, and served by the handler of promptName.
type menu struct {
	protocols protocols
	kept      func() map[string]*server.ServerPrompt // by mcp-go
}

func (m menu) hook(h *server.Hooks) {
	h.AddAfterListPrompts(func(ctx context.Context, _ any, _ *mcp.ListPromptsRequest, res *mcp.ListPromptsResult) {
		caller := m.protocols.callers.of(ctx, mcp.CallToolRequest{})
		if conn := originOf(ctx).conn; conn != nil {
			conn.listsPrompts(caller) // before reading, so that no change is missed
		}
		offered, err := m.protocols.prompts(ctx, caller)
		if err != nil {
			if n := noteFrom(ctx); n != nil {
				n.err = &rpcError{code: mcp.INTERNAL_ERROR, message: m.protocols.notFound(ctx, err, "").Error()}
			}
			return
		}
		for _, p := range offered {
			res.Prompts = append(res.Prompts, listed(p))
		}
	})
	h.AddBeforeGetPrompt(func(ctx context.Context, _ any, req *mcp.GetPromptRequest) {
		name := req.Params.Name
		if n := noteFrom(ctx); n != nil && name != "" && m.kept()[name] == nil {
			n.prompt, req.Params.Name = name, promptName
		}
	})
	h.AddAfterInitialize(func(_ context.Context, _ any, _ *mcp.InitializeRequest, res *mcp.InitializeResult) {
		// As with tools, only legacy clients are notified.
		if res.Capabilities.Prompts != nil {
			res.Capabilities.Prompts.ListChanged = true
		}
	})
}

// prompts lists the protocols that the caller may read.
func (ps protocols) prompts(ctx context.Context, caller access.Caller) ([]api.Prompt, error) {
	return ps.engine.Prompts(ctx, caller, promptName)
}

func listed(p api.Prompt) mcp.Prompt {
	out := mcp.Prompt{Name: p.Name, Title: p.Title, Description: p.Description}
	if strings.EqualFold(strings.ReplaceAll(p.Title, " ", "-"), p.Name) {
		out.Title = "" // clients show the name
	}
	for _, a := range p.Arguments {
		out.Arguments = append(out.Arguments, mcp.PromptArgument{Name: a.Name, Description: a.Description, Required: a.Required})
	}
	return out
}

// prompt returns the prompt of a protocol; its name is not unique across callers.
func (ps protocols) prompt(ctx context.Context, name string) (api.Prompt, error) {
	offered, err := ps.prompts(ctx, ps.callers.of(ctx, mcp.CallToolRequest{}))
	if err != nil {
		return api.Prompt{}, ps.notFound(ctx, err, name)
	}
	i := slices.IndexFunc(offered, func(p api.Prompt) bool { return p.Name == name })
	if i < 0 {
		return api.Prompt{}, invalidParams(fmt.Errorf("no prompt %.200q: prompts/list lists those of your spaces", name))
	}
	return offered[i], nil
}

// start is the message of a prompt: it makes the model begin a run of the protocol with
// the inputs that the person gave.
func (ps protocols) start(ctx context.Context, name string, given map[string]string) (*mcp.GetPromptResult, error) {
	p, err := ps.prompt(ctx, name)
	if err != nil {
		return nil, err
	}
	input, err := inputOf(p, given)
	if err != nil {
		return nil, invalidParams(fmt.Errorf("prompt %s: %w", p.Name, err))
	}
	arguments := map[string]any{"uri": p.URI}
	if len(input) > 0 {
		arguments["input"] = input
	}
	call, err := api.Encode(arguments, "")
	if err != nil {
		return nil, fmt.Errorf("prompt %s: %w", p.Name, err)
	}
	text := fmt.Sprintf("Run the KAIROS protocol %q now: call %s with these arguments:\n\n%s\n\n"+
		"Then do what each reply asks for until the run is complete. Send only what really happened, and never answer in my place.\n",
		p.Title, api.ToolBegin, call)
	return mcp.NewGetPromptResult(p.Description, []mcp.PromptMessage{mcp.NewPromptMessage(mcp.RoleUser, mcp.NewTextContent(text))}), nil
}

// inputOf makes the input of a run from the arguments of a prompt. A client may send
// an empty text for an argument that was left out.
func inputOf(p api.Prompt, given map[string]string) (map[string]json.RawMessage, error) {
	input := make(map[string]json.RawMessage)
	var names, missing []string
	for _, a := range p.Arguments {
		names = append(names, a.Name)
		value := given[a.Name]
		if strings.TrimSpace(value) == "" {
			if a.Required {
				missing = append(missing, a.Name)
			}
			continue
		}
		encoded, err := argumentValue(a, value)
		if err != nil {
			return nil, err
		}
		input[a.Name] = encoded
	}
	for name := range given {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("it has no argument %.200q; its arguments are: %s", name, strings.Join(names, ", "))
		}
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("missing: %s", strings.Join(missing, ", "))
	}
	return input, nil
}

func argumentValue(a api.PromptArgument, value string) (json.RawMessage, error) {
	if a.Kind == api.ArgumentText {
		return api.Encode(value, "")
	}
	value = strings.TrimSpace(value)
	if json.Valid([]byte(value)) {
		return json.RawMessage(value), nil
	}
	if a.Kind != api.ArgumentList {
		return nil, fmt.Errorf("the argument %s is not JSON: write text in quotation marks, and numbers, true and false as they are", a.Name)
	}
	var list []string
	for part := range strings.SplitSeq(value, ",") {
		if part = strings.TrimSpace(part); part != "" {
			list = append(list, part)
		}
	}
	return api.Encode(list, "")
}

// listsPrompts records the spaces that the client's list of prompts depends on. The
// built-in protocols do not change while a server runs.
func (c *connection) listsPrompts(by access.Caller) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.promptSpaces = by.Own()
}

// promptsStale reports whether the client has listed prompts of one of the spaces since
// it was last notified.
func (c *connection) promptsStale(spaces []string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(spaces, func(s string) bool { return slices.Contains(c.promptSpaces, s) })
}

// promptsNotified ends notifications until the client lists its prompts again.
func (c *connection) promptsNotified() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.promptSpaces = nil
}

// ProtocolsChanged notifies the clients whose list of prompts has protocols of these
// spaces.
func (s *Server) ProtocolsChanged(spaces []string) {
	s.stdio.notify(string(mcp.MethodNotificationPromptsListChanged), func(c *connection) bool {
		if !c.promptsStale(spaces) {
			return false
		}
		c.promptsNotified()
		return true
	})
	s.http.sessions.promptsChanged(spaces)
}

func (ss *liveSessions) promptsChanged(spaces []string) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	for _, s := range ss.byID {
		if s.promptsStale(spaces) && s.send(notice(string(mcp.MethodNotificationPromptsListChanged), map[string]any{})) != nil {
			s.promptsNotified()
		}
	}
}

// completePrompt offers the allowed values of an argument of a protocol's prompt. A
// prompt that does not exist has none.
func (c completion) completePrompt(ctx context.Context, prompt string, argument mcp.CompleteArgument) (*mcp.Completion, error) {
	p, err := c.protocols.prompt(ctx, prompt)
	if refused := (*rpcError)(nil); errors.As(err, &refused) {
		return &mcp.Completion{}, nil
	}
	if err != nil {
		return nil, err
	}
	var out mcp.Completion
	typed := strings.ToLower(strings.TrimSpace(argument.Value))
	for _, a := range p.Arguments {
		for _, v := range a.Values {
			if a.Name == argument.Name && strings.HasPrefix(strings.ToLower(v), typed) && len(out.Values) < maxValues {
				out.Values = append(out.Values, v)
			}
		}
	}
	out.Total = len(out.Values)
	return &out, nil
}
