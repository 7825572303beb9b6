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
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/config"
	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/metrics"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
	mcpserver "github.com/kairos-mcp/kairos/core/server/mcp"
	"github.com/kairos-mcp/kairos/core/server/rest"
	"github.com/kairos-mcp/kairos/core/server/socket"
	"github.com/kairos-mcp/kairos/core/server/toolset"
)

// checkDev says whether dev mode may be used on a listener: whoever reaches it
// reaches programs that nobody has pinned. Empty is stdin and stdout.
func checkDev(address string) error {
	if address == "" || strings.HasPrefix(address, "unix:") {
		return nil
	}
	if _, _, err := net.SplitHostPort(address); err != nil {
		return fmt.Errorf("listen address %q: %w", address, err)
	}
	if config.IsLocal(address) {
		return nil
	}
	return fmt.Errorf("--dev is refused on %s, which other machines can reach: listen on 127.0.0.1, or lock the drivers and leave --dev out", address)
}

// Transports are what `kairos serve` serves.
type Transports struct {
	Stdio, HTTP bool
	Address     string // of http, over the configuration; empty: as configured
	Insecure    bool
}

// Override puts the flags over the configuration.
func (t Transports) Override(c *config.Config) {
	if t.Address != "" {
		c.HTTP.Listen = t.Address
	}
	c.HTTP.Insecure = c.HTTP.Insecure || t.Insecure
}

// stdioDrain is how long calls over stdin and stdout may continue after the end, and
// closeTime how long everything else may take to end after the calls.
const (
	stdioDrain = 5 * time.Second
	closeTime  = 2 * time.Second
)

// drain is how long calls may continue after the end.
func (t Transports) drain(c config.Config) time.Duration {
	if !t.HTTP {
		return stdioDrain
	}
	return time.Duration(c.HTTP.Shutdown)
}

// CheckListen says whether the configured address may be listened on: whoever
// reaches it is let in.
func CheckListen(c config.Config, t Transports, dev bool) error {
	if !t.HTTP {
		return nil
	}
	if dev {
		if err := checkDev(c.HTTP.Listen); err != nil {
			return err
		}
	}
	if c.HTTP.Insecure {
		return nil
	}
	if m := c.Metrics.Listen; m != "" && m != config.MetricsOff && !config.IsLocal(m) {
		return fmt.Errorf("listening on %s for metrics is refused: other machines reach it, and there is no authentication. "+
			"Set metrics.listen to an address of 127.0.0.1, or use --insecure on a trusted network", m)
	}
	if config.IsLocal(c.HTTP.Listen) {
		return nil
	}
	return fmt.Errorf("listening on %s is refused: other machines reach it, and there is no authentication. "+
		"Listen on 127.0.0.1, or use --insecure on a trusted network", c.HTTP.Listen)
}

