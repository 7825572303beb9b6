// Package rest serves the main HTTP port: the REST mirror of the nine tools,
// the calls of operators, health, the description of the interface, and the guards
// that stand before all of it and before the MCP endpoint, which it only mounts.
// It decides nothing about protocols and runs: that is the engine's.
package rest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"
)

// API is the main port's handler. Its methods may be called concurrently.
type API struct {
	cfg    Config
	log    *slog.Logger
	routes map[string]*route
	handle handler

	network   network
	admission *admission
	// wrongTokens bounds the wrong tokens of an address.
	wrongTokens *rates
	tools       *tools
	page        *page
	login       *login
	status      *status

	ending context.Context // of streams: ends with Drain
	endNow context.CancelFunc
}

// New returns the handler. It starts nothing.
func New(cfg Config, log *slog.Logger) (*API, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("http api: %w", err)
	}
	cfg.Limits = cfg.Limits.withDefaults()
	if cfg.Operator == nil {
		cfg.Operator = func(*http.Request) error { return errors.New("this server knows no operator") }
	}
	a := &API{cfg: cfg, log: log, network: newNetwork(cfg.Access)}
	a.ending, a.endNow = context.WithCancel(context.Background())
	a.admission = newAdmission(cfg, a.network)
	a.wrongTokens = newRates(wrongPerMinute, wrongBurst)
	a.tools = &tools{engine: cfg.Engine, operations: cfg.Operations, check: cfg.Check, log: log}
	a.page = &page{approvals: cfg.Approvals, network: a.network, identified: cfg.Identify != nil, log: log}
	a.login = &login{logins: cfg.Logins, signOn: cfg.SignOn, network: a.network, wrong: a.wrongTokens, audit: cfg.Audit, begun: newRates(wrongPerMinute, wrongBurst), page: a.page}
	a.status = &status{cfg: cfg, network: a.network, began: time.Now(), ending: a.ending, log: log}
	a.routes = a.table()
	a.handle = a.guarded(func(c *call) { c.route.handle(c) })
	return a, nil
}

// ServeHTTP implements http.Handler.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.handle(newCall(w, r, a.cfg.Limits.WriteTime))
}

// Drain ends the streams and refuses new ones: the server is about to stop, and
// calls in flight are to be finished. It may be called more than once.
func (a *API) Drain() { a.endNow() }
