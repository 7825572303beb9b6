package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/config"
	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/metrics"
	"github.com/kairos-mcp/kairos/core/runs"
	mcpserver "github.com/kairos-mcp/kairos/core/server/mcp"
	"github.com/kairos-mcp/kairos/core/server/rest"
	"github.com/kairos-mcp/kairos/core/server/socket"
	"github.com/kairos-mcp/kairos/core/server/toolset"
)

// httpService is the main port and, beside it, that of the metrics.
type httpService struct {
	api     *rest.API
	replica *replica     // nil: the database is this server's own
	metrics http.Handler // nil: no port of its own
	config  config.Config
	log     *slog.Logger
	page    *approvalPage
	started func(at string) // called with the address of the main port once it is listened on
	endMCP  func()          // ends what the MCP endpoint keeps open, and waits
	say     io.Writer       // for people
}

// httpService puts together what is served over HTTP.
func (a *App) httpService(s *mcpserver.Server, r *replica, operators *socket.Server, name string) (*httpService, error) {
	c := a.Config
	access, err := c.HTTP.Access()
	if err != nil {
		return nil, err
	}
	health := a.health()
	served := rest.Config{
		Version: name, Engine: toolset.UseCases{Runs: a.Engine.Runs, Library: a.Engine.Library}, RunSpaces: []string{FilesSpace}, Groups: a.made.all, Identify: identify(a), Issuer: c.OIDC.Issuer, Audience: c.OIDC.Audience, Logins: pagesOf(a), Approvals: a.Engine.Runs, MCP: r.pass(s.HTTP()), Session: s.HasSession, Principal: LocalPrincipal, Space: a.space,
		Tools: s.Tools, Check: s.Check,
		Health: health, Ready: a.ready,
		Access: access, Audit: a.Audit, Observer: observer(a.measures, func(m *metrics.Metrics) rest.Observer { return m }),
	}
	if operators != nil && c.ServesOperations() {
		served.Operations, served.Operator = a.operations(health), operators.Authorize
	}
	if served.SignOn, err = signOnOf(a); err != nil {
		return nil, err
	}
	api, err := rest.New(served, a.log)
	if err != nil {
		return nil, err
	}
	if a.Provider != nil {
		a.Provider.Warm()
	}
	h := &httpService{api: api, replica: r, config: c, log: a.log, page: a.page}
	if a.measures != nil {
		h.metrics = a.measures.Handler(a.host)
	}
	return h, nil
}

// address is known once a port is listened on; until then, and where none is, it is empty.
// It is safe for concurrent use.
type address struct{ at atomic.Value }

func (a *address) is(at string) { a.at.Store(at) }

func (a *address) String() string {
	at, _ := a.at.Load().(string)
	return at
}

// serve listens on the main port until ctx ends.
func (h *httpService) serve(ctx context.Context) error {
	c := h.config.HTTP
	if how := h.config.Unprotected(); how != "" {
		fmt.Fprintf(h.say, "************************************************************************\n"+
			"  INSECURE: other machines reach %s %s.\n"+
			"  Whoever reads along, or calls, can read and change protocols and runs.\n"+
			"************************************************************************\n", c.Listen, how)
	}
	var ending sync.WaitGroup
	defer ending.Wait()
	return rest.Serve(ctx, rest.Listen{
		Address: c.Listen, CertFile: c.TLS.Cert, KeyFile: c.TLS.Key, Shutdown: config.ShutdownTime,
		Started: func(at net.Addr) {
			scheme := "http"
			if c.TLS.Cert != "" {
				scheme = "https"
			}
			h.page.at.is(cmp.Or(c.PublicURL, reachedAt(scheme, at)))
			h.started(at.String())
			fmt.Fprintf(h.say, "kairos: MCP at %[1]s://%[2]s/mcp, REST at %[1]s://%[2]s/api, health at %[1]s://%[2]s/health\n", scheme, at)
			if h.config.Auth.Enabled {
				fmt.Fprintln(h.say, "kairos: calls need a token, which `kairos token create` makes, and pages a login: `kairos login-link`")
			}
			if h.config.OIDC.On() {
				fmt.Fprintf(h.say, "kairos: tokens of %s count, too\n", h.config.OIDC.Issuer)
			}
		},
		Draining: func() {
			h.api.Drain()
			ending.Go(h.endMCP)
		},
	}, h.replica.accept(h.api), h.log)
}

