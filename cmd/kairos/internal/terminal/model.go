package terminal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// maxCompletion is how many bytes of an endpoint's reply are read.
const maxCompletion = 8 << 20

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

// message of the chat completions API. Content may be null beside tool calls.
type message struct {
	Role       string     `json:"role"`
	Content    string     `json:"content"`
	ToolCalls  []toolCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
}

type toolCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// modelTool is a tool that the model may call.
type modelTool struct {
	Type     string            `json:"type"`
	Function modelToolFunction `json:"function"`
}

type modelToolFunction struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"`
}

type chatRequest struct {
	Model       string      `json:"model"`
	Messages    []message   `json:"messages"`
	Temperature float64     `json:"temperature"`
	TopP        float64     `json:"top_p,omitempty"`
	MaxTokens   int         `json:"max_tokens,omitempty"`
	Tools       []modelTool `json:"tools,omitempty"`
}

type chatReply struct {
	Model   string `json:"model"`
	Choices []struct {
		Message      message `json:"message"`
		FinishReason string  `json:"finish_reason"`
	} `json:"choices"`
}

// maxToolRounds bounds how often a model may call tools for one answer.
const maxToolRounds = 10

// complete asks the model. It may call the tools in between; call is asked to
// make each call and returns what the model is told.
func (m Model) complete(ctx context.Context, p prompt, tools []modelTool,
	call func(ctx context.Context, name string, arguments string) (string, error),
) (completion, error) {
	req := chatRequest{Model: m.Name, Temperature: p.Temperature, TopP: p.TopP, MaxTokens: p.MaxTokens, Tools: tools}
	if p.System != "" {
		req.Messages = append(req.Messages, message{Role: "system", Content: p.System})
	}
	req.Messages = append(req.Messages, message{Role: "user", Content: p.User})
	for range maxToolRounds {
		reply, err := m.send(ctx, req)
		if err != nil {
			return completion{}, err
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
			req.Messages = append(req.Messages, message{Role: "tool", Content: told, ToolCallID: c.ID})
		}
	}
	return completion{}, fmt.Errorf("the model called tools %d times without an answer", maxToolRounds)
}

func stopReason(finish string) string {
	if finish == "length" {
		return "maxTokens"
	}
	return "endTurn"
}

func (m Model) endpoint() string {
	base := strings.TrimSuffix(m.URL, "/")
	if !strings.HasSuffix(base, "/v1") {
		base += "/v1"
	}
	return base + "/chat/completions"
}

func (m Model) send(ctx context.Context, body chatRequest) (reply chatReply, err error) {
	timeout := m.Timeout
	if timeout == 0 {
		timeout = 2 * time.Minute
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	encoded, err := json.Marshal(body)
	if err != nil {
		return reply, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.endpoint(), bytes.NewReader(encoded))
	if err != nil {
		return reply, fmt.Errorf("ask the model: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	if m.Key != "" {
		req.Header.Set("Authorization", "Bearer "+string(m.Key))
	}
	// The default transport's connections would outlive the run.
	client := &http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		return reply, fmt.Errorf("ask the model: %w", err)
	}
	defer func() { err = errors.Join(err, res.Body.Close()) }()
	data, err := io.ReadAll(io.LimitReader(res.Body, maxCompletion))
	if err != nil {
		return reply, fmt.Errorf("read the model's answer: %w", err)
	}
	jsonErr := json.Unmarshal(data, &reply)
	if res.StatusCode != http.StatusOK {
		return reply, fmt.Errorf("the model's endpoint says %s: %s", res.Status, m.hide(clip(string(data))))
	}
	if jsonErr != nil || len(reply.Choices) == 0 {
		return reply, fmt.Errorf("the model's endpoint sent no completion: %s", m.hide(clip(string(data))))
	}
	return reply, nil
}

// hide removes the key, should an endpoint repeat it.
func (m Model) hide(text string) string {
	if m.Key == "" {
		return text
	}
	return strings.ReplaceAll(text, string(m.Key), m.Key.String())
}
