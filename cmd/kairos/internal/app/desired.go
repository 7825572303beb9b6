package app

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/config"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/files"
	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/core/setup"
	"github.com/kairos-mcp/kairos/sdk/driverrpc"
)

// desired reads what a server should run with, at its start and at each reload.
func (s Options) desired() (setup.Desired, error) {
	var w setup.Desired
	if s.File != "" {
		w.Files = files.Absolute(s.File)
	}
	c, err := s.Load()
	if err != nil {
		return w, err
	}
	w.Settings, w.Restart = c.Facts(), restartSettings(c)
	c.Drivers.Dir = cmp.Or(s.driversDir, c.Drivers.Dir)
	w.Files = append(w.Files, files.Absolute(c.Tree, c.Pinned(s.Dev), c.ToolsFile)...)
	if w.Tree, err = c.TreeSource(); err != nil {
		return w, err
	}
	w.Drivers, err = s.hostConfig(c)
	return w, err
}

// hostConfig returns the configuration of the driver host. With Dev the lock is
// made from the drivers that are there, and attached drivers are taken from the
// environment.
func (s Options) hostConfig(c config.Config) (driverhost.Config, error) {
	out := driverhost.Config{
		Dir: c.Drivers.Dir, Drivers: map[string]driverhost.DriverConfig{}, Call: time.Duration(c.Drivers.CallTimeout), Idle: idleTime(c.Drivers.IdleStop), Dev: s.Dev,
	}
	for name, own := range c.Drivers.Settings {
		b, err := own.JSON()
		if err != nil {
			return out, fmt.Errorf("drivers.settings.%s.config: %w", name, err)
		}
		if err := there(c, name, own.Folders); err != nil {
			return out, err
		}
		out.Drivers[name] = driverhost.DriverConfig{
			Config: b, EnvFrom: own.EnvFrom, AllowEffects: own.AllowEffects, Network: driverhost.Network(own.Network), MemoryMiB: own.MemoryMiB, Folders: files.Absolute(own.Folders...), ReadOnly: read(name, b),
			Call: time.Duration(own.CallTimeout), Idle: idleTime(own.IdleStop), Limits: own.Limits(),
		}
	}
	hidden := Confinement(c, s.File)
	err := errors.Join(addTools(c.ToolsFile, slices.Concat(hidden.Private, hidden.Settings), &out), addCommand(c, s.File, &out))
	if err != nil {
		return out, err
	}
	if !s.Dev {
		out.Lock, err = c.ReadLock()
		return out, err
	}
	if out.Attach, err = driverrpc.ParseAttachments(os.Getenv(driverrpc.AttachEnv)); err != nil {
		return out, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out.Lock, err = driverhost.DescribeAll(ctx, c.Drivers.Dir, hidden)
	return out, err
}

// there refuses a folder that does not exist: an isolated driver would make it in a place that
// only it sees.
func there(c config.Config, name string, folders []string) error {
	if c.Drivers.Isolation == string(driverhost.LevelNone) {
		return nil
	}
	for _, path := range files.Absolute(folders...) {
		if _, err := os.Stat(path); err != nil {
			return fmt.Errorf("drivers.settings.%s.folders: %w: make it before the driver starts, which cannot make it itself", name, err)
		}
	}
	return nil
}

// read are the paths that the configuration of a driver names. That of the driver that
// runs commands names also what must not be seen: see addCommand.
func read(name string, given json.RawMessage) []string {
	if name == commandDriver {
		return nil
	}
	return driverhost.PathsIn(given)
}

// idleTime is an idle_stop as the host takes it: 0 where it is not set, negative
// for never.
func idleTime(d *config.Duration) time.Duration {
	switch {
	case d == nil:
		return 0
	case *d == 0:
		return -1
	}
	return time.Duration(*d)
}