// serveMetrics listens on the port of the metrics until ctx ends. Where none is
// configured and another program has the usual one, it is any free port: whoever looked at
// the usual one would see the metrics of another server as those of this one.
func (h *httpService) serveMetrics(ctx context.Context) error {
	configured := h.config.Metrics.Listen
	err := h.metricsAt(ctx, cmp.Or(configured, config.DefaultMetrics), "")
	if !errors.Is(err, syscall.EADDRINUSE) {
		return err
	}
	if configured == "" {
		return h.metricsAt(ctx, anyFreePort, " ("+config.DefaultMetrics+" is another program's)")
	}
	return fmt.Errorf("metrics.listen: another program, such as a second server, listens on %s: set it to %s for any free port, or to off: %w",
		configured, anyFreePort, err)
}

// anyFreePort is an address of this machine alone.
const anyFreePort = "127.0.0.1:0"

func (h *httpService) metricsAt(ctx context.Context, address, note string) error {
	return rest.Serve(ctx, rest.Listen{
		Address: address, Connections: 64, Shutdown: time.Second,
		Started: func(at net.Addr) { fmt.Fprintf(h.say, "kairos: metrics at http://%s/metrics%s\n", at, note) },
	}, rest.Hosts(rest.Access{Local: config.IsLocal(address), Hosts: h.config.HTTP.AllowedHosts}, h.metrics), h.log)
}

// ready returns why calls cannot be served, or nil.
func (a *App) ready(ctx context.Context) error {
	if err := a.databaseAnswers(ctx); err != nil {
		return err
	}
	return driversWork(a.host)
}

// driversWork returns which drivers do not work, or nil.
func driversWork(host *driverhost.Host) error {
	var broken []string
	for _, d := range host.Status() {
		if d.State == driverhost.BreakerOpen {
			broken = append(broken, d.Name)
		}
	}
	if len(broken) > 0 {
		return fault.New(fault.DriverUnavailable, "these drivers fail again and again: %s; `kairos driver info` says why", strings.Join(broken, ", "))
	}
	return nil
}

// databaseAnswers asks the database something small, and to write.
func (a *App) databaseAnswers(ctx context.Context) error {
	err := a.Store.CheckWrite(ctx)
	if err == nil {
		_, err = a.Store.Runs.OpenRuns(ctx, runs.OpenQuery{Limit: 1}) // nobody's
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fault.Wrap(err, fault.StoreUnavailable, "database %s: it did not answer in time; another process may be writing", a.Config.Database)
	}
	return err
}

// embeddingProbe is how often the embedding endpoint is asked for health's sake:
// every answer may cost money.
const embeddingProbe = time.Minute

// health looks at what the server depends on.
func (a *App) health() func(context.Context) rest.Health {
	var mu sync.Mutex // guards the fields below
	var asked time.Time
	var failed error
	return func(ctx context.Context) rest.Health {
		h := rest.Health{
			Store: a.databaseAnswers(ctx), Indexed: a.Index != nil, Index: a.Index.answers(ctx),
			Provider: a.Config.Embedding.Provider, Preferred: a.Config.Embedding.Provider,
		}
		if !a.Config.Embedding.Endpoint() {
			return h
		}
		mu.Lock()
		defer mu.Unlock()
		if asked.IsZero() || time.Since(asked) >= embeddingProbe {
			_, failed = a.Engine.Library.Embeddings(ctx)
			asked = time.Now()
		}
		h.Embedding = failed
		return h
	}
}

// reachedAt is the address of a listener as people of this machine write it.
func reachedAt(scheme string, at net.Addr) string {
	host, port, err := net.SplitHostPort(at.String())
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsUnspecified() {
		return scheme + "://" + net.JoinHostPort("localhost", port)
	}
	return scheme + "://" + at.String()
}
