package soak_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/kairos-mcp/kairos/e2e/play"
)

// losing is a proxy that loses answers of clients: each gets a 502, and the server gets
// nothing.
type losing struct {
	*httputil.ReverseProxy
	toLose, initialized atomic.Int32
}

func (l *losing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	var m struct {
		Method string          `json:"method"`
		Result json.RawMessage `json:"result"`
	}
	_ = json.Unmarshal(body, &m) // a GET has no body
	switch {
	case m.Method == "initialize":
		l.initialized.Add(1)
	case m.Result != nil && l.toLose.Add(-1) >= 0:
		http.Error(w, "lost", http.StatusBadGateway)
		return
	}
	l.ReverseProxy.ServeHTTP(w, r)
}

// An answer of a person is lost, which the client does not notice: its call waits on. It
// is asked for again, twice if that answer is lost, too.
func TestAnAnswerThatAProxyLosesIsAskedForAgainInTheSameSession(t *testing.T) {
	s := play.NewServer(t, bin)
	s.Configure("data/kairos.db", "mcp: {wait: 200ms}\n")
	uri := s.Prepare()
	proxy := &losing{ReverseProxy: httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: s.Address})}
	proxy.FlushInterval = -1
	front := httptest.NewServer(proxy)
	defer front.Close()
	s.Front = front.Listener.Addr().String()

	ledger := play.NewLedger()
	p := play.NewPlayer(t, s, ledger, play.NewPoints(), 0, uri)
	for lose := range int32(3) {
		proxy.toLose.Store(lose)
		p.Run()
		if left := proxy.toLose.Load(); left >= 0 {
			t.Errorf("%d answers were not lost", left+1)
		}
	}
	p.Leave()
	if n := proxy.initialized.Load(); n != 1 {
		t.Errorf("the client began %d sessions, want 1", n)
	}
	ledger.Check(t, s)
}
