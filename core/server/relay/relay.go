package relay

import (
	"context"
	"errors"
	"fmt"
	"io"
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
	// Holders returns the replicas that may hold a session which began at the owner: the owner
	// if it is there, and then the others in the order in which they take the session over,
	// which is the same at every replica. This replica is one of them.
	Holders func(ctx context.Context, owner, session string) []Holder
	// Keys that all replicas share; the first one signs.
	Keys [][32]byte
}

// Holder is a replica that may hold a session.
type Holder struct{ ID, Address string }

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

// Pass passes requests of sessions that other replicas hold on to them, and all others
// to local. A replica that cannot be reached has ended, and the next one takes the session
// over. It expects the address of the client as the request's RemoteAddr, and limits
// of rate and size to be checked before.
func (r *Relay) Pass(local http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if passedOn(req) {
			local.ServeHTTP(w, req) // never a second time
			return
		}
		owner, session, named := strings.Cut(req.Header.Get(sessionHeader), separator)
		if !named || owner == r.cfg.ID {
			local.ServeHTTP(w, req)
			return
		}
		for _, h := range r.cfg.Holders(req.Context(), owner, session) {
			if h.ID == r.cfg.ID {
				break
			}
			if r.forward(w, req, h) {
				return
			}
		}
		local.ServeHTTP(w, req)
	})
}

// forward passes a request on to a replica, and reports false if that has ended: the request
// is as it was.
func (r *Relay) forward(w http.ResponseWriter, req *http.Request, holder Holder) (done bool) {
	to, err := url.Parse(holder.Address)
	if err != nil {
		r.log.ErrorContext(req.Context(), "the address of a replica cannot be read", "replica", holder.ID, "error", err)
		return false
	}
	done = true
	client := ""
	if at, err := netip.ParseAddrPort(req.RemoteAddr); err == nil {
		client = at.Addr().Unmap().String()
	}
	proxy := &httputil.ReverseProxy{
		Transport: r.wire, FlushInterval: -1, ErrorLog: slog.NewLogLogger(r.log.Handler(), slog.LevelDebug),
		Rewrite: func(p *httputil.ProxyRequest) { // has removed Forwarded and X-Forwarded-*
			p.SetURL(to)
			p.Out.Host = p.In.Host // which both replicas are called by
			p.Out.Header.Set(markHeader, r.sign(mark{to: holder.ID, client: client, at: time.Now()}, p.In))
		},
		ModifyResponse: func(res *http.Response) error {
			for name := range w.Header() { // the guards of both replicas set the same ones
				res.Header.Del(name)
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, req *http.Request, err error) { done = r.failed(w, req, holder, err) },
	}
	attempt := req.WithContext(req.Context())
	attempt.Body = io.NopCloser(req.Body) // a further replica may have to read it
	proxy.ServeHTTP(w, attempt)
	return done
}

// failed replies to a request that could not be passed on, unless nothing was sent, because
// the replica cannot be reached: then it reports false.
func (r *Relay) failed(w http.ResponseWriter, req *http.Request, holder Holder, err error) (replied bool) {
	if req.Context().Err() != nil {
		return true // the client has gone
	}
	r.log.WarnContext(req.Context(), "a request could not be passed on to the replica of its session", "replica", holder.ID, "error", err)
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" {
		return false
	}
	// It may have been served. A repeat gets the recorded reply.
	w.Header().Set("Retry-After", "1")
	http.Error(w, "the replica of this session did not reply: repeat the call", http.StatusBadGateway)
	return true
}
