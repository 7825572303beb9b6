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
	// by is who may call it; a route that does not say so is for operators.
	by audience
	// probe: asked every few seconds, so it is logged at debug level.
	probe bool
	// json: the body is one JSON text.
	json bool
}

// audience is who may call a route.
type audience int

const (
	// operators have the token of the server, or are callers that Identify names.
	operators audience = iota
	// clients are all callers: with Identify those that it names, else everybody.
	clients
	// people have logged in with a browser. Without Identify they are everybody.
	people
	// anybody calls without limits of rate and number, so it must cost little.
	anybody
)

// allow is the value of the Allow header.
func (r *route) allow() string {
	return strings.Join(append(r.methods[:len(r.methods):len(r.methods)], http.MethodOptions), ", ")
}

// table lists everything that is served.
func (a *API) table() map[string]*route {
	get := []string{http.MethodGet, http.MethodHead}
	post := []string{http.MethodPost}
	var list []*route
	if a.servesPages() {
		list = append(list, &route{pattern: approvePattern, methods: append(get[:2:2], post...), handle: a.page.serve, by: people})
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

// servesPages reports whether people reach the pages: they have to be able to log in where
// callers are identified.
func (a *API) servesPages() bool {
	return a.cfg.Approvals != nil && (a.cfg.Identify == nil || a.cfg.Logins != nil)
}

// engineRoutes are all routes but the approval page's.
func (a *API) engineRoutes(get, post []string) []*route {
	list := []*route{
		{pattern: "/", methods: get, handle: a.status.card, by: anybody},
		{pattern: "/api", methods: get, handle: a.status.apiCard, by: anybody},
		{pattern: "/health", methods: get, handle: a.status.healthy, by: anybody, probe: true},
		{pattern: "/healthz", methods: get, handle: a.status.alive, by: anybody, probe: true},
		{pattern: "/readyz", methods: get, handle: a.status.isReady, by: anybody, probe: true},
		{pattern: resourcePath, methods: get, handle: a.status.protectedResource, by: anybody},
		{pattern: resourcePath + mcpPath, methods: get, handle: a.status.protectedResource, by: anybody},
		{pattern: "/api/snapshot", methods: post, handle: snapshot, by: clients},
	}
	list = append(list, a.loginRoutes(get, post)...)
	for _, t := range toolset.Table {
		list = append(list, &route{pattern: t.Path(), methods: post, handle: a.tools.tool(t), json: t.Route.Document == nil, by: clients})
	}
	if a.cfg.Operations != nil {
		for _, o := range operations.Table {
			list = append(list, &route{pattern: o.Path(), methods: post, handle: a.tools.operation(o, a.runSpaces()), json: true, by: operators})
		}
	}
	if a.cfg.Tools != nil {
		list = append(list, &route{pattern: "/api/openapi.json", methods: get, handle: a.tools.openAPI(a.cfg.Tools), by: anybody})
	}
	if a.cfg.MCP != nil {
		list = append(list, &route{pattern: mcpPath, handle: a.mcp, json: true, by: clients})
	}
	return list
}

// loginRoutes are those on which people log in and out.
func (a *API) loginRoutes(get, post []string) []*route {
	callback := a.status.noLogin
	if a.cfg.SignOn != nil {
		callback = a.login.callback
	}
	back := &route{pattern: CallbackPath, methods: get[:1:1], handle: callback, by: anybody}
	if a.cfg.Logins == nil {
		return []*route{back, {pattern: loginPath, methods: get, handle: a.status.noLogin, by: anybody}}
	}
	return []*route{
		back,
		{pattern: loginPath, methods: get, handle: a.login.home, by: anybody},
		{pattern: linkPattern, methods: append(get[:2:2], post...), handle: a.login.link, by: anybody},
		{pattern: logoutPath, methods: post, handle: a.login.logout, by: anybody},
	}
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
