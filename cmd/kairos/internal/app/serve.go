package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/config"
	"github.com/kairos-mcp/kairos/core/audit"
	"github.com/kairos-mcp/kairos/core/metrics"
	mcpserver "github.com/kairos-mcp/kairos/core/server/mcp"
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
	Page        bool   // over stdio: the approval page on any free port, unless configured
	Address     string // of http, over the configuration; empty: as configured
	Insecure    bool
}

// Override puts the flags over the configuration.
func (t Transports) Override(c *config.Config) {
	if t.Address != "" {
		c.HTTP.Listen = t.Address
	}
	c.HTTP.Insecure = t.Insecure
	if t.Page {
		c.Approval.Listen = cmp.Or(c.Approval.Listen, anyFreePort)
	}
}

// stdioDrain is how long calls over stdin and stdout may continue after the end, and
// closeTime how long everything else may take to end after the calls.
const (
	stdioDrain = 5 * time.Second
	closeTime  = 2 * time.Second
)

// drain is how long calls may continue after the end.
func (t Transports) drain() time.Duration {
	if !t.HTTP {
		return stdioDrain
	}
	return config.ShutdownTime
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
	return c.CheckListen()
}

// Serve serves the transports until ctx ends or one of them does. say is where
// people read what is served; config names the configuration file.
func Serve(ctx context.Context, a *App, by Transports, config string, say io.Writer) error {
	if err := errors.Join(a.checkSettings(config), checkAudit(a.Config, by), a.Store.Check(), a.Index.checkOwner(ctx)); err != nil {
		return err
	}
	if auditsToStdout(a.Config) {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // else the server ends with whoever reads its stdout
	}
	act := audit.Act{Action: audit.ServerRun, Details: map[string]string{"version": a.Version, "digest": a.setup.Digest()}}
	return a.Audit.Do(ctx, operatorOf(a.Version), act, func(*audit.Doing) error { return serve(ctx, a, by, config, say) })
}

func serve(ctx context.Context, a *App, by Transports, config string, say io.Writer) (err error) {
	shared, err := newReplica(ctx, a, by)
	if err != nil {
		return err
	}
	ops := newBackground(ctx, a, shared, config)
	defer func() { err = errors.Join(err, ops.close()) }()
	first := sync.OnceFunc(ops.begin)
	name := fmt.Sprintf("v%s+%s", a.Version, time.Now().UTC().Format("20060102.150405"))
	mcp := mcpConfig(a, by, name)
	mcp.FirstCall, mcp.Replica = first, shared.mark()
	s, err := mcpserver.New(mcp, mcpserver.UseCases{Runs: a.Engine.Runs, Library: a.Engine.Library}, a.log)
	if err != nil {
		return err
	}
	ops.onNews(a.setup.Switched(), s.Refresh)
	ops.onNews(a.changes.some, func() { s.ProtocolsChanged(a.changes.take()) })
	defer func() { err = errors.Join(err, a.working.during("MCP calls", s.Close)) }()
	var all []func(context.Context) error
	add := func(what string, do func(context.Context) error) {
		all = append(all, func(ctx context.Context) error {
			return a.working.during(what, func() error { return do(ctx) })
		})
	}
	if by.Stdio {
		add("calls over stdin", func(ctx context.Context) error { return s.ServeStdio(ctx, os.Stdin, os.Stdout) })
	}
	if !by.HTTP && a.Config.Approval.Listen != "" {
		a.page.offer()
		add("the approval page", func(ctx context.Context) error { return a.servePage(ctx, name) })
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
		add("HTTP calls", h.serve)
		if h.metrics != nil {
			add("metrics", h.serveMetrics)
		}
	}
	stopIn := by.drain() + closeTime
	return together(ctx, func() { a.stopping <- stopIn }, all...)
}

// checkSettings refuses settings that drivers would refuse once they start. Those of no
// driver are left from one that was removed and may come back, and variables that nobody
// reads may be of another program.
func (a *App) checkSettings(file string) error {
	wrong, unused := a.Config.Drivers.SettingProblems(a.setup.Descriptors(), file)
	for _, err := range unused {
		a.log.Warn("settings of drivers are not used", slog.Any("error", err))
	}
	for _, err := range config.Misspelt(os.Environ()) {
		a.log.Warn("a variable of the environment has no effect", slog.Any("error", err))
	}
	return errors.Join(wrong...)
}

func mcpConfig(a *App, by Transports, name string) mcpserver.Config {
	c := a.Config
	return mcpserver.Config{
		Version:        name,
		ChallengeTypes: a.challengeTypes,
		Principal:      LocalPrincipal, Space: a.space, Groups: a.made.all, Identify: identified(a),
		StateKeys: a.stateKeys, Clock: a.clock, Ended: a.Store.Sessions, Capabilities: a.capabilities,
		PlainWait: c.MCP.PlainWait(), ProgressWait: c.MCP.ProgressWait(), AskAgain: c.MCP.AskAgain(),
		DrainTimeout: by.drain(), Audit: a.Audit, Observer: observer(a.measures, func(m *metrics.Metrics) mcpserver.Observer { return m }),
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
