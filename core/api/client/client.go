// Package client carries calls of the tools to a KAIROS server over its REST
// interface. It knows no tool by name, and it is not an MCP client.
package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	"github.com/kairos-mcp/kairos/internal/hidden"
)

const (
	maxReply    = 32 << 20 // bytes of one reply
	dialTimeout = 10 * time.Second
	callTimeout = 5 * time.Minute // a large document is judged step by step
)

// Token is a bearer token.
type Token = hidden.Text

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
		return nil, fault.New(fault.InvalidArgument, "the URL of the server cannot be read").WithHint("%s", wantedURL)
	}
	if base.User != nil {
		return nil, fault.New(fault.InvalidArgument, "the URL of the server must hold no user and no password").
			WithHint("set KAIROS_BEARER_TOKEN instead")
	}
	if base.Scheme != "http" && base.Scheme != "https" || base.Host == "" || base.RawQuery != "" || base.Fragment != "" {
		return nil, fault.New(fault.InvalidArgument, "%.200q is not the URL of a server", address).WithHint("%s", wantedURL)
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

// Call implements api.Transport.
func (c *Client) Call(ctx context.Context, tool api.Declaration, arguments json.RawMessage) (json.RawMessage, error) {
	r := request{path: tool.Path(), contentType: "application/json", header: http.Header{}, body: arguments}
	if d := tool.Route.Document; d != nil {
		if err := r.split(d, arguments); err != nil {
			return nil, fault.Wrap(err, fault.InvalidArgument, "cannot send the arguments of %s", tool.Name)
		}
	}
	res, err := c.send(ctx, r)
	if err != nil {
		return nil, err
	}
	if res.status/100 != 2 {
		return nil, c.refusal(tool, res)
	}
	if !isJSON(res) || !json.Valid(res.body) {
		return nil, c.stranger(res)
	}
	return res.body, nil
}

// request is one call as it is sent.
type request struct {
	path, contentType string
	query             url.Values
	header            http.Header
	body              []byte
}

// split makes one of the arguments the body and the others parameters.
func (r *request) split(d *api.DocumentBody, arguments json.RawMessage) error {
	var fields map[string]any
	if err := json.Unmarshal(arguments, &fields); err != nil {
		return err
	}
	text, ok := fields[d.Field].(string)
	if !ok {
		return fmt.Errorf("%s is not a text", d.Field)
	}
	r.contentType, r.body, r.query = d.Media+"; charset=utf-8", []byte(text), url.Values{}
	for _, p := range d.Parameters {
		value, given := fields[p.Field]
		if !given || value == "" {
			continue
		}
		delete(fields, p.Field)
		if p.In == api.InHeader {
			r.header.Set(p.Name, fmt.Sprint(value))
			continue
		}
		r.query.Set(p.Name, fmt.Sprint(value))
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
	u.Path = path.Join("/", u.Path, r.path)
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
		return answer{}, fault.New(fault.UnexpectedReply, "the reply of %s has more than %d MiB", c.base, maxReply>>20)
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
		return fault.New(fault.UnexpectedReply, "%s redirects to %s, which is not followed: it would take token and documents elsewhere", c.base, away.to).
			WithHint("use the URL of the server itself, if that is the right one")
	}
	var whole *url.Error
	if errors.As(err, &whole) {
		err = whole.Err // without the URL, which the message has
	}
	var slow net.Error
	if errors.As(err, &slow) && slow.Timeout() {
		return fault.New(fault.ServerUnreachable, "no KAIROS server answers in time at %s: %v", c.base, err).
			WithHint("look whether the server is busy, and repeat the call")
	}
	return fault.New(fault.ServerUnreachable, "no KAIROS server answers at %s: %v", c.base, err)
}

// refusal is the error that the server replied with.
func (c *Client) refusal(tool api.Declaration, res answer) error {
	f := fault.FromReply(res.body)
	switch {
	case !isJSON(res) || f == nil:
		return c.stranger(res)
	case f.Message == "" && res.status == http.StatusNotFound:
		return fault.New(fault.UnexpectedReply, "the server at %s does not serve %s: http.operations is off there, or it is an older version of KAIROS", c.base, tool.Path()).
			WithHint("set http.operations in the configuration of the server, or update it; or check --url and KAIROS_API_URL: the URL ends before /mcp and /api")
	}
	f.Message, f.Hint = cmp.Or(f.Message, res.text), hint(res)
	return f
}

// hint is for refusals that come before any call is looked at.
func hint(res answer) string {
	switch res.status {
	case http.StatusUnauthorized:
		return "set KAIROS_BEARER_TOKEN to the token of this server, or to one that its operator makes with `kairos token create`; calls of operators need none from the user of the server on its machine"
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
	return fault.New(fault.UnexpectedReply, "the server at %s is not a KAIROS server: %s %.100q", c.base, res.text, res.header.Get("Content-Type"))
}

func isJSON(res answer) bool {
	kind, _, err := mime.ParseMediaType(res.header.Get("Content-Type"))
	return err == nil && (kind == "application/json" || strings.HasSuffix(kind, "+json"))
}
