package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/core/setup"
	"github.com/kairos-mcp/kairos/sdk/driverrpc"
)

// wanted reads what a server should run with, at its start and at each reload.
func (s options) wanted() (setup.Wanted, error) {
	var w setup.Wanted
	if s.file != "" {
		w.Files = absolute(s.file)
	}
	c, err := s.load()
	if err != nil {
		return w, err
	}
	w.Settings, w.Restart = c.facts(), c.restart()
	c.Drivers.Dir = cmp.Or(s.driversDir, c.Drivers.Dir)
	w.Files = append(w.Files, absolute(c.Tree, c.pinned(s.dev))...)
	if w.Tree, err = c.treeSource(); err != nil {
		return w, err
	}
	w.Drivers, err = s.hostConfig(c)
	return w, err
}

// absolute is for files that may be named relative to the working folder.
func absolute(paths ...string) []string {
	var out []string
	for _, p := range paths {
		if p == "" {
			continue
		}
		if abs, err := filepath.Abs(p); err == nil {
			p = abs
		}
		out = append(out, p)
	}
	return out
}

// pinned is what says which drivers there are.
func (c config) pinned(dev bool) string {
	if dev {
		return c.Drivers.Dir
	}
	return filepath.Join(c.Drivers.Dir, driverhost.LockName)
}

func (s options) hostConfig(c config) (driverhost.Config, error) {
	out := driverhost.Config{
		Dir: c.Drivers.Dir, Drivers: map[string]driverhost.DriverConfig{}, Call: time.Duration(c.Drivers.CallTimeout), Idle: idleTime(c.Drivers.IdleStop), Dev: s.dev,
	}
	for name, s := range c.Drivers.Settings {
		b, err := s.json()
		if err != nil {
			return out, fmt.Errorf("drivers.settings.%s.config: %w", name, err)
		}
		out.Drivers[name] = driverhost.DriverConfig{
			Config: b, EnvFrom: s.EnvFrom, AllowEffects: s.AllowEffects, Network: driverhost.Network(s.Network), MemoryMiB: s.MemoryMiB, Folders: absolute(s.Folders...),
			Call: time.Duration(s.CallTimeout), Idle: idleTime(s.IdleStop), Limits: s.limits(),
		}
	}
	var err error
	if !s.dev {
		out.Lock, err = c.readLock()
		return out, err
	}
	if out.Attach, err = driverrpc.ParseAttachments(os.Getenv(driverrpc.AttachEnv)); err != nil {
		return out, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out.Lock, err = driverhost.DescribeAll(ctx, c.Drivers.Dir, c.confinement(s.file))
	return out, err
}

// idleTime is an idle_stop as the host takes it: 0 where it is not set, negative
// for never.
func idleTime(d *duration) time.Duration {
	switch {
	case d == nil:
		return 0
	case *d == 0:
		return -1
	}
	return time.Duration(*d)
}

func (c config) readLock() (driverhost.Lock, error) {
	lock, err := driverhost.ReadLock(filepath.Join(c.Drivers.Dir, driverhost.LockName))
	if errors.Is(err, fs.ErrNotExist) {
		return lock, fmt.Errorf("no drivers.lock in %s: run `make build`, or `kairos driver lock` for drivers built elsewhere, or set drivers.dir", c.Drivers.Dir)
	}
	return lock, err
}

// treeSource reads the decision tree.
func (c config) treeSource() (decision.Source, error) {
	if c.Tree == "" {
		return decision.Default(), nil
	}
	b, err := readFile(c.Tree)
	if err != nil {
		return decision.Source{}, fmt.Errorf("read the decision tree: %w", err)
	}
	return decision.Source{Name: c.Tree, YAML: b}, nil
}

// compileTree reads and compiles the decision tree against the locked drivers.
func (c config) compileTree() (*decision.Tree, error) {
	lock, err := c.readLock()
	if err != nil {
		return nil, err
	}
	src, err := c.treeSource()
	if err != nil {
		return nil, err
	}
	return decision.Compile(src, lock.Descriptors())
}

// facts are what conditions of the tree see as `config`.
func (c config) facts() decision.ConfigFacts {
	return decision.ConfigFacts{
		UserInput: decision.UserInputFacts{Enabled: c.UserInput.ServerDriver, Driver: c.UserInput.Driver},
		Approval:  decision.ApprovalFacts{DelegateToClient: *c.Approval.DelegateToClient, TrustAgent: c.Approval.TrustAgent, Typed: c.Approval.Typed},
	}
}
