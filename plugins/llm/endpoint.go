package main

import (
	"context"
	"errors"
	"net/url"
	"os"

	"github.com/kairos-mcp/kairos/internal/openai"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
	"github.com/kairos-mcp/kairos/sdk/prompt"
	"github.com/kairos-mcp/kairos/sdk/prompt/exchange"
)

// said is a model's answer.
type said struct {
	text, model, finish string
	usage               *driver.Usage
}

// ask sends the prompt. If the endpoint refuses the way to ask for
// JSON, a second try leaves it out: the answer is held to the schema anyway.
func (c config) ask(ctx context.Context, client *openai.Client, req driver.RenderRequest) (said, error) {
	to := openai.Endpoint{URL: c.BaseURL}
	if c.APIKeyEnv != "" {
		to.Key = openai.Secret(os.Getenv(c.APIKeyEnv))
	}
	body := c.request(req)
	out, err := client.Chat(ctx, to, body)
	if r := (*openai.Refusal)(nil); errors.As(err, &r) && r.Content() && body.ResponseFormat != nil {
		body.ResponseFormat = nil
		out, err = client.Chat(ctx, to, body)
	}
	if err != nil {
		return said{}, err
	}
	return answerOf(out, body.Model)
}

func (c config) request(req driver.RenderRequest) openai.ChatRequest {
	in := req.Input
	body := openai.ChatRequest{
		Model: c.Model,
		Messages: []openai.Message{
			{Role: "system", Content: exchange.System(in)},
			{Role: "user", Content: exchange.User(req)},
		},
		Temperature: prompt.Temperature, TopP: prompt.TopP, ResponseFormat: c.format(in),
	}
	if in.Kind == driver.KindJudge && c.JudgeModel != "" {
		body.Model = c.JudgeModel
	}
	if in.Temperature != nil {
		body.Temperature = *in.Temperature
	}
	if in.TopP != nil {
		body.TopP = *in.TopP
	}
	granted := c.MaxTokens
	if in.MaxTokens > 0 {
		granted = min(granted, in.MaxTokens)
	}
	// OpenAI's own newer models take only the newer name, others only the older one.
	if u, err := url.Parse(c.BaseURL); err == nil && u.Hostname() == "api.openai.com" {
		body.MaxCompletionTokens = granted
	} else {
		body.MaxTokens = granted
	}
	return body
}

func (c config) format(in driver.Input) *openai.Format {
	switch {
	case c.Format == "json_schema" && len(in.Schema) > 0:
		return &openai.Format{Type: "json_schema", JSONSchema: &openai.JSONSchema{Name: "answer", Schema: in.Schema}}
	case c.Format == "none":
		return nil
	}
	return &openai.Format{Type: "json_object"}
}

func answerOf(out openai.ChatReply, asked string) (said, error) {
	choice := out.Choices[0]
	if choice.Message.Refusal != "" {
		return said{}, errors.New("the model refused: " + oneLine(choice.Message.Refusal))
	}
	s := said{text: choice.Message.Content, model: oneLine(out.Model), finish: oneLine(choice.FinishReason)}
	if s.model == "" {
		s.model = asked
	}
	if out.Usage.TotalTokens > 0 {
		s.usage = &driver.Usage{InputTokens: max(0, out.Usage.PromptTokens), OutputTokens: max(0, out.Usage.CompletionTokens)}
	}
	return s, nil
}

// oneLine is a text of an endpoint, short and fit to be shown.
func oneLine(s string) string { return plain.LineWithin(s, 300) }
