package rest

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/server/operations"
	"github.com/kairos-mcp/kairos/core/server/toolset"
)

// rememberFor is how long a look at the parts of the server stays good: probes
// are not to be a burden, however many ask.
const rememberFor = time.Second

// probeTime bounds a look at the parts of the server.
const probeTime = 5 * time.Second

// remembered is the result of a look that is not repeated too often.
type remembered[T any] struct {
	mu   sync.Mutex // guards the fields below, and is held while looking
	at   time.Time
	last T
}

func (m *remembered[T]) of(ctx context.Context, look func(context.Context) T) T {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.at.IsZero() || time.Since(m.at) >= rememberFor {
		// The caller may leave; others wait for the same answer.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeTime)
		defer cancel()
		m.last, m.at = look(ctx), time.Now()
	}
	return m.last
}

// The words of /health. Clients wait for the first one.
const (
	isHealthy   = "healthy"
	isDegraded  = "degraded"
	isUnhealthy = "unhealthy"
)

// notConfigured is said in the details of a component that is healthy only
// because there is none: the contract has no other word for its state.
const notConfigured = "not configured"

func word(err error) string {
	if err != nil {
		return isUnhealthy
	}
	return isHealthy
}

// status tells of the server: what it is, what it serves and whether it can.
type status struct {
	cfg     Config
	network network
	began   time.Time
	ending  context.Context // ends when the server drains
	log     *slog.Logger

	health remembered[Health]
	ready  remembered[error]
}

// healthy tells of the server and what it depends on, by the names of the
// earlier server: qdrant is the store of the protocols and the index beside it, and
// redis never fails, because there is none. The details say what is not configured.
func (s *status) healthy(c *call) {
	var h Health
	if s.cfg.Health != nil {
		h = s.health.of(c.r.Context(), s.cfg.Health)
	}
	code, overall := http.StatusOK, isHealthy
	switch {
	case h.Store != nil:
		code, overall = http.StatusServiceUnavailable, isUnhealthy
	case h.Embedding != nil || h.Index != nil:
		overall = isDegraded
	}
	details := map[string]any{"provider": h.Provider, "providerPref": h.Preferred, "embedding": "ok", "redis": notConfigured + "; this server has no use for it"}
	switch {
	case !h.Indexed:
		details["qdrant"] = notConfigured + "; the database alone is searched"
	case h.Index != nil:
		details["qdrant"] = "the index is not up to date, so the database alone is searched: " + messageOf(h.Index)
	}
	switch {
	case h.Provider == "" || h.Provider == "none":
		details["embedding"] = notConfigured + "; words alone are compared"
	case h.Embedding != nil:
		details["embedding"] = "does not answer; words alone are compared"
	}
	if h.Store != nil {
		details["store"] = messageOf(h.Store)
	}
	c.json(code, map[string]any{
		"status": overall, "service": "KAIROS", "version": s.cfg.Version, "transport": "http",
		"uptime":       int64(time.Since(s.began).Seconds()),
		"dependencies": map[string]string{"qdrant": word(cmp.Or(h.Store, h.Index)), "redis": isHealthy, "embedding": word(h.Embedding)},
		"details":      details,
	})
}

// alive: the process answers.
func (s *status) alive(c *call) { c.json(http.StatusOK, map[string]string{"status": "ok"}) }

// isReady: calls can be served.
func (s *status) isReady(c *call) {
	if s.ending.Err() != nil {
		c.json(http.StatusServiceUnavailable, map[string]string{"status": "unready", "reason": "the server is stopping"})
		return
	}
	var err error
	if s.cfg.Ready != nil {
		err = s.ready.of(c.r.Context(), s.cfg.Ready)
	}
	if err != nil {
		s.log.WarnContext(c.r.Context(), "not ready", "error", err)
		c.json(http.StatusServiceUnavailable, map[string]string{"status": "unready", "reason": messageOf(err)})
		return
	}
	c.json(http.StatusOK, map[string]string{"status": "ready"})
}

// card says what is here to whoever opens the address.
func (s *status) card(c *call) {
	endpoints := struct {
		MCP    string `json:"mcp,omitempty"`
		API    string `json:"api"`
		Health string `json:"health"`
		Live   string `json:"live"`
		Ready  string `json:"ready"`
	}{API: "/api", Health: "/health", Live: "/healthz", Ready: "/readyz"}
	if s.cfg.MCP != nil {
		endpoints.MCP = mcpPath
	}
	c.json(http.StatusOK, map[string]any{"service": "KAIROS", "version": s.cfg.Version, "endpoints": endpoints})
}

// apiCard lists what REST serves.
func (s *status) apiCard(c *call) {
	endpoints := map[string]string{"snapshot": "POST /api/snapshot"}
	for _, t := range toolset.Table {
		endpoints[t.Name] = "POST " + t.Path()
	}
	if s.cfg.Operations != nil {
		for _, o := range operations.Table {
			endpoints[o.Name] = "POST " + o.Path()
		}
	}
	if s.cfg.Tools != nil {
		endpoints["openapi"] = "GET /api/openapi.json"
	}
	c.json(http.StatusOK, map[string]any{"service": "KAIROS API", "version": s.cfg.Version, "endpoints": endpoints})
}

// resourcePath is where RFC 9728 has a resource describe itself.
const resourcePath = "/.well-known/oauth-protected-resource"

// scopes are those that clients ask for at an authorization server.
var scopes = []string{"openid"}

// protectedResource describes the MCP endpoint as a resource (RFC 9728). Without an identity
// provider no authorization server makes tokens for it: operators do.
func (s *status) protectedResource(c *call) {
	resource, servers := s.network.base(c.r)+mcpPath, []string{}
	if issuer := s.cfg.Issuer; issuer != "" {
		servers = []string{issuer}
		if strings.Contains(s.cfg.Audience, "://") { // else the provider has another word for this server
			resource = s.cfg.Audience
		}
	}
	c.json(http.StatusOK, map[string]any{
		"resource":                         resource,
		"resource_name":                    "KAIROS",
		"authorization_servers":            servers,
		"scopes_supported":                 scopes,
		"bearer_methods_supported":         []string{"header"},
		"authorization_request_parameters": map[string]string{"prompt": "login"},
	})
}

// snapshot answers clients of the earlier server, which copied its store when asked to.
func snapshot(c *call) {
	c.json(http.StatusAccepted, map[string]any{
		"status": "skipped", "target": "qdrant", "durationMs": c.ms(),
		"message": "This server makes no snapshots: back up the database. An index in Qdrant is made from it at any time.",
	})
}

// noLogin answers where a login would begin and end.
func (s *status) noLogin(c *call) {
	message := "This server has no login."
	if s.cfg.Identify != nil {
		message = "This server has no login in a browser: its operator makes tokens with `kairos token create`."
	}
	c.refuse(fault.LoginNotConfigured, "%s", message)
}
