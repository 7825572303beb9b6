package rest

import (
	"context"
	"net/http"
	"net/netip"
	"strings"

	"github.com/kairos-mcp/kairos/core/server/operations"
	"github.com/kairos-mcp/kairos/core/server/toolset"
)

// mcpPath is where the MCP endpoint is mounted.
const mcpPath = "/mcp"

// route is what is served at one path.
type route struct {
	pattern string
	methods []string // empty: the handler's own business
	handle  handler
	// open: for everybody, whoever calls and however many do. It must cost little.
	open bool
	// probe: asked every few seconds, so it is logged at debug level.
	probe bool
	// json: the body is one JSON text.
	json bool
}

// allow is the value of the Allow header.
func (r *route) allow() string {
	return strings.Join(append(r.methods[:len(r.methods):len(r.methods)], http.MethodOptions), ", ")
}

// table lists everything that is served.
func (a *API) table() map[string]*route {
	get := []string{http.MethodGet, http.MethodHead}
	post := []string{http.MethodPost}
	var list []*route
	if a.cfg.Approvals != nil {
		list = append(list, &route{pattern: approvePattern, methods: append(get[:2:2], post...), handle: a.page.serve})
	}
	if a.cfg.Engine != nil {
		list = append(list, a.engineRoutes(get, post)...)
	}
	routes := make(map[string]*route, len(list))
	for _, r := range list {
		routes[r.pattern] = r
	}
	return routes
}

// engineRoutes are all routes but the approval page's.
func (a *API) engineRoutes(get, post []string) []*route {
	list := []*route{
		{pattern: "/", methods: get, handle: a.status.card, open: true},
		{pattern: "/api", methods: get, handle: a.status.apiCard, open: true},
		{pattern: "/health", methods: get, handle: a.status.healthy, open: true, probe: true},
		{pattern: "/healthz", methods: get, handle: a.status.alive, open: true, probe: true},
		{pattern: "/readyz", methods: get, handle: a.status.isReady, open: true, probe: true},
		{pattern: resourcePath, methods: get, handle: a.status.protectedResource, open: true},
		{pattern: resourcePath + mcpPath, methods: get, handle: a.status.protectedResource, open: true},
		{pattern: "/auth/callback", methods: get, handle: a.status.authCallback, open: true},
		{pattern: "/api/snapshot", methods: post, handle: a.snapshots.serve},
	}
	for _, t := range toolset.Table {
		list = append(list, &route{pattern: t.Path(), methods: post, handle: a.tools.tool(t), json: t.Route.Document == nil})
	}
	if a.cfg.Operations != nil {
		for _, o := range operations.Table {
			list = append(list, &route{pattern: o.Path(), methods: post, handle: a.tools.operation(o, a.runSpaces()), json: true})
		}
	}
	if a.cfg.Tools != nil {
		list = append(list, &route{pattern: "/api/openapi.json", methods: get, handle: a.tools.openAPI(a.cfg.Tools), open: true})
	}
	if a.cfg.MCP != nil {
		list = append(list, &route{pattern: mcpPath, handle: a.mcp, json: true})
	}
	return list
}

// runSpaces are the further spaces of callers for calls about runs. Where callers
// are identified, they have their own.
func (a *API) runSpaces() []string {
	if a.cfg.Identify != nil {
		return nil
	}
	return a.cfg.RunSpaces
}

// mcp hands over to the MCP endpoint. Its streams end when the server is about to.
func (a *API) mcp(c *call) {
	ctx, cancel := context.WithCancel(c.r.Context())
	defer cancel()
	if c.r.Method == http.MethodGet {
		defer context.AfterFunc(a.ending, cancel)()
	}
	r := c.r.WithContext(ctx)
	if ip, err := netip.ParseAddr(a.network.remote(c.r)); err == nil {
		r.RemoteAddr = netip.AddrPortFrom(ip, 0).String()
	}
	a.cfg.MCP.ServeHTTP(c.w, r)
}
