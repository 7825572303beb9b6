package terminal

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/kairos-mcp/kairos/internal/openai"
)

// prompt is what a model is asked.
type prompt struct {
	System      string
	User        string
	Temperature float64
	TopP        float64 // 0: the endpoint's default
	MaxTokens   int     // 0: the endpoint's default
	// Approval as the server asked for it: "auto", "user" or "".
	Approval string
}

// text of the prompt as a person reads it.
func (p prompt) text() string {
	if p.System == "" {
		return p.User
	}
	return p.System + "\n\n" + p.User
}

// completion is what a model said.
type completion struct {
	Text       string
	Model      string
	StopReason string // of MCP: endTurn, maxTokens
}

// completionTime bounds one completion.
const completionTime = 2 * time.Minute

// maxToolRounds bounds how often a model may call tools for one answer.
const maxToolRounds = 10

// model is the endpoint that is asked, with the connections to it.
type model struct {
	Model
	client *openai.Client
}

// complete asks the model. It may call the tools in between; call is asked to
// make each call and returns what the model is told.
func (m model) complete(ctx context.Context, p prompt, tools []openai.Tool,
	call func(ctx context.Context, name string, arguments string) (string, error),
) (completion, error) {
	req := openai.ChatRequest{Model: m.Name, Temperature: p.Temperature, TopP: p.TopP, MaxTokens: p.MaxTokens, Tools: tools}
	if p.System != "" {
		req.Messages = append(req.Messages, openai.Message{Role: "system", Content: p.System})
	}
	req.Messages = append(req.Messages, openai.Message{Role: "user", Content: p.User})
	for range maxToolRounds {
		reply, err := m.send(ctx, req)
		if err != nil {
			return completion{}, fmt.Errorf("the model's endpoint: %w", err)
		}
		said := reply.Choices[0].Message
		if len(said.ToolCalls) == 0 {
			return completion{Text: said.Content, Model: reply.Model, StopReason: stopReason(reply.Choices[0].FinishReason)}, nil
		}
		req.Messages = append(req.Messages, said)
		for _, c := range said.ToolCalls {
			told, err := call(ctx, c.Function.Name, c.Function.Arguments)
			if err != nil {
				return completion{}, err
			}
			req.Messages = append(req.Messages, openai.Message{Role: "tool", Content: told, ToolCallID: c.ID})
		}
	}
	return completion{}, fmt.Errorf("the model called tools %d times without an answer", maxToolRounds)
}

func stopReason(finish string) string {
	if finish == openai.FinishLength {
		return "maxTokens"
	}
	return "endTurn"
}

func (m model) send(ctx context.Context, req openai.ChatRequest) (openai.ChatReply, error) {
	ctx, cancel := context.WithTimeout(ctx, completionTime)
	defer cancel()
	return m.client.Chat(ctx, openai.Endpoint{URL: openai.Versioned(m.URL), Key: m.Key}, req)
}

func (h *host) callFor(ctx context.Context, ref toolRef, args map[string]any) (string, error) {
	res, err := h.tools.call(ctx, ref.server, ref.tool.Name, args)
	if err != nil {
		return "", err
	}
	h.console.say("call: %s.%s(%s) -> %s", ref.server, ref.tool.Name, compact(args), res.Value)
	return string(res.Value), nil
}

// consent asks whether a tool may be called, and with what. It returns
// errRefused when it may not.
func (h *host) consent(ctx context.Context, ref toolRef, args map[string]any) (map[string]any, error) {
	q := question{kind: KindTool, text: ref.with(args), arguments: args, schema: ref.tool.InputSchema}
	if args == nil {
		q.text = fmt.Sprintf("Call %s of %s; its arguments are not known.\n%s", ref.tool.Name, ref.server, q.schema)
		q.unread = fmt.Sprintf("Call %s of %s.\n%s", ref.tool.Name, ref.server, ref.tool.Description)
	}
	d, err := h.decide(ctx, q)
	if err != nil {
		return nil, err
	}
	switch d.verb {
	case verbRun:
		return args, nil
	case verbArguments:
		return d.arguments, nil
	}
	return nil, errRefused
}

// with is the call with its arguments, for a person to read.
func (r toolRef) with(args map[string]any) string {
	return fmt.Sprintf("Call %s of %s with %s", r.tool.Name, r.server, compact(args))
}

// forModel is the tool as a model sees it.
func (r toolRef) forModel() openai.Tool {
	name := strings.Map(func(c rune) rune {
		if c == '_' || c == '-' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') {
			return c
		}
		return '_'
	}, r.server+"__"+r.tool.Name)
	return openai.Tool{Type: "function", Function: openai.Function{Name: name, Description: r.tool.Description, Parameters: r.tool.InputSchema}}
}

// readArguments reads what a model or a person wrote as a tool's arguments.
func readArguments(text string) (args map[string]any, ok bool) {
	err := decode([]byte(text), &args)
	return args, err == nil && args != nil
}

// readPrompt reads a sampling request. Only text can be shown and sent on.
func readPrompt(params mcp.CreateMessageParams) (prompt, error) {
	p := prompt{System: params.SystemPrompt, Temperature: params.Temperature, MaxTokens: params.MaxTokens}
	var parts []string
	for i, m := range params.Messages {
		content, err := mcp.ParseSamplingContent(m.Content)
		if err != nil {
			return prompt{}, fmt.Errorf("sampling message %d: %w", i+1, err)
		}
		text, ok := content.(mcp.TextContent)
		if !ok {
			return prompt{}, fmt.Errorf("sampling message %d: only text is supported, not %T", i+1, content)
		}
		parts = append(parts, text.Text)
	}
	p.User = strings.Join(parts, "\n\n")
	raw, err := json.Marshal(params.Metadata)
	if err != nil {
		return prompt{}, err
	}
	var meta struct {
		TopP     float64 `json:"top_p"`
		Approval string  `json:"approval"`
		Mode     string  `json:"approvalMode"`
	}
	// Metadata is free-form: what is not ours to understand is not an error.
	if json.Unmarshal(raw, &meta) == nil {
		p.TopP, p.Approval = meta.TopP, meta.Approval
		if p.Approval == "" {
			p.Approval = meta.Mode
		}
	}
	return p, nil
}
