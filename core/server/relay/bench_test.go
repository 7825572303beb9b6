package relay_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/server/relay"
)

// BenchmarkPass compares a request that the first replica serves with one that it passes
// on. The second one is two requests over HTTP.
func BenchmarkPass(b *testing.B) {
	c := cluster{}
	body := strings.Repeat("x", 1024)
	replica := func(id string) (*relay.Relay, *httptest.Server) {
		r, err := relay.New(relay.Config{ID: id, Address: c.address, Keys: [][32]byte{{1}}, Gone: gone}, slog.New(slog.DiscardHandler))
		if err != nil {
			b.Fatal(err)
		}
		s := httptest.NewServer(r.Accept(r.Pass(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) }))))
		b.Cleanup(s.Close)
		c[id] = s.URL
		return r, s
	}
	one, at := replica("one")
	other, _ := replica("other")
	for name, session := range map[string]string{"served": one.NewSessionID(), "passed on": other.NewSessionID()} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, at.URL+"/mcp", strings.NewReader(body))
				if err != nil {
					b.Fatal(err)
				}
				req.Header.Set("Mcp-Session-Id", session)
				res, err := at.Client().Do(req)
				if err != nil || res.StatusCode != http.StatusOK {
					b.Fatal(res, err)
				}
				_ = res.Body.Close()
			}
		})
	}
}
