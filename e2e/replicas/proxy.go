package replicas

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"
)

// Proxy sends each request to the next server, whatever the request is. A server that
// accepts no connection is passed over, as any proxy does; what fails later fails.
type Proxy struct {
	*httptest.Server
	wire    *http.Transport
	servers []*Server

	mu     sync.Mutex // guards the fields below
	next   int
	pinned int // the only server that gets requests; -1: all do
	served []int
}

func startProxy(t testing.TB, servers []*Server) *Proxy {
	t.Helper()
	p := &Proxy{servers: servers, served: make([]int, len(servers)), pinned: -1, wire: &http.Transport{MaxIdleConnsPerHost: 64}}
	p.Server = httptest.NewServer(p)
	t.Cleanup(func() {
		p.CloseClientConnections()
		p.Close()
		p.wire.CloseIdleConnections()
	})
	return p
}

// Pin sends all requests to one server until it is called with -1.
func (p *Proxy) Pin(server int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pinned = server
}

// Served is how many requests each server got.
func (p *Proxy) Served() []int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]int(nil), p.served...)
}

// turn returns the next server.
func (p *Proxy) turn() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pinned >= 0 {
		return p.pinned
	}
	p.next = (p.next + 1) % len(p.servers)
	return p.next
}

// ServeHTTP implements http.Handler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	for range p.servers {
		if p.pass(w, r, body, p.turn()) {
			return
		}
	}
	http.Error(w, "no server accepts connections", http.StatusBadGateway)
}

// pass passes a request on to a server. It returns false if that accepts no connection.
func (p *Proxy) pass(w http.ResponseWriter, r *http.Request, body []byte, server int) (passed bool) {
	passed = true
	r = r.Clone(r.Context())
	r.Body = io.NopCloser(bytes.NewReader(body))
	(&httputil.ReverseProxy{
		Transport: p.wire, FlushInterval: -1,
		Rewrite: func(pr *httputil.ProxyRequest) {
			pr.SetURL(&url.URL{Scheme: "http", Host: p.servers[server].Address})
			pr.SetXForwarded()
		},
		ModifyResponse: func(*http.Response) error {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.served[server]++
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			var dial *net.OpError
			if errors.As(err, &dial) && dial.Op == "dial" {
				passed = false
				return
			}
			http.Error(w, err.Error(), http.StatusBadGateway)
		},
	}).ServeHTTP(w, r)
	return passed
}
