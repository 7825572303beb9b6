// Package openai asks endpoints that speak OpenAI's API for chat completions and
// embeddings. It bounds what comes back, follows no redirect and shows no key; it
// repeats nothing and limits no time, which is up to its callers.
package openai

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/kairos-mcp/kairos/internal/hidden"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

const (
	// maxChat is the largest reply to a chat request, in bytes.
	maxChat = 8 << 20
	// maxRefusal is how many bytes are read of a reply that is not 200 OK.
	maxRefusal = 4 << 10
	// maxQuoted is how many bytes an error quotes of an endpoint.
	maxQuoted = 300
)

// Endpoint is where requests go.
type Endpoint struct {
	URL string // up to and with its /v1
	Key Secret // sent as a bearer token; empty: none
}

// Client keeps connections to endpoints. It is safe for concurrent use.
type Client struct{ http *http.Client }

// New returns a client. It sends nothing yet.
func New() *Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost, transport.IdleConnTimeout = 4, 30*time.Second
	return &Client{&http.Client{
		Transport: transport,
		// The texts and the key are for this endpoint: they go nowhere else.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Close closes idle connections. The client can still be used.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Chat asks for a completion. The reply has at least one choice.
func (c *Client) Chat(ctx context.Context, to Endpoint, req ChatRequest) (ChatReply, error) {
	var reply ChatReply
	if err := c.post(ctx, to, "/chat/completions", req, maxChat, &reply); err != nil {
		return ChatReply{}, err
	}
	if len(reply.Choices) == 0 {
		return ChatReply{}, &Unusable{"it holds no message"}
	}
	return reply, nil
}

// Embed asks for the vectors of texts, in a reply of at most so many bytes.
func (c *Client) Embed(ctx context.Context, to Endpoint, req EmbeddingRequest, most int64) ([]Embedding, error) {
	var reply struct {
		Data []Embedding `json:"data"`
	}
	err := c.post(ctx, to, "/embeddings", req, most, &reply)
	return reply.Data, err
}

func (c *Client) post(ctx context.Context, to Endpoint, path string, body any, most int64, into any) error {
	encoded, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(to.URL, "/")+path, bytes.NewReader(encoded))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	if to.Key != "" {
		req.Header.Set("Authorization", "Bearer "+string(to.Key))
	}
	res, err := c.http.Do(req)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err // the operator knows the method and the URL
		}
		return noAnswer(ctx, "it cannot be reached", err)
	}
	defer func() { _ = res.Body.Close() }() // only read
	if res.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(res.Body, maxRefusal)) // a truncated message is still the message
		return &Refusal{Status: res.StatusCode, Message: to.shown(messageIn(text)), After: retryAfter(res.Header)}
	}
	raw, err := io.ReadAll(io.LimitReader(res.Body, most+1))
	if err != nil {
		return noAnswer(ctx, "its answer breaks off", err)
	}
	if int64(len(raw)) > most {
		return &Unusable{fmt.Sprintf("it has more than %d bytes", most)}
	}
	if !json.Valid(raw) {
		kind := to.shown(cmp.Or(res.Header.Get("Content-Type"), "of no type"))
		return &Unusable{fmt.Sprintf("it is not JSON but %s (is the URL right?)", kind)}
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return &Unusable{"it is not what " + path + " answers: " + to.shown(err.Error())}
	}
	return nil
}

func noAnswer(ctx context.Context, what string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("it did not answer in time: %w", ctx.Err())
	}
	return fmt.Errorf("%s: %w", what, err)
}

// messageIn is the message of an error in the forms that endpoints use, else the text.
func messageIn(body []byte) string {
	var object struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	var flat struct {
		Error   string `json:"error"`
		Message string `json:"message"`
	}
	switch {
	case json.Unmarshal(body, &object) == nil && object.Error.Message != "":
		return object.Error.Message
	case json.Unmarshal(body, &flat) == nil && flat.Error+flat.Message != "":
		return cmp.Or(flat.Error, flat.Message)
	}
	return string(body)
}

// shown is a text of the endpoint on one short line, without the key, which endpoints
// like to repeat.
func (e Endpoint) shown(text string) string {
	if e.Key != "" {
		text = strings.ReplaceAll(text, string(e.Key), hidden.Mark)
	}
	return plain.LineWithin(text, maxQuoted)
}

// Refusal is an answer with a status other than 200 OK.
type Refusal struct {
	Status  int
	Message string // of the endpoint, fit to be shown
	// After is the Retry-After of the endpoint, or zero if there is none.
	After time.Duration
}

