package rest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/audit"
	"github.com/kairos-mcp/kairos/core/server/operations"
	"github.com/kairos-mcp/kairos/core/server/toolset"
)

// Engine is what this face calls. A client of REST answers no question, which
// Continue is told.
type Engine = toolset.Engine

// Health is what /health tells of the parts that a server depends on.
type Health struct {
	// Store says why the protocols or runs cannot be used, or is nil.
	Store error
	// Indexed: there is an index beside the store. Index says why it is behind or
	// does not answer, or is nil.
	Indexed bool
	Index   error
	// Embedding says why the endpoint does not answer. It is nil if it does, or if none is configured.
	Embedding error
	// Provider turns texts into vectors; Preferred is the configured choice.
	Provider, Preferred string
}

// Observer hears of every request. Called concurrently; returns at once.
type Observer interface {
	Served(Exchange)
	// Active is called with 1 when a request comes and with -1 when it is done.
	Active(delta int)
}

// Exchange is one request and what became of it.
type Exchange struct {
	Method string // an HTTP method, or "other"
	Route  string // the pattern, or "other"
	Status int
	Took   time.Duration
	In     int64 // bytes of the body that were read
	Out    int64 // bytes of the reply's body
	Space  string
}

// Config of an API. Version, Principal, Space and at least one of Engine and
// Approvals are required.
type Config struct {
	Version string
	// Engine is behind REST. Without it only the approval page is served.
	Engine Engine
	// Operations is behind the calls of operators, which are not served without it.
	Operations operations.Engine
	// Operator returns nil if a request is that of an operator, and else what it lacks.
	// Without Identify, which names callers, the calls of operators need it. With Identify
	// such a request is that of Principal.
	Operator func(*http.Request) error
	// Groups, if set, are the further spaces of every caller without Identify at the moment of a call.
	Groups func() []string
	// RunSpaces are further spaces of every caller without Identify, for calls
	// about runs.
	RunSpaces []string
	// Approvals is behind the approval page. Without it there is no page.
	Approvals Approvals
	// Logins is where people log in to the pages. It is used with Identify, without which there
	// is nothing to log in to; with Identify and without Logins there are no pages.
	Logins Logins
	// SignOn is an identity provider at which people log in, with Logins; nil: there is none.
	SignOn SignOn
	// MCP is mounted at /mcp, unless it is nil, and owns the methods there. It
	// gets bodies that are whole and within Limits, and the address of the client, also
	// behind a trusted proxy, as the RemoteAddr of the request.
	MCP http.Handler
	// Tools describes the tools for openapi.json, which is not served without it.
	Tools func() []toolset.Served
	// Check judges a body by the input schema of a tool; its error is a
	// *fault.Error. Without it only bodies that cannot be decoded are refused here.
	Check func(tool string, arguments json.RawMessage) error
	// Identify says who calls; fault.Unauthorized and fault.InvalidToken are 401,
	// fault.Forbidden is 403. It is called again while a call lasts, which ends when it
	// returns one of them. Handlers read the caller with access.CallerOf. Without it
	// everybody is Principal.
	Identify func(*http.Request) (access.Caller, error)
	// Issuer is the identity provider whose tokens Identify takes, and Audience for whom they
	// must be. Both are empty where there is none.
	Issuer, Audience string
	// Session reports whether an MCP session exists. Without Identify its calls
	// count apart from those of other sessions. If it is nil they count by address.
	Session func(id string) bool
	// Principal and Space are those of every caller without Identify.
	Principal, Space string
	// Health and Ready look at what the server depends on. If nil, all is well.
	// They are called at most once a second each.
	Health func(context.Context) Health
	Ready  func(context.Context) error
	Access Access
	Limits Limits
	// Audit is told which callers are refused before their calls are made; nil: nobody is.
	Audit *audit.Log
	// Observer is notified of finished calls; may be nil.
	Observer Observer
}

// Validate reports what is missing or impossible.
func (c Config) Validate() error {
	var errs []error
	if c.Version == "" {
		errs = append(errs, errors.New("version is empty"))
	}
	if c.Engine == nil && c.Approvals == nil {
		errs = append(errs, errors.New("engine is missing"))
	}
	if c.Operations != nil && c.Identify == nil && c.Operator == nil {
		errs = append(errs, errors.New("operations are served, but no Operator is set"))
	}
	if c.Principal == "" || c.Space == "" {
		errs = append(errs, errors.New("principal and space are required"))
	}
	for name, n := range map[string]int64{
		"body": c.Limits.Body, "bodies": c.Limits.Bodies, "concurrent": int64(c.Limits.Concurrent), "waiting": int64(c.Limits.Waiting),
		"burst": int64(c.Limits.Burst), "body time": int64(c.Limits.BodyTime), "waits after": int64(c.Limits.WaitsAfter), "write time": int64(c.Limits.WriteTime),
		"patience": int64(c.Limits.Patience),
	} {
		if n < 0 {
			errs = append(errs, fmt.Errorf("limit %s is negative", name))
		}
	}
	for _, o := range c.Access.Origins {
		if _, err := parseOrigin(o); o != anyName && err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