// Serve serves the transports until ctx ends or one of them does. say is where
// people read what is served; config names the configuration file.
func Serve(ctx context.Context, a *App, by Transports, config string, say io.Writer) (err error) {
	wrong, unused := a.Config.Drivers.SettingProblems(a.setup.Descriptors(), config)
	for _, err := range unused { // such as of a driver that was removed and may come back
		a.log.Warn("settings of drivers are not used", slog.Any("error", err))
	}
	if err := errors.Join(append(wrong, a.Store.Check(), a.Index.checkOwner(ctx))...); err != nil {
		return err
	}
	shared, err := newReplica(ctx, a, by)
	if err != nil {
		return err
	}
	ops := newBackground(ctx, a, shared, config)
	defer func() { err = errors.Join(err, ops.close()) }()
	first := sync.OnceFunc(ops.begin)
	name := fmt.Sprintf("v%s+%s", a.Version, time.Now().UTC().Format("20060102.150405"))
	mcp := mcpConfig(a, by, name)
	mcp.FirstCall, mcp.SessionID = first, shared.sessionID()
	s, err := mcpserver.New(mcp, mcpserver.UseCases{Runs: a.Engine.Runs, Library: a.Engine.Library}, a.log)
	if err != nil {
		return err
	}
	ops.onNews(a.setup.Switched(), s.Refresh)
	ops.onNews(a.changes.some, func() { s.ProtocolsChanged(a.changes.take()) })
	defer func() { err = errors.Join(err, a.working.during("MCP calls", s.Close)) }()
	var all []func(context.Context) error
	serve := func(what string, do func(context.Context) error) {
		all = append(all, func(ctx context.Context) error {
			return a.working.during(what, func() error { return do(ctx) })
		})
	}
	if by.Stdio {
		serve("calls over stdin", func(ctx context.Context) error { return s.ServeStdio(ctx, os.Stdin, os.Stdout) })
	}
	if !by.HTTP && a.Config.Approval.Listen != "" {
		serve("the approval page", func(ctx context.Context) error { return a.serveApprovals(ctx, name) })
	}
	if by.HTTP {
		h, err := a.httpService(s, shared, ops.admin, name)
		if err != nil {
			return err
		}
		h.say = say
		h.started = func(at string) {
			a.mainPort.is(at)
			first()
			if ops.admin != nil {
				_ = ops.admin.Listen() // the token is there before the address is announced; first logs the error
			}
		}
		h.endMCP = func() {
			if err := a.working.during("MCP calls", s.Close); err != nil {
				a.log.Warn("MCP calls did not end in time", "error", err)
			}
		}
		serve("HTTP calls", h.serve)
		if h.metrics != nil {
			serve("metrics", h.serveMetrics)
		}
	}
	stopIn := by.drain(a.Config) + closeTime
	return together(ctx, func() { a.stopping <- stopIn }, all...)
}

func mcpConfig(a *App, by Transports, name string) mcpserver.Config {
	c := a.Config
	return mcpserver.Config{
		Version:        name,
		ChallengeTypes: a.challengeTypes,
		Principal:      LocalPrincipal, Space: a.space,
		StateKeys: a.stateKeys, Clock: a.clock,
		PlainWait: time.Duration(c.MCP.PlainWait), ProgressWait: time.Duration(c.MCP.ProgressWait), AskAgain: time.Duration(c.MCP.AskAgain),
		DrainTimeout: by.drain(c), Observer: observer(a.measures, func(m *metrics.Metrics) mcpserver.Observer { return m }),
		MaxSessions: c.HTTP.MaxSessions, MaxSessionsPerClient: c.HTTP.MaxSessionsPerClient,
		SessionIdle: time.Duration(c.HTTP.SessionIdle), SessionAge: time.Duration(c.HTTP.SessionAge),
	}
}

// together runs all until one of them ends, then calls ending and ends the others.
func together(ctx context.Context, ending func(), all ...func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	context.AfterFunc(ctx, ending)
	errs := make([]error, len(all))
	var work sync.WaitGroup
	for i, do := range all {
		work.Go(func() {
			defer stop()
			errs[i] = do(ctx)
		})
	}
	work.Wait()
	return errors.Join(errs...)
}

// httpService is the main port and, beside it, that of the metrics.
type httpService struct {
	api     *rest.API
	replica *replica     // nil: the database is this server's own
	metrics http.Handler // nil: no port of its own
	config  config.Config
	log     *slog.Logger
	page    *address        // of the approval page
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
		Version: name, Engine: toolset.UseCases{Runs: a.Engine.Runs, Library: a.Engine.Library}, RunSpaces: []string{FilesSpace}, Approvals: a.Engine.Runs, MCP: r.pass(s.HTTP()), Session: s.HasSession, Principal: LocalPrincipal, Space: a.space,
		Tools: s.Tools, Check: s.Check,
		Health: health, Ready: a.ready,
		Access: access, Limits: c.HTTP.Limits(), Observer: observer(a.measures, func(m *metrics.Metrics) rest.Observer { return m }),
	}
	if operators != nil && c.ServesOperations() {
		served.Operations, served.Operator = a.operations(health), operators.Authorize
	}
	api, err := rest.New(served, a.log)
	if err != nil {
		return nil, err
	}
	h := &httpService{api: api, replica: r, config: c, log: a.log, page: &a.page}
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
	if !config.IsLocal(c.Listen) {
		fmt.Fprintf(h.say, "************************************************************************\n"+
			"  INSECURE: %s is reached by other machines without authentication.\n"+
			"  They can read and change every protocol and run.\n"+
			"************************************************************************\n", c.Listen)
	}
	var ending sync.WaitGroup
	defer ending.Wait()
	return rest.Serve(ctx, rest.Listen{
		Address: c.Listen, CertFile: c.TLS.Cert, KeyFile: c.TLS.Key, Shutdown: time.Duration(c.Shutdown),
		Started: func(at net.Addr) {
			scheme := "http"
			if c.TLS.Cert != "" {
				scheme = "https"
			}
			h.page.is(cmp.Or(c.PublicURL, reachedAt(scheme, at)))
			h.started(at.String())
			fmt.Fprintf(h.say, "kairos: MCP at %[1]s://%[2]s/mcp, REST at %[1]s://%[2]s/api, health at %[1]s://%[2]s/health\n", scheme, at)
		},
		Draining: func() {
			h.api.Drain()
			ending.Go(h.endMCP)
		},
	}, h.replica.accept(h.api), h.log)
}

