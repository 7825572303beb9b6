package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	openai "github.com/sashabaranov/go-openai"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
	"github.com/kairos-mcp/kairos/sdk/prompt"
	"github.com/kairos-mcp/kairos/sdk/prompt/exchange"
)

// maxReply is the largest reply of an endpoint that is read, in bytes.
const maxReply = 8 << 20

// finishLength is the finish_reason of an answer that was cut off.
const finishLength = string(openai.FinishReasonLength)

// said is a model's answer.
type said struct {
	text, model, finish string
	usage               *driver.Usage
}

func newClient() *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost, transport.IdleConnTimeout = 4, 30*time.Second
	return &http.Client{
		Transport: transport,
		// The key is for this endpoint: it goes nowhere else.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// soundURL says why the URL cannot be asked, without repeating it: it may hold a password.
func soundURL(raw string) error {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return errors.New("is not a URL; write it like http://127.0.0.1:11434/v1")
	case u.User != nil:
		return errors.New("holds a name or password; give the key by api_key_env")
	case u.RawQuery != "" || u.Fragment != "":
		return errors.New("has a query or fragment; give the key by api_key_env")
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return errors.New("must begin with http:// or https:// and name a host")
	}
	return nil
}

// ask sends the prompt. If the endpoint refuses the way to ask for
// JSON, a second try leaves it out: the answer is held to the schema anyway.
func (c config) ask(ctx context.Context, client *http.Client, req driver.RenderRequest) (said, error) {
	key := ""
	if c.APIKeyEnv != "" {
		key = os.Getenv(c.APIKeyEnv)
	}
	library := openai.DefaultConfig(key)
	library.BaseURL, library.HTTPClient = strings.TrimRight(c.BaseURL, "/"), doer{client, key}
	api := openai.NewClientWithConfig(library)
	body := c.request(req)
	out, err := api.CreateChatCompletion(ctx, body)
	if r := (*refusal)(nil); errors.As(err, &r) && r.content() && body.ResponseFormat != nil {
		body.ResponseFormat = nil
		out, err = api.CreateChatCompletion(ctx, body)
	}
	if err != nil {
		return said{}, shortened(err, key)
	}
	return answerOf(out, body.Model)
}

func (c config) request(req driver.RenderRequest) openai.ChatCompletionRequest {
	in := req.Input
	body := openai.ChatCompletionRequest{
		Model: c.Model,
		Messages: []openai.ChatCompletionMessage{
			{Role: openai.ChatMessageRoleSystem, Content: exchange.System(in)},
			{Role: openai.ChatMessageRoleUser, Content: exchange.User(req)},
		},
		Temperature: float32(prompt.Temperature), TopP: float32(prompt.TopP), ResponseFormat: c.format(in),
	}
	if in.Kind == driver.KindJudge && c.JudgeModel != "" {
		body.Model = c.JudgeModel
	}
	if in.Temperature != nil {
		// The library leaves out a 0, and endpoints take that for a 1.
		body.Temperature = max(float32(*in.Temperature), math.SmallestNonzeroFloat32)
	}
	if in.TopP != nil {
		body.TopP = float32(*in.TopP)
	}
	granted := c.MaxTokens
	if in.MaxTokens > 0 {
		granted = min(granted, in.MaxTokens)
	}
	// OpenAI's own newer models take only the newer name, others only the older one.
	if u, err := url.Parse(c.BaseURL); err == nil && u.Hostname() == "api.openai.com" {
		body.MaxCompletionTokens = granted
	} else {
		body.MaxTokens = granted //nolint:staticcheck // deprecated by OpenAI, and the only one that the others know
	}
	return body
}

func (c config) format(in driver.Input) *openai.ChatCompletionResponseFormat {
	switch {
	case c.Format == "json_schema" && len(in.Schema) > 0:
		return &openai.ChatCompletionResponseFormat{
			Type:       openai.ChatCompletionResponseFormatTypeJSONSchema,
			JSONSchema: &openai.ChatCompletionResponseFormatJSONSchema{Name: "answer", Schema: in.Schema},
		}
	case c.Format == "none":
		return nil
	}
	return &openai.ChatCompletionResponseFormat{Type: openai.ChatCompletionResponseFormatTypeJSONObject}
}

func answerOf(out openai.ChatCompletionResponse, asked string) (said, error) {
	if len(out.Choices) == 0 {
		return said{}, errors.New("its answer holds no message")
	}
	choice := out.Choices[0]
	if choice.Message.Refusal != "" {
		return said{}, errors.New("the model refused: " + oneLine(choice.Message.Refusal))
	}
	s := said{text: choice.Message.Content, model: oneLine(out.Model), finish: oneLine(string(choice.FinishReason))}
	if s.model == "" {
		s.model = asked
	}
	if out.Usage.TotalTokens > 0 {
		s.usage = &driver.Usage{InputTokens: max(0, out.Usage.PromptTokens), OutputTokens: max(0, out.Usage.CompletionTokens)}
	}
	return s, nil
}

// doer sends the library's requests. It bounds the reply and makes an error of
// every status but 200.
type doer struct {
	http *http.Client
	key  string
}

// Do implements openai.HTTPDoer.
func (d doer) Do(req *http.Request) (_ *http.Response, err error) {
	if d.key == "" {
		req.Header.Del("Authorization")
	}
	res, err := d.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, res.Body.Close()) }()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxReply+1))
	switch {
	case err != nil:
		return nil, err
	case res.StatusCode != http.StatusOK:
		return nil, &refusal{res.StatusCode, d.messageIn(body)}
	case len(body) > maxReply:
		return nil, fmt.Errorf("its reply has more than %d bytes", maxReply)
	}
	if !json.Valid(body) {
		return nil, fmt.Errorf("its reply is not JSON but %s (is base_url right?)", oneLine(cmp.Or(res.Header.Get("Content-Type"), "of no type")))
	}
	res.Body = io.NopCloser(strings.NewReader(string(body)))
	return res, nil
}

// refusal is a reply that is not 200 OK.
type refusal struct {
	status  int
	message string
}

func (r *refusal) Error() string {
	text := fmt.Sprintf("it answers %d %s", r.status, http.StatusText(r.status))
	if r.message != "" {
		text += ": " + r.message
	}
	switch {
	case r.status == http.StatusUnauthorized || r.status == http.StatusForbidden:
		text += " (is the key right?)"
	case r.status == http.StatusNotFound:
		text += " (are base_url and model right?)"
	case r.status >= 300 && r.status < 400:
		text += " (redirects are not followed; give the URL it leads to)"
	}
	return text
}

// content reports whether the request was refused for what is in it.
func (r *refusal) content() bool {
	return r.status == http.StatusBadRequest || r.status == http.StatusUnprocessableEntity
}

// messageIn is what the endpoint says, without the key, which endpoints like to
// repeat.
func (d doer) messageIn(body []byte) string {
	var wire struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal(body, &wire) != nil {
		return ""
	}
	return oneLine(withoutKey(wire.Error.Message, d.key))
}

// oneLine is a text of an endpoint, short and fit to be shown.
func oneLine(s string) string { return plain.LineWithin(s, 300) }

// shortened is the error without the request around it and without the key.
func shortened(err error, key string) error {
	text := err.Error()
	if r := (*refusal)(nil); errors.As(err, &r) {
		text = r.Error()
	} else if u := (*url.Error)(nil); errors.As(err, &u) {
		text = u.Err.Error()
	}
	return errors.New(oneLine(withoutKey(text, key)))
}

func withoutKey(text, key string) string {
	if key == "" {
		return text
	}
	return strings.ReplaceAll(text, key, "(the key)")
}
