// Package drivers has the commands that write, install, inspect and swap drivers.
package drivers

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/servers"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/config"
	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/core/drivers"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/server/socket"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// Command is `kairos driver`.
func Command(at *session.Session) *cobra.Command {
	cmd := &cobra.Command{Use: "driver", Short: "Create, install and inspect drivers",
		Example: "  kairos driver list\n  kairos driver install ./kairos-driver-word_count"}
	out := new(output.Format)
	out.AddTo(cmd)
	cmd.AddCommand(
		driverListCommand(at, out), driverInfoCommand(at, out), driverDocsCommand(at, out), driverVerifyCommand(at, out),
		driverLockCommand(at, out), driverInstallCommand(at, out), driverRemoveCommand(at, out), driverNewCommand(at, out),
		driverRollbackCommand(at, out), driverLogsCommand(at, out), driverTestCommand(at),
	)
	return cmd
}

// vouches is the strongest provenance that a driver can be recorded with: what its
// descriptor allows, within what the operator permits. Empty: it vouches for nothing itself.
func vouches(d driver.Descriptor, may driverhost.May) driver.Provenance {
	strongest, l := drivers.StrongestClaim(d), may.Limits(d)
	if l.MaxProvenance == "" {
		return strongest
	}
	return run.Weakest([]driver.Provenance{strongest, l.MaxProvenance})
}

// vouchesText is for people.
func vouchesText(p driver.Provenance) string {
	if p == "" {
		return "for nothing itself: it judges the evidence of others"
	}
	return "at most as " + run.Who(p, "")
}

// driverList is what `driver list` prints.
type driverList struct {
	DriversDir string         `json:"drivers_dir"`
	Drivers    []listedDriver `json:"drivers"`
	Servers    []servers.Info `json:"servers"`
}

// listedDriver is a driver of the lock and where it stands in each server.
type listedDriver struct {
	Name     string        `json:"name"`
	Version  string        `json:"version"`
	Role     driver.Role   `json:"role"`
	Handles  []string      `json:"handles"`
	Effect   driver.Effect `json:"effect"`
	Features []string      `json:"features"`
	// Vouches is the strongest provenance that it is recorded with; empty: it
	// vouches for nothing itself. May is what the configuration lets it do.
	Vouches   driver.Provenance       `json:"vouches,omitempty"`
	May       []driverhost.Permission `json:"may"`
	Platforms []string                `json:"platforms"` // the lock has a sum for
	// Locked is false for a driver that a server runs but the lock does not have.
	Locked bool         `json:"locked"`
	Live   []liveDriver `json:"live"`
}

// liveDriver is where a driver stands in one server.
type liveDriver struct {
	Server     int              `json:"server"` // process id
	State      driverhost.State `json:"state"`
	Version    string           `json:"version"`
	SHA256     string           `json:"sha256"`
	Generation int              `json:"generation"`
	PID        int              `json:"pid,omitempty"`
	Isolation  driverhost.Level `json:"isolation"`
}

func driverListCommand(at *session.Session, out *output.Format) *cobra.Command {
	var choice servers.Choice
	cmd := &cobra.Command{
		Use: "list", Short: "List the locked drivers and their state in running servers", Args: cobra.NoArgs,
		Long:    "Lists the drivers of drivers.lock and the state of each in the running servers. It starts no driver.",
		Example: "  kairos driver list\n  kairos driver list -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c := servers.Look(*at, cmd.ErrOrStderr())
			return choice.WithMaybe(cmd, c, func(found []socket.Found) error {
				lock, err := c.LockOrServers(found)
				if err != nil {
					return err
				}
				list, err := listDrivers(cmd.Context(), c.Config, lock, found)
				if err != nil {
					return err
				}
				return out.Print(cmd.OutOrStdout(), list, list.text)
			})
		},
	}
	choice.AddTo(cmd)
	return cmd
}

func listDrivers(ctx context.Context, c config.Config, lock driverhost.Lock, found []socket.Found) (driverList, error) {
	list := driverList{DriversDir: c.Drivers.Dir, Drivers: []listedDriver{}, Servers: []servers.Info{}}
	for _, e := range lock.Drivers {
		d := listed(e.Descriptor)
		d.Locked = true
		may := c.Drivers.Settings[e.Name].May
		d.Vouches = vouches(e.Descriptor, may)
		d.May, _ = may.Of(e.Descriptor)
		for platform := range e.SHA256 {
			d.Platforms = append(d.Platforms, platform)
		}
		slices.Sort(d.Platforms)
		list.Drivers = append(list.Drivers, d)
	}
	for _, s := range found {
		list.Servers = append(list.Servers, servers.InfoOf(s))
		all, err := servers.Drivers(ctx, s)
		if err != nil {
			return list, err
		}
		for _, status := range all {
			list.join(s.PID, status)
		}
	}
	return list, nil
}

func listed(d driver.Descriptor) listedDriver {
	return listedDriver{
		Name: d.Name, Version: d.Version, Role: d.Role, Handles: orNone(d.Handles), Effect: d.Effect,
		Features: orNone(d.Features), May: []driverhost.Permission{}, Platforms: []string{}, Live: []liveDriver{},
	}
}

func orNone(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

// join adds where a driver stands in a server.
func (l *driverList) join(server int, s driverhost.Status) {
	i := slices.IndexFunc(l.Drivers, func(d listedDriver) bool { return d.Name == s.Name })
	if i < 0 {
		i = len(l.Drivers)
		l.Drivers = append(l.Drivers, listed(driver.Descriptor{
			Name: s.Name, Version: s.Version, Role: s.Role, Handles: s.Handles, Effect: s.Effect,
		}))
	}
	l.Drivers[i].Live = append(l.Drivers[i].Live, liveDriver{
		Server: server, State: s.State, Version: s.Version, SHA256: s.SHA256, Generation: s.Generation, PID: s.PID, Isolation: s.Isolation,
	})
}

func (l driverList) text(p *output.Printer) {
	head := []string{"NAME", "VERSION", "ROLE", "HANDLES", "EFFECT", "FEATURES", "VOUCHES", "MAY"}
	if len(l.Servers) > 0 {
		head = append(head, "SERVER", "STATE", "GENERATION", "PID")
	}
	rows := [][]string{head}
	for _, d := range l.Drivers {
		row := []string{d.Name, d.Version, string(d.Role), strings.Join(d.Handles, ","), string(d.Effect), strings.Join(d.Features, ","), cmp.Or(string(d.Vouches), "-"), d.may()}
		for i, live := range d.Live {
			if i > 0 {
				row = []string{"", "", "", "", "", "", "", ""}
			}
			rows = append(rows, append(row, strconv.Itoa(live.Server), live.words(d), strconv.Itoa(live.Generation), pid(live.PID)))
		}
		if len(d.Live) == 0 {
			rows = append(rows, row)
		}
	}
	p.Table(rows)
}

// may is the column of that name.
func (d listedDriver) may() string {
	words := make([]string, len(d.May))
	for i, p := range d.May {
		words[i] = string(p)
	}
	return cmp.Or(strings.Join(words, ","), "-")
}

// words is the state, and how the server's driver differs from the lock's.
func (l liveDriver) words(d listedDriver) string {
	switch {
	case !d.Locked:
		return string(l.State) + " (not locked)"
	case l.Version != d.Version:
		return string(l.State) + " (" + l.Version + ")"
	}
	return string(l.State)
}

// pid is a process id in a table; one that is not there is a dash.
func pid(n int) string {
	if n == 0 {
		return "-"
	}
	return strconv.Itoa(n)
}
