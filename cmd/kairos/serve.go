package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	mcpserver "github.com/kairos-mcp/kairos/core/server/mcp"
)

// transports are what `kairos serve` serves.
type transports struct {
	stdio, http bool
	address     string // of http, over the configuration; empty: as configured
	insecure    bool
}

func serveCommand(at *session) *cobra.Command {
	var by transports
	cmd := &cobra.Command{
		Use:   "serve [--http [HOST:PORT]] [--stdio]",
		Short: "Serve MCP over stdin and stdout, or MCP and REST over HTTP",
		Long: "Serve MCP over stdin and stdout, or with --http over HTTP, for clients of 2025-11-25 and older and of\n" +
			"2026-07-28 alike; HTTP has REST and health beside it. With --http and --stdio both are served at once, until\n" +
			"stdin ends. Logs go to stderr. Over stdin and stdout drivers and database are first touched by the first tool call.\n\n" +
			"Changes of the configuration, the tree and drivers.lock are taken up while the server runs, also on SIGHUP\n" +
			"and on `kairos driver reload`. What is wrong with them is logged and changes nothing.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 || len(args) == 1 && !by.http {
				return fmt.Errorf("serve takes no %q; the address to listen at goes behind --http", args[len(args)-1])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			at.logLevel = ""
			if len(args) == 1 {
				by.address = args[0]
			}
			by.stdio = by.stdio || !by.http
			at.overHTTP, at.measured, at.reached = by.override, by.http, by.http
			return at.with(cmd.Context(), func(ctx context.Context, a *app) error {
				if err := a.config.checkListen(by, at.dev); err != nil {
					return err
				}
				at.sayDev(cmd.ErrOrStderr(), a.config)
				return serve(ctx, a, by, strings.Join(absolute(at.file), ""), cmd.ErrOrStderr())
			})
		},
	}
	cmd.Flags().BoolVar(&at.dev, "dev", false, devHelp)
	cmd.Flags().Var(&httpFlag{&by}, "http", "serve HTTP, at HOST:PORT if given, else at http.listen (127.0.0.1:3300)")
	cmd.Flags().Lookup("http").NoOptDefVal = "true"
	cmd.Flags().BoolVar(&by.stdio, "stdio", false, "serve stdin and stdout as well")
	cmd.Flags().BoolVar(&by.insecure, "insecure", false, "listen where other machines reach the server, though nobody has to say who they are")
	return cmd
}

// httpFlag is --http, which may stand alone, have an address, or be false.
type httpFlag struct{ by *transports }

func (f *httpFlag) String() string { return "" }
func (f *httpFlag) Type() string   { return "[host:port]" }

func (f *httpFlag) Set(v string) error {
	on, err := strconv.ParseBool(v)
	f.by.http, f.by.address = err != nil || on, ""
	if err != nil {
		f.by.address = v
	}
	return nil
}

// override puts the flags over the configuration.
func (t transports) override(c *config) {
	if t.address != "" {
		c.HTTP.Listen = t.address
	}
	c.HTTP.Insecure = c.HTTP.Insecure || t.insecure
}

// drain is how long calls may go on after the end; zero: as long as they
// may over stdin and stdout.
func (t transports) drain(c config) time.Duration {
	if !t.http {
		return 0
	}
	return time.Duration(c.HTTP.Shutdown)
}

// checkListen says whether the configured address may be listened on: whoever
// reaches it is let in.
func (c config) checkListen(t transports, dev bool) error {
	if !t.http {
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
	if m := c.Metrics.Listen; m != "" && m != metricsOff && !isLocal(m) {
		return fmt.Errorf("listening on %s for metrics is refused: other machines reach it, and nobody has to say who they are. "+
			"Set metrics.listen to an address of 127.0.0.1, or say --insecure if the network itself keeps strangers out", m)
	}
	if isLocal(c.HTTP.Listen) {
		return nil
	}
	return fmt.Errorf("listening on %s is refused: other machines reach it, and nobody has to say who they are. "+
		"Listen on 127.0.0.1, or say --insecure if the network itself keeps strangers out", c.HTTP.Listen)
}

func serve(ctx context.Context, a *app, by transports, config string, say io.Writer) (err error) {
	if err := a.store.Check(); err != nil {
		return err
	}
	ops := newOperation(ctx, a, config)
	defer func() { err = errors.Join(err, ops.close()) }()
	first := sync.OnceFunc(ops.begin)
	name := fmt.Sprintf("v%s+%s", a.version, time.Now().UTC().Format("20060102.150405"))
	s, err := mcpserver.New(mcpserver.Config{
		Version:        name,
		ChallengeTypes: a.challengeTypes,
		FirstCall:      first,
		Principal:      localPrincipal, Space: localSpace,
		StateKey: a.config.stateKey, Clock: a.clock,
		PlainWait: time.Duration(a.config.MCP.PlainWait), ProgressWait: time.Duration(a.config.MCP.ProgressWait),
		DrainTimeout: by.drain(a.config), Observer: a.toolObserver(),
		MaxSessions: a.config.HTTP.MaxSessions, SessionIdle: time.Duration(a.config.HTTP.SessionIdle), SessionAge: time.Duration(a.config.HTTP.SessionAge),
	}, a.engine, a.log)
	if err != nil {
		return err
	}
	ops.tell(s.Refresh)
	defer func() { err = errors.Join(err, s.Close()) }()
	var all []func(context.Context) error
	if by.stdio {
		all = append(all, func(ctx context.Context) error { return s.ServeStdio(ctx, os.Stdin, os.Stdout) })
	}
	if !by.http && a.config.Approval.Listen != "" {
		all = append(all, func(ctx context.Context) error { return a.serveApprovals(ctx, name) })
	}
	if by.http {
		h, err := a.httpService(s, name)
		if err != nil {
			return err
		}
		h.started, h.say = first, say
		h.endMCP = func() {
			if err := s.Close(); err != nil {
				a.log.Warn("MCP calls did not end in time", "error", err)
			}
		}
		all = append(all, h.serve)
		if h.metrics != nil {
			all = append(all, h.serveMetrics)
		}
	}
	return together(ctx, all...)
}

// together runs all until one of them ends, then ends the others.
func together(ctx context.Context, all ...func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
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

// stateKey reads the key that seals requestState, and makes one where there is
// none: a restarted server must be able to open what the last one sealed.
func (c config) stateKey() (key [32]byte, err error) {
	path := c.MCP.StateKeyFile
	b, err := readFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		_, _ = rand.Read(key[:]) // never fails
		if err := makeKeyFile(path, []byte(hex.EncodeToString(key[:])+"\n")); err != nil {
			return key, err
		}
		b, err = readFile(path)
	}
	if err != nil {
		return key, fmt.Errorf("read the key that seals questions to clients: %w", err)
	}
	raw, err := hex.DecodeString(strings.TrimSpace(string(b)))
	if err != nil || len(raw) != len(key) {
		return key, fmt.Errorf("key file %s must hold 64 hex digits; delete it to have a new one made", path)
	}
	copy(key[:], raw)
	return key, nil
}
