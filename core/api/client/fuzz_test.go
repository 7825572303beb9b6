package client_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/api/client"
)

// saying answers every request in the same way, without a network.
type saying struct {
	status int
	media  string
	body   string
}

func (s saying) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		_ = r.Body.Close()
	}
	return &http.Response{
		Status: http.StatusText(s.status), StatusCode: s.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {s.media}, "Location": {s.body}}, Body: io.NopCloser(strings.NewReader(s.body)), Request: r,
	}, nil
}

// FuzzReplies answers with anything: the client takes it for a reply, or
// returns an error that does not show the token.
func FuzzReplies(f *testing.F) {
	for _, body := range []string{
		``, `{}`, `null`, `[]`, `{"choices":null}`, `{"error":"NOT_FOUND","message":"m","next_call":{"tool":1}}`, `{"error":{}}`,
		`{"must_obey":"x","challenge":[],"solved":{}}`, "<html>\x1b[31m", `{"items":[{"uri":1e400}]}`, strings.Repeat("[", 1000), "\xff\x00",
	} {
		for _, status := range []int{200, 404, 429, 500, 302} {
			f.Add(status, "application/json", body)
		}
		f.Add(200, "text/html", body)
	}
	f.Fuzz(func(t *testing.T, status int, media, body string) {
		if status < 200 || status > 599 {
			return
		}
		c, err := client.New("http://127.0.0.1:1", token, &http.Client{Transport: saying{status, media, body}})
		if err != nil {
			t.Fatal(err)
		}
		ctx := t.Context()
		_, searched := api.Search.Call(ctx, c, api.SearchRequest{Query: "x"})
		_, begun := api.Begin.Call(ctx, c, api.BeginRequest{URI: uri})
		_, next := api.Next.Call(ctx, c, api.NextRequest{URI: uri})
		_, attested := api.Attest.Call(ctx, c, api.AttestRequest{URI: uri, Outcome: "success", Message: "m"})
		_, minted := api.Mint.Call(ctx, c, api.MintRequest{Document: "# A"})
		_, dumped := api.Dump.Call(ctx, c, api.DumpRequest{URI: uri, Protocol: true})
		_, listed := api.Spaces.Call(ctx, c, api.SpacesRequest{})
		for _, err := range []error{searched, begun, next, attested, minted, dumped, listed} {
			if err == nil {
				continue
			}
			if text := err.Error(); strings.Contains(text, token) && !strings.Contains(body, token) || len(text) > 20_000+4*len(body) {
				t.Errorf("%d %q: %.500s", status, body, text)
			}
		}
	})
}
