package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/core/engine"
	"github.com/kairos-mcp/kairos/core/store/sqlite"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// app is a wired server: everything but a transport.
type app struct {
	config config
	log    *slog.Logger
	lock   driverhost.Lock
	host   *driverhost.Host
	store  *sqlite.Store
	engine *engine.Engine
}

// The one principal and its space while authentication does not exist yet.
const (
	localPrincipal = "local"
	localSpace     = "user:local:operator"
)

func localCaller() engine.Caller {
	return engine.Caller{Principal: localPrincipal, Space: localSpace, Client: driver.Client{Name: "kairos", Version: version, Transport: "cli"}}
}

func (c config) readLock() (driverhost.Lock, error) {
	path := filepath.Join(c.Drivers.Dir, "drivers.lock")
	lock, err := driverhost.ReadLock(path)
	if errors.Is(err, fs.ErrNotExist) {
		return lock, fmt.Errorf("no drivers.lock in %s: run `make build`, or `kairos driver lock` for drivers built elsewhere, or set drivers.dir", c.Drivers.Dir)
	}
	return lock, err
}

// compileTree reads and compiles the decision tree against the locked drivers.
func (c config) compileTree() (*decision.Tree, error) {
	lock, err := c.readLock()
	if err != nil {
		return nil, err
	}
	src := decision.Default()
	if c.Tree != "" {
		b, err := os.ReadFile(c.Tree)
		if err != nil {
			return nil, fmt.Errorf("read the decision tree: %w", err)
		}
		src = decision.Source{Name: c.Tree, YAML: b}
	}
	return decision.Compile(src, lock.Descriptors())
}

// open wires a server. It starts no process and touches no database.
func (s source) open() (*app, error) {
	c, err := s.load()
	if err != nil {
		return nil, err
	}
	log, err := c.Log.logger(os.Stderr)
	if err != nil {
		return nil, err
	}
	a := &app{config: c, log: log}
	if a.lock, err = c.readLock(); err != nil {
		return nil, err
	}
	tree, err := c.compileTree()
	if err != nil {
		return nil, err
	}
	a.host = driverhost.New(log)
	set, err := a.host.Load(c.hostConfig(a.lock))
	if err != nil {
		return nil, errors.Join(err, a.host.Close())
	}
	if a.store, err = sqlite.Open(c.Database, log); err != nil {
		return nil, errors.Join(err, a.host.Close())
	}
	a.engine = engine.New(engine.Store{
		Protocols: a.store, Writer: a.store, Searcher: a.store, Runs: a.store, Index: a.store, History: a.store,
	}, engine.Fixed(engine.Setup{Drivers: set, Tree: tree, Settings: c.facts()}), c.engineOptions(), log)
	return a, nil
}

func (c config) hostConfig(lock driverhost.Lock) driverhost.Config {
	out := driverhost.Config{Dir: c.Drivers.Dir, Lock: lock, Drivers: map[string]driverhost.DriverConfig{}}
	for name, s := range c.Drivers.Settings {
		b, _ := s.json() // came from YAML, so it encodes
		out.Drivers[name] = driverhost.DriverConfig{Config: b, EnvFrom: s.EnvFrom, AllowEffects: s.AllowEffects}
	}
	return out
}

// facts are what conditions of the tree see as `config`.
func (c config) facts() decision.ConfigFacts {
	return decision.ConfigFacts{
		UserInput: decision.UserInputFacts{Enabled: c.UserInput.ServerDriver, Driver: c.UserInput.Driver},
		Approval:  decision.ApprovalFacts{DelegateToClient: *c.Approval.DelegateToClient, TrustAgent: c.Approval.TrustAgent},
	}
}

func (c config) engineOptions() engine.Options {
	return engine.Options{
		RunTTL: time.Duration(c.Run.TTL), ApprovalTTL: time.Duration(c.Approval.TTL), RequireComplete: c.Attest.RequireComplete,
		ScoreThreshold: c.Search.ScoreThreshold, SimilarThreshold: c.Search.SimilarThreshold,
	}
}

// close stops drivers and store; the first error is the one that matters.
func (a *app) close() error { return errors.Join(a.host.Close(), a.store.Close()) }

// with opens a server, runs do on it and closes it again.
func (s source) with(ctx context.Context, do func(context.Context, *app) error) (err error) {
	a, err := s.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.close()) }()
	return do(ctx, a)
}

// challengeTypes are the types that the configured challenge drivers handle.
func (a *app) challengeTypes() []string {
	var types []string
	for _, d := range a.lock.Descriptors() {
		if d.Role == driver.RoleChallenge {
			types = append(types, d.Handles...)
		}
	}
	return types
}
