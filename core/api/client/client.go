// Package client calls the nine tools of a KAIROS server over its REST interface:
// it encodes, sends and decodes. It holds no rule of a call, and it is not an MCP
// client.
package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/fault"
)

// Codes of errors that no server sent.
const (
	// Unreachable: nothing answers at the URL.
	Unreachable fault.Code = "SERVER_UNREACHABLE"
	// Unexpected: what answers does not answer as a KAIROS server does.
	Unexpected fault.Code = "UNEXPECTED_REPLY"
)

const (
	maxReply    = 32 << 20 // bytes of one reply
	dialTimeout = 10 * time.Second
	callTimeout = 5 * time.Minute // a large document is judged step by step
)

// Token is a bearer token. It does not show itself in logs and errors.
type Token string

func (Token) String() string { return "(hidden)" }

// GoString implements fmt.GoStringer.
func (Token) GoString() string { return "(hidden)" }

// LogValue implements slog.LogValuer.
func (Token) LogValue() slog.Value { return slog.StringValue("(hidden)") }

// Client makes the calls. It may be used concurrently.
type Client struct {
	base *url.URL
	http *http.Client
	// authorize adds the token: a function, because formatting the client would
	// show a field.
	authorize func(http.Header)
}

// New returns a client of the server at the address, such as
// http://127.0.0.1:3300. An empty token is not sent. A nil HTTP client means one
// with time limits; in either case redirects to other hosts are refused.
func New(address string, token Token, hc *http.Client) (*Client, error) {
	base, err := url.Parse(strings.TrimSpace(address))
	if err != nil {
		return nil, fault.New(fault.InvalidArgument, "the URL of the server cannot be read").WithNext("%s", wantedURL)
	}
	if base.User != nil {
		return nil, fault.New(fault.InvalidArgument, "the URL of the server must hold no user and no password").
			WithNext("set KAIROS_BEARER_TOKEN instead")
	}
	if base.Scheme != "http" && base.Scheme != "https" || base.Host == "" || base.RawQuery != "" || base.Fragment != "" {
		return nil, fault.New(fault.InvalidArgument, "%.200q is no URL of a server", address).WithNext("%s", wantedURL)
	}
	token = Token(strings.TrimSpace(string(token)))
	if strings.ContainsFunc(string(token), func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, fault.New(fault.InvalidArgument, "the bearer token holds a character that cannot be sent")
	}
	if hc == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.DialContext = (&net.Dialer{Timeout: dialTimeout}).DialContext
		hc = &http.Client{Transport: t, Timeout: callTimeout}
	}
	own := *hc
	own.CheckRedirect = sameHost
	authorize := func(h http.Header) {
		if token != "" {
			h.Set("Authorization", "Bearer "+string(token))
		}
	}
	return &Client{base: base, http: &own, authorize: authorize}, nil
}

const wantedURL = "give an address such as http://127.0.0.1:3300"

// redirected is a redirect that is not followed.
type redirected struct{ to string }

func (r *redirected) Error() string { return "redirect to " + r.to }

// sameHost follows redirects within the server only, and none that would turn
// the call into another one: token and documents go where the user said.
func sameHost(next *http.Request, via []*http.Request) error {
	first := via[0]
	if next.URL.Scheme != first.URL.Scheme || next.URL.Host != first.URL.Host || next.Method != first.Method || len(via) > 5 {
		return &redirected{to: next.URL.Scheme + "://" + next.URL.Host + next.URL.EscapedPath()}
	}
	return nil
}

// Search calls kairos_search.
func (c *Client) Search(ctx context.Context, in api.SearchRequest) (api.SearchReply, error) {
	return call[api.SearchReply](ctx, c, "kairos_search", struct {
		Query   string   `json:"query"`
		Queries []string `json:"queries,omitempty"`
		Space   string   `json:"space,omitempty"`
		Limit   int      `json:"limit,omitempty"`
	}{in.Query, in.Queries, in.Space, in.Limit})
}

// Begin calls kairos_begin.
func (c *Client) Begin(ctx context.Context, in api.BeginRequest) (api.StepReply, error) {
	return step(ctx, c, "kairos_begin", struct {
		URI       string          `json:"uri"`
		Input     json.RawMessage `json:"input,omitempty"`
		SessionID string          `json:"session_id,omitempty"`
		Roots     []string        `json:"roots,omitempty"`
	}{in.URI, in.Input, in.SessionID, in.Roots})
}

// Next calls kairos_next. What is wrong with a submission is part of the reply.
func (c *Client) Next(ctx context.Context, in api.NextRequest) (api.StepReply, error) {
	return step(ctx, c, "kairos_next", struct {
		URI      string          `json:"uri"`
		Solution json.RawMessage `json:"solution,omitempty"`
		RunID    string          `json:"run_id,omitempty"`
	}{in.URI, in.Solution, in.RunID})
}

