package embedding

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	openai "github.com/sashabaranov/go-openai"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// refusal is an answer with a status other than 200 OK.
type refusal struct {
	status  int
	message string // of the endpoint, sanitised
	// after is the Retry-After of the endpoint; zero: none.
	after time.Duration
}

func (r *refusal) Error() string {
	text := fmt.Sprintf("it answers %d %s", r.status, http.StatusText(r.status))
	if r.message != "" {
		text += ": " + r.message
	}
	switch {
	case r.status == http.StatusUnauthorized || r.status == http.StatusForbidden:
		text += " (is the API key right?)"
	case r.status == http.StatusNotFound:
		text += " (are url and model right?)"
	case r.status >= 300 && r.status < 400:
		text += " (redirects are not followed; give the url it leads to)"
	}
	return text
}

// passing reports whether the same request may succeed a little later.
func (r *refusal) passing() bool {
	return r.status == http.StatusTooManyRequests || r.status >= 500
}

// content reports whether this request was refused because of its content.
func (r *refusal) content() bool {
	return r.status == http.StatusBadRequest || r.status == http.StatusRequestEntityTooLarge || r.status == http.StatusUnprocessableEntity
}

// invalid is an answer that cannot be used.
type invalid struct{ problem string }

func (e *invalid) Error() string { return "its answer cannot be used: " + e.problem }

// doer sends the requests of the client library. It limits the size of the answer
// and turns every status but 200 into an error with the details that the library
// would drop.
type doer struct {
	http *http.Client
	key  Secret
}

func newDoer(key Secret) doer {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 4
	return doer{&http.Client{
		Transport: transport,
		// A redirect could send the texts and the key elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, key}
}

// Do implements openai.HTTPDoer.
func (d doer) Do(req *http.Request) (*http.Response, error) {
	res, err := d.http.Do(req)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err // the operator knows the method and the URL
		}
		return nil, err
	}
	if res.StatusCode == http.StatusOK {
		limit, _ := req.Context().Value(limitKey{}).(int64)
		res.Body = &bounded{res.Body, limit}
		return res, nil
	}
	defer func() { _ = res.Body.Close() }()
	// A truncated error message is still the error.
	text, _ := io.ReadAll(io.LimitReader(res.Body, 4096))
	return nil, &refusal{res.StatusCode, d.clean(string(text)), retryAfter(res.Header)}
}

// clean sanitises a message of the endpoint for logs: one short line without the
// key.
func (d doer) clean(text string) string {
	if d.key != "" {
		text = strings.ReplaceAll(text, string(d.key), hidden)
	}
	text = plain.Line(strings.Join(strings.Fields(text), " "))
	if r := []rune(text); len(r) > 300 {
		text = string(r[:300]) + "..."
	}
	return text
}

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

// limitKey passes the largest size of the answer, in bytes, through the library.
type limitKey struct{}

var errTooLong = &invalid{"it is far longer than vectors can be"}

type bounded struct {
	io.ReadCloser
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooLong
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

// maxAnswer is more bytes than the vectors of this many texts take.
func maxAnswer(texts int) int64 {
	const number, most = 32, 128 << 20
	return min(64<<10+int64(texts)*number*maxDimension, most)
}

// once sends one request and notifies the observer.
func (c *Client) once(ctx context.Context, texts []string) ([][]float32, error) {
	began := time.Now()
	out, err := c.request(ctx, texts)
	c.requested(access.SpaceOf(ctx), len(texts), out, time.Since(began), err)
	return out, err
}

// request sends one request and validates the answer.
func (c *Client) request(ctx context.Context, texts []string) ([][]float32, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	ctx = context.WithValue(ctx, limitKey{}, maxAnswer(len(texts)))
	req := openai.EmbeddingRequest{Input: texts, Model: openai.EmbeddingModel(c.cfg.Model)}
	if c.cfg.AskDimension {
		req.Dimensions = c.cfg.Dimension
	}
	res, err := c.api.CreateEmbeddings(ctx, req)
	if err != nil {
		return nil, c.explain(ctx, err)
	}
	return ordered(res.Data, len(texts))
}

// explain classifies the failure of a request.
func (c *Client) explain(ctx context.Context, err error) error {
	var r *refusal
	var i *invalid
	switch {
	case errors.As(err, &r), errors.As(err, &i):
		return err
	case ctx.Err() != nil:
		return fmt.Errorf("it did not answer in time: %w", ctx.Err())
	case notJSON(err):
		return &invalid{"it is not what /v1/embeddings answers: " + c.doer.clean(err.Error())}
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("its answer breaks off: %w", err)
	}
	return fmt.Errorf("it cannot be reached: %w", err)
}
