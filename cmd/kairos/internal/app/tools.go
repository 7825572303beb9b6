package app

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/internal/mcpclient"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// ToolsOf starts a tool server as a server of KAIROS would, by the driver that calls tools and
// within what isolates it, and lists its tools. False: no such driver is installed.
func ToolsOf(ctx context.Context, s Options, name string, server mcpclient.Server, within time.Duration) (found []mcpclient.Tool, installed bool, err error) {
	c, err := s.Load()
	if err != nil {
		return nil, false, err
	}
	hidden := Confinement(c, s.File)
	b, err := mcpclient.File{Servers: map[string]mcpclient.Server{name: server}}.Bytes()
	if err != nil {
		return nil, false, err
	}
	with, err := s.hostConfig(c)
	if err != nil || !slices.ContainsFunc(with.Lock.Drivers, func(e driverhost.LockedEntry) bool { return e.Name == mcpclient.DriverName }) {
		return nil, false, nil // whoever starts a server hears what is wrong with the drivers
	}
	if err := addServers(c.ToolsFile, b, slices.Concat(hidden.Private, hidden.Settings), &with); err != nil {
		return nil, true, err
	}
	host := driverhost.New(slog.New(slog.DiscardHandler), driverhost.Options{Confinement: hidden})
	defer func() { err = errors.Join(err, host.Close()) }()
	set, err := host.Load(with)
	if err != nil {
		return nil, true, err
	}
	calls, ok := set.Capability(mcpclient.DriverName, within)
	if !ok {
		return nil, true, fmt.Errorf("the driver %s is not one that calls tools", mcpclient.DriverName)
	}
	plan, err := json.Marshal(mcpclient.List{Server: name})
	if err != nil {
		return nil, true, err
	}
	res, err := calls.Render(ctx, driver.RenderRequest{
		Input: driver.Input{ID: driver.KindEvidence, Kind: driver.KindEvidence}, Plan: plan, IdempotencyKey: rand.Text(), Attempt: 1,
	})
	if err = errors.Join(err, unanswered(res)); err != nil {
		if level, _, unknown := host.Isolation(); unknown == nil && level != driverhost.LevelNone && server.URL == "" {
			err = fmt.Errorf("%w. It was started in isolation, as every run starts it: drivers.settings.%s.folders lists what it may use besides its own folder", err, mcpclient.DriverName)
		}
		return nil, true, err
	}
	var listed mcpclient.Listed
	if err := json.Unmarshal(answered(res), &listed); err != nil {
		return nil, true, fmt.Errorf("read the tools of %s: %w", name, err)
	}
	return listed.Tools, true, nil
}