// Attest calls kairos_attest.
func (c *Client) Attest(ctx context.Context, in api.AttestRequest) (api.AttestReply, error) {
	return call[api.AttestReply](ctx, c, "kairos_attest", struct {
		URI          string  `json:"uri"`
		Outcome      string  `json:"outcome"`
		Message      string  `json:"message"`
		QualityBonus float64 `json:"quality_bonus"`
		ModelID      string  `json:"llm_model_id,omitempty"`
		RunID        string  `json:"run_id,omitempty"`
	}{in.URI, in.Outcome, in.Message, in.QualityBonus, in.ModelID, in.RunID})
}

// Mint sends the document as it is.
func (c *Client) Mint(ctx context.Context, in api.MintRequest) (api.MintReply, error) {
	var reply api.MintReply
	r := request{name: "kairos_mint/raw", contentType: "text/markdown; charset=utf-8", body: []byte(in.Document), header: http.Header{}}
	if in.ModelID != "" {
		r.header.Set("X-Llm-Model-Id", in.ModelID)
	}
	if in.Force {
		r.header.Set("X-Force-Update", "true")
	}
	if in.Space != "" {
		r.query = url.Values{"space": {in.Space}}
	}
	return reply, c.do(ctx, r, &reply)
}

// Update calls kairos_update.
func (c *Client) Update(ctx context.Context, in api.UpdateRequest) (api.UpdateReply, error) {
	return call[api.UpdateReply](ctx, c, "kairos_update", struct {
		URIs      []string        `json:"uris"`
		Documents []string        `json:"markdown_doc,omitempty"`
		Updates   json.RawMessage `json:"updates,omitempty"`
	}{in.URIs, in.Documents, in.Updates})
}

// Delete calls kairos_delete.
func (c *Client) Delete(ctx context.Context, in api.DeleteRequest) (api.DeleteReply, error) {
	return call[api.DeleteReply](ctx, c, "kairos_delete", struct {
		URIs []string `json:"uris"`
	}{in.URIs})
}

// Dump calls kairos_dump.
func (c *Client) Dump(ctx context.Context, in api.DumpRequest) (api.DumpReply, error) {
	return call[api.DumpReply](ctx, c, "kairos_dump", struct {
		URI   string `json:"uri"`
		Whole bool   `json:"protocol"`
	}{in.URI, in.Protocol})
}

// Spaces calls kairos_spaces.
func (c *Client) Spaces(ctx context.Context, in api.SpacesRequest) (api.SpacesReply, error) {
	return call[api.SpacesReply](ctx, c, "kairos_spaces", struct {
		Titles bool   `json:"include_chain_titles"`
		Limit  int    `json:"limit,omitempty"`
		Cursor string `json:"cursor,omitempty"`
	}{in.Titles, in.Limit, in.Cursor})
}

// request is one call as it is sent.
type request struct {
	name, contentType string
	query             url.Values
	header            http.Header
	body              []byte
}

// call sends JSON and returns the reply.
func call[Reply any](ctx context.Context, c *Client, name string, in any) (reply Reply, err error) {
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(in); err != nil {
		return reply, fault.Wrap(err, fault.InvalidArgument, "the arguments of %s cannot be sent", name)
	}
	err = c.do(ctx, request{name: name, contentType: "application/json", body: body.Bytes()}, &reply)
	return reply, err
}

// step is call for the calls whose errors may come as replies, too: one that
// shows no step is an error, as it is for who calls the engine.
func step(ctx context.Context, c *Client, name string, in any) (api.StepReply, error) {
	raw, err := call[json.RawMessage](ctx, c, name, in)
	if err != nil {
		return api.StepReply{}, err
	}
	var reply api.StepReply
	if err := json.Unmarshal(raw, &reply); err != nil {
		return api.StepReply{}, fault.New(Unexpected, "the reply of %s to %s is not what a KAIROS server sends: %v", c.base, name, err)
	}
	if reply.ErrorCode != "" && reply.CurrentStep.URI == "" {
		var fields map[string]any
		if err := json.Unmarshal(raw, &fields); err != nil {
			return api.StepReply{}, fault.New(Unexpected, "the reply of %s to %s is no JSON object", c.base, name)
		}
		return api.StepReply{}, faultOf(fields, "")
	}
	return reply, nil
}

func (c *Client) do(ctx context.Context, r request, to any) error {
	res, err := c.send(ctx, r)
	if err != nil {
		return err
	}
	if res.status/100 != 2 {
		return c.refusal(res)
	}
	if err := json.Unmarshal(res.body, to); err != nil || !isJSON(res) {
		return c.stranger(res)
	}
	return nil
}

