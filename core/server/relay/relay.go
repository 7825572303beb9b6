package relay

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

// sessionHeader has the id of a session.
const sessionHeader = "Mcp-Session-Id"

// separator is between the id of the replica and the rest of the id of a session.
const separator = "."

// connectTime is how long another replica may take to accept a connection.
const connectTime = 2 * time.Second

// Config of a Relay. Everything is required.
type Config struct {
	// ID of this replica.
	ID string
	// Address returns where the replica with an id is reached; false: it is not there.
	Address func(ctx context.Context, id string) (string, bool)
	// Keys that all replicas share; the first one signs.
	Keys [][32]byte
	// Gone replies that a session does not exist.
	Gone http.HandlerFunc
}

// Relay passes requests on and accepts those that others pass on.
type Relay struct {
	cfg  Config
	keys [][]byte
	log  *slog.Logger
	wire *http.Transport
}

// New returns a relay. It connects to nothing before a request has to be passed on.
func New(cfg Config, log *slog.Logger) (*Relay, error) {
	keys, err := markKeys(cfg.Keys)
	if err != nil {
		return nil, fmt.Errorf("relay: %w", err)
	}
	return &Relay{cfg: cfg, keys: keys, log: log, wire: &http.Transport{
		// No proxy of the environment: replicas reach each other directly.
		DialContext: (&net.Dialer{Timeout: connectTime}).DialContext, TLSHandshakeTimeout: 2 * connectTime,
		MaxIdleConns: 1024, MaxIdleConnsPerHost: 256,
		IdleConnTimeout:    time.Minute, // less than the other end's, which must not be the first to close
		DisableCompression: true,
	}}, nil
}

// Close ends the connections that nothing uses.
func (r *Relay) Close() { r.wire.CloseIdleConnections() }

// NewSessionID returns an id for a session of this replica.
func (r *Relay) NewSessionID() string { return r.cfg.ID + separator + rand.Text() }

// Pass passes requests of sessions that other replicas hold on to them, and all others
// to local. It expects the address of the client as the request's RemoteAddr, and limits
// of rate and size to be checked before.
func (r *Relay) Pass(local http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if passedOn(req) {
			local.ServeHTTP(w, req) // never a second time
			return
		}
		owner, _, named := strings.Cut(req.Header.Get(sessionHeader), separator)
		if !named || owner == r.cfg.ID {
			local.ServeHTTP(w, req)
			return
		}
		address, ok := r.cfg.Address(req.Context(), owner)
		if !ok {
			local.ServeHTTP(w, req)
			return
		}
		to, err := url.Parse(address)
		if err != nil {
			r.log.ErrorContext(req.Context(), "the address of a replica cannot be read", "replica", owner, "error", err)
			r.cfg.Gone(w, req)
			return
		}
		r.forward(w, req, owner, to)
	})
}

// forward passes a request on to its owner.
func (r *Relay) forward(w http.ResponseWriter, req *http.Request, owner string, to *url.URL) {
	client := ""
	if at, err := netip.ParseAddrPort(req.RemoteAddr); err == nil {
		client = at.Addr().Unmap().String()
	}
	proxy := &httputil.ReverseProxy{
		Transport: r.wire, FlushInterval: -1, ErrorLog: slog.NewLogLogger(r.log.Handler(), slog.LevelDebug),
		Rewrite: func(p *httputil.ProxyRequest) { // has removed Forwarded and X-Forwarded-*
			p.SetURL(to)
			p.Out.Host = p.In.Host // which both replicas are called by
			p.Out.Header.Set(markHeader, r.sign(mark{to: owner, client: client, at: time.Now()}, p.In))
		},
		ModifyResponse: func(res *http.Response) error {
			for name := range w.Header() { // the guards of both replicas set the same ones
				res.Header.Del(name)
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, req *http.Request, err error) { r.failed(w, req, owner, err) },
	}
	proxy.ServeHTTP(w, req)
}

// failed replies to a request that could not be passed on.
func (r *Relay) failed(w http.ResponseWriter, req *http.Request, owner string, err error) {
	if req.Context().Err() != nil {
		return // the client has gone
	}
	r.log.WarnContext(req.Context(), "a request could not be passed on to the replica of its session", "replica", owner, "error", err)
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" {
		// The client begins a new session, and the run continues there.
		r.cfg.Gone(w, req)
		return
	}
	// It may have been served. A repeat gets the recorded reply.
	w.Header().Set("Retry-After", "1")
	http.Error(w, "the replica of this session did not reply: repeat the call", http.StatusBadGateway)
}
