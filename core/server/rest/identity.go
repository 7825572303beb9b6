package rest

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/audit"
	"github.com/kairos-mcp/kairos/core/fault"
)

// loginPath is where people are sent who have to log in.
const loginPath = "/auth/login"

// Limits of wrong tokens from one address, for which right ones never wait, and of logins that it begins.
const (
	wrongPerMinute = 60
	wrongBurst     = 20
)

// askAgain is when a client whose token could not be checked may try again.
const askAgain = 10 * time.Second

// recheckEvery is how often it is looked whether the caller of a call that lasts may still
// call. With the time for which a token is believed it is less than a second.
const recheckEvery = 400 * time.Millisecond

// identified says who calls.
func (a *API) identified(next handler) handler {
	return func(c *call) {
		switch {
		case a.cfg.Identify == nil:
			c.caller.Principal, c.caller.Space = a.cfg.Principal, a.cfg.Space
			if a.cfg.Groups != nil && c.route.by != anybody {
				c.caller.Groups = a.cfg.Groups()
			}
			next(c)
		case c.route.by == anybody:
			next(c)
		case c.route.by == people:
			a.login.required(c, next)
		case c.route.by == operators && a.cfg.Operator(c.r) == nil: // with the token of the server
			c.caller.Principal, c.caller.Space, c.caller.Operator = a.cfg.Principal, a.cfg.Space, true
			next(c)
		default:
			a.admit(c, next)
		}
	}
}

// admit lets a call through of a caller that says who it is, as long as that counts.
func (a *API) admit(c *call, next handler) {
	caller, err := a.cfg.Identify(c.r)
	if err == nil {
		caller, err = a.narrowed(c, caller)
	}
	if err != nil {
		a.reject(c, err)
		return
	}
	c.caller = caller
	c.r = c.r.WithContext(access.WithCaller(c.r.Context(), caller))
	w := a.watch(c)
	defer func() { // also after a panic
		if err := w.end(); err != nil && c.w.status == 0 {
			a.reject(c, err)
		}
	}()
	next(c)
}

// narrowed is the caller in the one space that the query names, as clients of the earlier server
// name it; else the caller as it is.
func (a *API) narrowed(c *call, caller access.Caller) (access.Caller, error) {
	if c.r.URL.RawQuery == "" {
		return caller, nil
	}
	query, names := c.r.URL.Query(), []string{"space_id"}
	if c.route.json { // else the call has an argument of that name
		names = append(names, "space")
	}
	for _, name := range names {
		space := query.Get(name)
		if space == "" {
			continue
		}
		only, ok := caller.Only(space)
		if !ok {
			err := fault.New(fault.Forbidden, "space %.80q of the query is not in your allowed spaces: name it by its id, as kairos_spaces lists it", space)
			return caller, a.cfg.Audit.Refused(c.r.Context(), caller, audit.Act{Action: audit.CallerIdentify, Object: c.route.pattern}, err)
		}
		caller = only
	}
	return caller, nil
}

// reject refuses a call whose caller is not known.
func (a *API) reject(c *call, err error) {
	code := fault.CodeOf(err)
	switch code {
	case fault.InvalidToken:
		if wait := a.wrongTokens.take(a.network.remote(c.r)); wait > 0 {
			c.later(wait)
			c.refuse(fault.RateLimited, "Too many wrong tokens; try again in %d s.", seconds(wait))
			return
		}
		a.cfg.Audit.Unknown(c.r.Context(), a.network.remote(c.r), audit.Act{Action: audit.CallerIdentify, Object: c.route.pattern}, code)
		fallthrough
	case fault.Unauthorized:
		a.challenge(c, code, messageOf(err))
	case fault.IdentityUnavailable:
		c.later(askAgain)
		fallthrough
	case fault.Forbidden, fault.InvalidArgument, fault.StoreUnavailable, fault.StoreFailed, fault.AuditUnavailable:
		c.refuse(code, "%s", messageOf(err))
	default:
		a.log.ErrorContext(c.r.Context(), "a caller could not be identified", "error", err)
		c.refuse(fault.Internal, "Who calls could not be found out; the server's log has the cause.")
	}
}

// challenge answers 401 and says how to get in: with a body that is the same for clients of
// MCP and of REST, because the earlier server had none of JSON-RPC.
func (a *API) challenge(c *call, code fault.Code, message string) {
	base, row := a.network.base(c.r), fault.RowOf(code)
	h := "Bearer "
	if code == fault.InvalidToken {
		h += `error="invalid_token", error_description="` + quotable(message) + `", `
	}
	h += `resource_metadata="` + base + resourcePath + `", scope="` + strings.Join(scopes, " ") + `"`
	c.w.Header().Set("WWW-Authenticate", h)
	c.json(http.StatusUnauthorized, map[string]any{
		"error": row.RESTName(), "error_code": row.RESTName(), "message": message, "next_action": row.Advice,
		"login_url": base + loginPath, "duration_ms": c.ms(),
	})
}

// quotable is a message as a quoted parameter of a header takes it (RFC 6750, section 3).
func quotable(message string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '"' || r == '\\':
			return '\''
		case r < ' ' || r > '~':
			return '?'
		}
		return r
	}, message)
}

// watched is a call that lasts. It ends when its caller may not call any more, such as one
// whose token was revoked.
type watched struct {
	identify func(*http.Request) (access.Caller, error)
	r        *http.Request
	cancel   context.CancelFunc

	mu    sync.Mutex // guards the fields below, and is held while looking
	timer *time.Timer
	ended bool
	gone  error // why the caller may not call any more
}

// watch begins to watch a call, whose context ends with it.
func (a *API) watch(c *call) *watched {
	ctx, cancel := context.WithCancel(c.r.Context())
	c.r = c.r.WithContext(ctx)
	w := &watched{identify: a.cfg.Identify, r: c.r, cancel: cancel}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = time.AfterFunc(recheckEvery, w.look)
	return w
}

// look cancels the call if its caller may not call any more. Nothing is revoked while nobody
// can look, so the call continues then.
func (w *watched) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return
	}
	_, err := w.identify(w.r)
	switch fault.CodeOf(err) {
	case fault.InvalidToken, fault.Unauthorized, fault.Forbidden:
		w.gone = err
		w.cancel()
	default:
		w.timer.Reset(recheckEvery)
	}
}

// end ends the watch, and returns why the call was cancelled, or nil.
func (w *watched) end() error {
	w.cancel() // also a look that has begun
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	w.timer.Stop()
	return w.gone
}