// serveMetrics listens on the port of the metrics until ctx ends. Where none is
// configured and another server of this machine has the usual one, there is none.
func (h *httpService) serveMetrics(ctx context.Context) error {
	configured := h.config.Metrics.Listen
	address := cmp.Or(configured, config.DefaultMetrics)
	err := rest.Serve(ctx, rest.Listen{
		Address: address, Connections: 64, Shutdown: time.Second,
		Started: func(at net.Addr) { fmt.Fprintf(h.say, "kairos: metrics at http://%s/metrics\n", at) },
	}, rest.Hosts(rest.Access{Local: config.IsLocal(address), Hosts: h.config.HTTP.AllowedHosts}, h.metrics), h.log)
	if configured == "" && errors.Is(err, syscall.EADDRINUSE) {
		h.log.Warn("no metrics are served: another program has their port; set metrics.listen to another one, or to off", "address", address)
		<-ctx.Done()
		return nil
	}
	return err
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
			Provider: cmp.Or(a.Config.Embedding.Provider, config.EmbedNone), Preferred: cmp.Or(a.Config.Embedding.Provider, config.EmbedNone),
		}
		if !a.Config.Embedding.On() {
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

// approvalURL returns the link of an approval, or "" if the page is not served.
func (a *App) approvalURL(id run.ID, secret string) string {
	base := strings.TrimRight(a.page.String(), "/")
	if base == "" {
		return ""
	}
	return base + rest.ApprovalPath(id, secret)
}

// reachedAt is the address of a listener as people of this machine write it.
func reachedAt(scheme string, at net.Addr) string {
	host, port, err := net.SplitHostPort(at.String())
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsUnspecified() {
		return scheme + "://" + net.JoinHostPort("localhost", port)
	}
	return scheme + "://" + at.String()
}

// serveApprovals serves the approval page alone, for a server without HTTP,
// until ctx ends. Hosts start servers twice, so one that cannot listen continues
// without the page.
func (a *App) serveApprovals(ctx context.Context, version string) error {
	api, err := rest.New(rest.Config{
		Version: version, Approvals: a.Engine.Runs, Principal: LocalPrincipal, Space: a.space,
		Access: rest.Access{Local: true}, Limits: rest.Limits{Concurrent: 16, Waiting: 16, PerMinute: 600, Burst: 100},
	}, a.log)
	if err != nil {
		return err
	}
	listening := false
	err = rest.Serve(ctx, rest.Listen{
		Address: a.Config.Approval.Listen, Connections: 64, Shutdown: time.Second,
		Started: func(at net.Addr) {
			listening = true
			a.page.is(reachedAt("http", at))
			a.log.InfoContext(ctx, "approval page", "address", at.String())
		},
		Draining: api.Drain,
	}, api, a.log)
	if err != nil && !listening {
		a.log.WarnContext(ctx, "there is no approval page: set approval.listen to 127.0.0.1:0 for any free port", slog.Any("error", err))
		<-ctx.Done()
		return nil
	}
	return err
}
