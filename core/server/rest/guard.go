package rest

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/kairos-mcp/kairos/core/audit"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/server/toolset"
)

// guarded puts the guards before a handler. The first one sees a request first
// and its reply last. The cheapest guards that refuse most come early; nothing of
// a body is read before it is clear that it may come, and nothing is worked on
// before its body is whole.
func (a *API) guarded(h handler) handler {
	for _, guard := range slices.Backward([]func(handler) handler{
		a.observed,            // access log and metrics, refusals included
		a.recovered,           // a panic is a 500 and ends nothing else
		a.hardened,            // headers that keep browsers from guessing
		a.located,             // canonical paths only; finds the route
		a.network.hosted,      // the Host is ours: no DNS rebinding
		a.network.crossOrigin, // the Origin may call; preflight
		a.routed,              // 404, 405
		a.identified,          // who calls
		a.authorized,          // 401: calls of operators
		a.admission.rated,     // 429
		a.admission.bodied,    // 413, 408, 400: size, time, shape
		a.admission.slotted,   // 503: how many at a time
	}) {
		h = guard(h)
	}
	return h
}

// observed logs every request. Queries, bodies and credentials are never logged.
func (a *API) observed(next handler) handler {
	return func(c *call) {
		ctx := toolset.Traced(c.r.Context(), c.r.Header.Get("Traceparent"))
		c.r = c.r.WithContext(ctx)
		// A deadline of the request before on this connection must not end this one.
		_ = c.w.control.SetWriteDeadline(time.Time{})
		if c.r.ContentLength != 0 { // also of a call that is refused: the server reads on
			_ = c.w.control.SetReadDeadline(time.Now().Add(a.cfg.Limits.BodyTime))
		}
		if a.cfg.Observer != nil {
			a.cfg.Observer.Active(1)
			defer a.cfg.Observer.Active(-1)
		}
		defer func() {
			c.w.extend() // for what is still to be flushed
			a.report(c)
		}()
		next(c)
	}
}

// report hands the finished call to log and metrics.
func (a *API) report(c *call) {
	e := Exchange{
		Method: "other", Route: "other", Status: c.w.status, Took: time.Since(c.began),
		In: int64(len(c.body)), Out: c.w.out, Space: c.caller.Space,
	}
	if e.Status == 0 {
		e.Status = http.StatusOK // net/http does so when nothing was written
	}
	if slices.Contains(methods, c.r.Method) {
		e.Method = c.r.Method
	}
	if c.route != nil {
		e.Route = c.route.pattern
	}
	if a.cfg.Observer != nil {
		a.cfg.Observer.Served(e)
	}
	level := slog.LevelInfo
	if c.route != nil && c.route.probe {
		level = slog.LevelDebug
	}
	attrs := []any{
		"method", e.Method, "route", e.Route, "status", e.Status, "in", e.In, "bytes", e.Out,
		"ms", float64(e.Took.Microseconds()) / 1000, "principal", c.caller.Principal, "remote", a.network.remote(c.r),
	}
	if c.caller.Credential != "" {
		attrs = append(attrs, "credential", c.caller.Credential)
	}
	a.log.Log(c.r.Context(), level, "http request", attrs...)
}

var methods = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions,
}

// recovered turns a panic into a 500.
func (a *API) recovered(next handler) handler {
	return func(c *call) {
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
				panic(p) // the handler wants the connection closed
			}
			a.log.ErrorContext(c.r.Context(), "a request panicked", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			if c.w.status != 0 {
				panic(http.ErrAbortHandler) // half a reply must not look whole
			}
			c.refuse(fault.Internal, "Internal error; the server's log has the cause.")
		}()
		next(c)
	}
}

// hardened: nothing here is a page, and nothing of it belongs into a cache.
func (a *API) hardened(next handler) handler {
	return func(c *call) {
		h := c.w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		next(c)
	}
}

// located finds the route by the path as it was sent. There is one spelling of
// each: what a proxy and this server could read differently is refused. People get a page
// that says so: programs that show links add the comma behind them, or cut them.
func (a *API) located(next handler) handler {
	return func(c *call) {
		p := c.r.URL.EscapedPath()
		if !canonical(p) {
			if a.isLink(c.r) {
				a.page.changedLink(c, http.StatusBadRequest)
				return
			}
			c.refuse(fault.InvalidPath, "The path is not canonical: no //, no dot segments, nothing escaped.")
			return
		}
		if p == mcpPath+"/" { // as many people write it
			p = mcpPath
			r, at := c.r.WithContext(c.r.Context()), *c.r.URL
			at.Path = p
			r.URL = &at
			c.r = r
		}
		if c.route = a.routes[p]; c.route == nil && strings.Count(p, "/") == 3 {
			switch {
			case strings.HasPrefix(p, approvePrefix):
				c.route = a.routes[approvePattern]
			case strings.HasPrefix(p, linkPrefix):
				c.route = a.routes[linkPattern]
			}
		}
		next(c)
	}
}

// isLink reports whether somebody opens a link that people get, however it is written.
func (a *API) isLink(r *http.Request) bool {
	at := path.Clean("/"+r.URL.Path) + "/"
	return a.routes[approvePattern] != nil && strings.HasPrefix(at, approvePrefix) || a.routes[linkPattern] != nil && strings.HasPrefix(at, linkPrefix)
}

// canonical reports whether there is no other way to write the path.
func canonical(p string) bool {
	return strings.HasPrefix(p, "/") && !strings.ContainsAny(p, `%\;`) && (path.Clean(p) == p || path.Clean(p)+"/" == p)
}

// routed refuses what has no route or another method.
func (a *API) routed(next handler) handler {
	return func(c *call) {
		switch {
		case c.route == nil && a.isLink(c.r):
			a.page.changedLink(c, http.StatusNotFound)
		case c.route == nil:
			c.json(http.StatusNotFound, map[string]any{"error": "Not found"})
		case len(c.route.methods) == 0 || slices.Contains(c.route.methods, c.r.Method):
			next(c)
		case c.r.Method == http.MethodOptions:
			c.w.Header().Set("Allow", c.route.allow())
			c.w.WriteHeader(http.StatusNoContent)
		default:
			c.w.Header().Set("Allow", c.route.allow())
			if c.route.pattern == approvePattern { // people read it
				a.page.note(c, http.StatusMethodNotAllowed, "This page is opened and answered", "Open the link in a browser and use its buttons.")
				return
			}
			c.refuse(fault.MethodNotAllowed, "%s takes %s.", c.route.pattern, c.route.allow())
		}
	}
}

// authorized lets only operators through to their calls. Where callers are identified, each
// of them is the operator of what is theirs.
func (a *API) authorized(next handler) handler {
	return func(c *call) {
		if c.route.by != operators || a.cfg.Identify != nil {
			next(c)
			return
		}
		if err := a.cfg.Operator(c.r); err != nil {
			if c.r.Header.Get("Authorization") != "" {
				a.cfg.Audit.Unknown(c.r.Context(), a.network.remote(c.r), audit.Act{Action: audit.CallerIdentify, Object: c.route.pattern}, fault.InvalidToken)
			}
			c.w.Header().Set("WWW-Authenticate", `Bearer realm="KAIROS operators"`)
			c.refuse(fault.Unauthorized, "%s is a call of operators: %v.", c.route.pattern, err)
			return
		}
		c.caller.Operator = true
		next(c)
	}
}

// messageOf is what of an error may be shown.
func messageOf(err error) string {
	var f *fault.Error
	if errors.As(err, &f) {
		return f.Message
	}
	return "internal error"
}
