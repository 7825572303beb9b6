package terminal

import (
	"cmp"
	"context"
	"fmt"
	"time"

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
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(m.Timeout, 2*time.Minute))
	defer cancel()
	return m.client.Chat(ctx, openai.Endpoint{URL: openai.Versioned(m.URL), Key: m.Key}, req)
}