// Error says what the endpoint answered, and what to look at.
func (r *Refusal) Error() string {
	text := fmt.Sprintf("it answers %d %s", r.Status, http.StatusText(r.Status))
	if r.Message != "" {
		text += ": " + r.Message
	}
	switch {
	case r.Status == http.StatusUnauthorized || r.Status == http.StatusForbidden:
		text += " (is the API key right?)"
	case r.Status == http.StatusNotFound:
		text += " (are the URL and the model right?)"
	case r.Status >= 300 && r.Status < 400:
		text += " (redirects are not followed; give the URL it leads to)"
	}
	return text
}

// Passing reports whether the same request may succeed a little later.
func (r *Refusal) Passing() bool {
	return r.Status == http.StatusTooManyRequests || r.Status >= 500
}

// Content reports whether this request was refused for what is in it.
func (r *Refusal) Content() bool {
	return r.Status == http.StatusBadRequest || r.Status == http.StatusRequestEntityTooLarge || r.Status == http.StatusUnprocessableEntity
}

// Unusable is an answer that cannot be used.
type Unusable struct{ Problem string }

// Error says why.
func (e *Unusable) Error() string { return "its answer cannot be used: " + e.Problem }

func retryAfter(h http.Header) time.Duration {
	v := h.Get("Retry-After")
	if seconds, err := strconv.Atoi(v); err == nil && seconds > 0 {
		return time.Duration(min(seconds, 86400)) * time.Second
	}
	if at, err := http.ParseTime(v); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}

// Secret is a key of an endpoint.
type Secret = hidden.Text

// CheckURL says why a URL cannot be asked, without repeating it: it may hold a password.
func CheckURL(raw string) error {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return errors.New("is not a URL; write it like http://127.0.0.1:8080/v1")
	case u.User != nil:
		return errors.New("holds a name or password; give the key by the setting for it")
	case u.RawQuery != "" || u.Fragment != "":
		return errors.New("has a query or fragment, which an OpenAI-compatible endpoint does not know; give the key by the setting for it")
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return errors.New("must begin with http:// or https:// and name a host")
	}
	return nil
}

var versioned = regexp.MustCompile(`/v[0-9]+$`)

// Versioned is a URL that CheckURL accepts, with /v1 if it has no version.
func Versioned(raw string) string {
	raw = strings.TrimRight(raw, "/")
	for _, path := range []string{"/embeddings", "/chat/completions"} {
		raw = strings.TrimSuffix(raw, path)
	}
	if !versioned.MatchString(raw) {
		raw += "/v1"
	}
	return raw
}

// ChatRequest asks for a completion. Zero values are left out, except of Temperature.
type ChatRequest struct {
	Model               string    `json:"model"`
	Messages            []Message `json:"messages"`
	Temperature         float64   `json:"temperature"`
	TopP                float64   `json:"top_p,omitempty"`
	MaxTokens           int       `json:"max_tokens,omitempty"`
	MaxCompletionTokens int       `json:"max_completion_tokens,omitempty"` // the name that OpenAI's newer models take
	ResponseFormat      *Format   `json:"response_format,omitempty"`
	Tools               []Tool    `json:"tools,omitempty"`
}

// Message is one of a chat. Content may be null beside tool calls.
type Message struct {
	Role       string     `json:"role"` // system, user, assistant or tool
	Content    string     `json:"content"`
	Refusal    string     `json:"refusal,omitempty"`
	ToolCalls  []ToolCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
}

// Format is how the answer is to be given: "json_object", or "json_schema" with a schema.
type Format struct {
	Type       string      `json:"type"`
	JSONSchema *JSONSchema `json:"json_schema,omitempty"`
}

// JSONSchema is the schema of an answer.
type JSONSchema struct {
	Name   string          `json:"name"`
	Schema json.RawMessage `json:"schema"`
}

// Tool is a function that the model may call.
type Tool struct {
	Type     string   `json:"type"` // function
	Function Function `json:"function"`
}

// Function describes what a Tool does and takes.
type Function struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"`
}

// ToolCall is a call that the model asks for.
type ToolCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"` // JSON
	} `json:"function"`
}

// ChatReply is a completion.
type ChatReply struct {
	Model   string   `json:"model"`
	Choices []Choice `json:"choices"`
	Usage   struct {
		PromptTokens     int `json:"prompt_tokens"`
		CompletionTokens int `json:"completion_tokens"`
		TotalTokens      int `json:"total_tokens"`
	} `json:"usage"`
}

// Choice is one answer of the model.
type Choice struct {
	Message      Message `json:"message"`
	FinishReason string  `json:"finish_reason"`
}

// FinishLength is the FinishReason of an answer that was cut off.
const FinishLength = "length"

// EmbeddingRequest asks for the vectors of texts.
type EmbeddingRequest struct {
	Input      []string `json:"input"`
	Model      string   `json:"model"`
	Dimensions int      `json:"dimensions,omitempty"`
}

// Embedding is the vector of the text with that index.
type Embedding struct {
	Index  int       `json:"index"`
	Vector []float32 `json:"embedding"`
}