// answer is what came back, read to its end.
type answer struct {
	status int
	text   string // of the status, such as "404 Not Found"
	header http.Header
	body   []byte
}

func (c *Client) send(ctx context.Context, r request) (answer, error) {
	u := *c.base
	u.Path = path.Join("/", u.Path, "api", r.name)
	u.RawQuery = r.query.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(r.body))
	if err != nil {
		return answer{}, c.unreachable(ctx, err)
	}
	for name, values := range r.header {
		req.Header[name] = values
	}
	req.Header.Set("Content-Type", r.contentType)
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "kairos-cli")
	c.authorize(req.Header)
	res, err := c.http.Do(req)
	if err != nil {
		return answer{}, c.unreachable(ctx, err)
	}
	defer func() { _ = res.Body.Close() }() // only read
	body, err := io.ReadAll(io.LimitReader(res.Body, maxReply+1))
	if err != nil {
		return answer{}, c.unreachable(ctx, err)
	}
	if len(body) > maxReply {
		return answer{}, fault.New(Unexpected, "the reply of %s has more than %d MiB", c.base, maxReply>>20)
	}
	return answer{res.StatusCode, res.Status, res.Header, body}, nil
}

// unreachable says why there is no reply, and what to do.
func (c *Client) unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("the call of %s was given up: %w", c.base, ctx.Err())
	}
	var away *redirected
	if errors.As(err, &away) {
		return fault.New(Unexpected, "%s redirects to %s, which is not followed: it would take token and documents elsewhere", c.base, away.to).
			WithNext("use the URL of the server itself, if that is the right one")
	}
	var whole *url.Error
	if errors.As(err, &whole) {
		err = whole.Err // without the URL, which the message has
	}
	var slow net.Error
	if errors.As(err, &slow) && slow.Timeout() {
		return fault.New(Unreachable, "no KAIROS server answers in time at %s: %v", c.base, err).
			WithNext("look whether the server is busy, and repeat the call")
	}
	return fault.New(Unreachable, "no KAIROS server answers at %s: %v", c.base, err).
		WithNext("start one with `kairos serve --http`, or name another with --url or KAIROS_API_URL")
}

// refusal is the error that the server replied with.
func (c *Client) refusal(res answer) error {
	var fields map[string]any
	if !isJSON(res) || json.Unmarshal(res.body, &fields) != nil {
		return c.stranger(res)
	}
	if text(fields, "error_code", "error") == "" || text(fields, "message") == "" && res.status == http.StatusNotFound {
		return c.stranger(res)
	}
	f := faultOf(fields, advice(res))
	if f.Message == "" {
		f.Message = res.text
	}
	return f
}

// faultOf is the error that the fields of a reply tell.
func faultOf(fields map[string]any, advice string) *fault.Error {
	f := fault.New(fault.Code(text(fields, "error_code", "error")), "%s", text(fields, "message"))
	f.NextAction = cmp.Or(text(fields, "next_action"), advice)
	if b, err := json.Marshal(fields["next_call"]); err == nil {
		_ = json.Unmarshal(b, &f.NextCall) // of another shape: there is none
	}
	for _, known := range []string{"error", "error_code", "message", "next_action", "next_call", "must_obey", "tried", "duration_ms", "metadata"} {
		delete(fields, known)
	}
	f.Details = fields
	return f
}

// text is the first of the fields that is a text.
func text(fields map[string]any, keys ...string) string {
	for _, key := range keys {
		if s, ok := fields[key].(string); ok && s != "" {
			return s
		}
	}
	return ""
}

// advice is for refusals that come before any call is looked at.
func advice(res answer) string {
	switch res.status {
	case http.StatusUnauthorized:
		return "set KAIROS_BEARER_TOKEN to a valid token of this server"
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		if s, err := strconv.Atoi(res.header.Get("Retry-After")); err == nil && s > 0 {
			return fmt.Sprintf("repeat the call in %d s", s)
		}
		return "repeat the call later"
	}
	return ""
}

// stranger: something answers, but no REST interface of KAIROS.
func (c *Client) stranger(res answer) error {
	return fault.New(Unexpected, "what answers at %s is no KAIROS server: %s %.100q", c.base, res.text, res.header.Get("Content-Type")).
		WithNext("look at --url and KAIROS_API_URL: the URL is that of the server, such as http://127.0.0.1:3300, without /mcp or /api")
}

func isJSON(res answer) bool {
	kind, _, err := mime.ParseMediaType(res.header.Get("Content-Type"))
	return err == nil && (kind == "application/json" || strings.HasSuffix(kind, "+json"))
}
