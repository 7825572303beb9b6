package drivers

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/servers"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/config"
	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/core/drivers/manual"
	"github.com/kairos-mcp/kairos/core/server/operations"
	"github.com/kairos-mcp/kairos/core/server/socket"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// driverInfo is what `driver info` prints: what the lock says of a driver, and
// what each running server does.
type driverInfo struct {
	Name   string                  `json:"name"`
	Locked *driverhost.LockedEntry `json:"locked,omitempty"`
	// Vouches is the strongest provenance that the locked driver is recorded with, and
	// May and MayNot are what the configuration lets it do, of what its descriptor claims.
	Vouches driver.Provenance       `json:"vouches,omitempty"`
	May     []driverhost.Permission `json:"may,omitempty"`
	MayNot  []driverhost.Permission `json:"may_not,omitempty"`
	Servers []driverIn              `json:"servers"`
	Running bool                    `json:"running"` // a server runs with these drivers
}

// driverIn is a driver in one server.
type driverIn struct {
	Server servers.Info       `json:"server"`
	Status *driverhost.Status `json:"status,omitempty"`
	Log    []driverhost.Line  `json:"log"`
	// Problem is why there is no status.
	Problem string `json:"problem,omitempty"`
}

func driverInfoCommand(at *session.Session, out *output.Format) *cobra.Command {
	var choice servers.Choice
	var lines int
	cmd := &cobra.Command{
		Use: "info NAME", Short: "Show a driver's lock entry, its state in running servers and its log",
		Example: "  kairos driver info shell\n  kairos driver info shell -o json",
		Args:    oneDriver(at), ValidArgsFunction: session.First(completeDrivers(at)),
		RunE: func(cmd *cobra.Command, args []string) error {
			c := servers.Look(*at, cmd.ErrOrStderr())
			return choice.WithMaybe(cmd, c, func(servers []socket.Found) error {
				lock, err := c.LockOrServers(servers)
				if err != nil {
					return err
				}
				info := driverInfo{Name: args[0], Servers: []driverIn{}, Running: len(servers) > 0}
				if e, ok := EntryOf(lock, args[0]); ok {
					info.Locked = &e
					may := c.Config.Drivers.Settings[e.Name].May
					info.Vouches = vouches(e.Descriptor, may)
					info.May, info.MayNot = may.Of(e.Descriptor)
				}
				known := info.Locked != nil
				for _, s := range servers {
					in := driverInServer(cmd.Context(), s, args[0], lines)
					known = known || in.Status != nil
					info.Servers = append(info.Servers, in)
				}
				if !known {
					return noSuchDriver(args[0], lock, c.Config)
				}
				return out.Print(cmd.OutOrStdout(), info, info.text)
			})
		},
	}
	choice.AddTo(cmd)
	cmd.Flags().IntVar(&lines, "lines", operations.DefaultLines, "how many of the last log lines")
	return cmd
}

// EntryOf finds a driver in the lock.
func EntryOf(lock driverhost.Lock, name string) (driverhost.LockedEntry, bool) {
	i := slices.IndexFunc(lock.Drivers, func(e driverhost.LockedEntry) bool { return e.Name == name })
	if i < 0 {
		return driverhost.LockedEntry{}, false
	}
	return lock.Drivers[i], true
}

func noSuchDriver(name string, lock driverhost.Lock, c config.Config) error {
	if len(lock.Drivers) == 0 {
		return fmt.Errorf("no driver %q is locked in %s or runs in a server; `kairos driver list` shows which there are", name, c.Drivers.Dir)
	}
	return fmt.Errorf("no driver %q is locked in %s; there are: %s", name, c.Drivers.Dir, strings.Join(namesOf(lock), ", "))
}

func namesOf(lock driverhost.Lock) []string {
	names := make([]string, len(lock.Drivers))
	for i, e := range lock.Drivers {
		names[i] = e.Name
	}
	return names
}

// completeDrivers completes each argument with a locked driver that is not an argument
// yet. It reads the lock only, and reports no errors: a person is typing.
func completeDrivers(at *session.Session) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		lock, err := at.Salvage().ReadLock()
		if err != nil {
			cobra.CompDebugln(err.Error(), false)
		}
		var found []cobra.Completion
		for _, e := range lock.Drivers {
			if strings.HasPrefix(e.Name, typed) && !slices.Contains(args, e.Name) {
				found = append(found, cobra.CompletionWithDesc(e.Name, fmt.Sprintf("%s, handles %s", e.Descriptor.Role, strings.Join(e.Descriptor.Handles, ", "))))
			}
		}
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

// oneDriver accepts the name of one driver, and otherwise says which there are.
func oneDriver(at *session.Session) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) == 1:
			return nil
		case len(args) > 1:
			return fmt.Errorf("one driver at a time, not %d", len(args))
		}
		if c, err := at.Load(); err == nil {
			if lock, err := c.ReadLock(); err == nil && len(lock.Drivers) > 0 {
				return fmt.Errorf("name a driver; there are: %s", strings.Join(namesOf(lock), ", "))
			}
		}
		return errors.New("name a driver; `kairos driver list` shows which there are")
	}
}

func driverInServer(ctx context.Context, s socket.Found, name string, lines int) driverIn {
	in := driverIn{Server: servers.InfoOf(s), Log: []driverhost.Line{}}
	all, err := servers.Drivers(ctx, s)
	i := slices.IndexFunc(all, func(d driverhost.Status) bool { return d.Name == name })
	switch {
	case err != nil:
		in.Problem = err.Error()
		return in
	case i < 0:
		in.Problem = fmt.Sprintf("this server runs no driver %q", name)
		return in
	}
	in.Status = &all[i]
	log, err := operations.DriverLogs.Call(ctx, s, operations.DriverLogsRequest{LogRequest: operations.LogRequest{Lines: lines}, Driver: name})
	if err != nil {
		in.Problem = err.Error()
	}
	in.Log = append(in.Log, log.Lines...)
	return in
}

func (i driverInfo) text(p *output.Printer) {
	p.Printf("%s\n", i.Name)
	if e := i.Locked; e != nil {
		printEntry(p, *e)
		if states := statesText(e.Descriptor.ActionSchema); states != "" {
			printRow(p, "states", states)
		}
		if ways := e.Descriptor.AnswersBy; len(ways) > 0 {
			printRow(p, "approves", "by "+strings.Join(ways, ", "))
		}
		printRow(p, "vouches", vouchesText(i.Vouches))
		printRow(p, "may", driverhost.MayText(i.May, i.MayNot))
	} else {
		p.Printf("  not in the lock\n")
	}
	if len(i.Servers) == 0 {
		p.Printf("\nno server runs with these drivers; the above is what the lock says\n")
	}
	for _, in := range i.Servers {
		p.Printf("\nserver %d (%s)\n", in.Server.PID, in.Server.Version)
		if in.Problem != "" {
			printRow(p, "problem", in.Problem)
		}
		if in.Status != nil {
			printStatus(p, *in.Status)
			printLog(p, in.Log)
		}
	}
}

// printRow prints one fact, unless there is none.
func printRow(p *output.Printer, name, value string) {
	if value != "" {
		p.Printf("  %-11s %s\n", name, value)
	}
}

func printEntry(p *output.Printer, e driverhost.LockedEntry) {
	d := e.Descriptor
	printRow(p, "version", e.Version)
	printRow(p, "role", string(d.Role)+", handles "+strings.Join(d.Handles, ", "))
	printRow(p, "effect", string(d.Effect))
	printRow(p, "transport", cmp.Or(string(d.Transport), "grpc"))
	printRow(p, "features", strings.Join(d.Features, ", "))
	if d.Role == driver.RoleChallenge {
		printRow(p, "parameters", strings.Join(manual.Keys(d.ParamsSchema), ", "))
		printRow(p, "output", strings.Join(manual.Keys(d.OutputSchema), ", "))
	}
	printRow(p, "needs", strings.Join(d.Needs, ", "))
	printRow(p, "sends", strings.Join(d.Methods(), ", "))
	printRow(p, "file", e.File)
	for _, platform := range slices.Sorted(maps.Keys(e.SHA256)) {
		printRow(p, "sha256", e.SHA256[platform]+"  "+platform)
	}
}

func printStatus(p *output.Printer, s driverhost.Status) {
	state := string(s.State)
	if !s.Since.IsZero() {
		state += " since " + output.Moment(s.Since)
	}
	printRow(p, "state", state)
	printRow(p, "generation", fmt.Sprint(s.Generation))
	printRow(p, "version", s.Version)
	printRow(p, "sha256", s.SHA256)
	printRow(p, "pid", pid(s.PID))
	printRow(p, "transport", s.Transport)
	printRow(p, "effect", string(s.Effect))
	printRow(p, "starts", fmt.Sprintf("%d, %d crashes", s.Starts, s.Crashes))
	breaker := s.Breaker.State
	if !s.Breaker.Until.IsZero() {
		breaker += " until " + output.Moment(s.Breaker.Until)
	}
	printRow(p, "breaker", breaker)
	if !s.RetryAt.IsZero() {
		printRow(p, "next start", "not before "+output.Moment(s.RetryAt))
	}
	printRow(p, "calls", fmt.Sprintf("%d, %d from memory, %d failed, %d made again, %d in flight", s.Calls, s.Remembered, s.Failures, s.Repeats, s.InFlight))
	for _, method := range slices.Sorted(maps.Keys(s.Latency)) {
		l := s.Latency[method]
		printRow(p, "latency", fmt.Sprintf("%-10s p50 %.2f ms  p90 %.2f ms  p99 %.2f ms  max %.2f ms  (%d calls)", method, l.P50, l.P90, l.P99, l.Max, l.Count))
	}
	if s.RSSBytes > 0 {
		printRow(p, "memory", fmt.Sprintf("%.1f MiB", float64(s.RSSBytes)/(1<<20)))
	}
	printRow(p, "may", driverhost.MayText(s.May, s.MayNot))
	printRow(p, "config", output.CompactJSON(s.Config))
	printRow(p, "env_from", strings.Join(s.EnvFrom, ", "))
	printRow(p, "isolation", string(s.Isolation))
	for _, warning := range s.Warnings {
		printRow(p, "warning", warning)
	}
	for _, protection := range s.Protection {
		printRow(p, "protection", protection)
	}
	if s.Excess.Count > 0 {
		printRow(p, "memory", fmt.Sprintf("ended %d times for it, last at %s: %s", s.Excess.Count, output.Moment(s.Excess.At), s.Excess.Why))
	}
	if s.LastError != "" {
		printRow(p, "last error", output.Moment(s.LastErrorAt)+"  "+s.LastError)
	}
}

func printLog(p *output.Printer, log []driverhost.Line) {
	if len(log) == 0 {
		p.Printf("  log         no lines\n")
		return
	}
	p.Printf("  log, the last %d lines:\n", len(log))
	for _, line := range log {
		p.Printf("    %s\n", logText(line))
	}
}

// logText is a log line for people.
func logText(l driverhost.Line) string {
	return fmt.Sprintf("%s  g%d  %-6s %-5s %s", l.At.Local().Format("15:04:05.000"), l.Generation, l.Stream, l.Level, l.Text)
}

// statesText lists what rules can match of the actions that a driver states; empty: nothing.
func statesText(schema json.RawMessage) string {
	members, err := driver.ActionMembers(schema)
	if err != nil {
		return "" // it states none
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if members[name] != driver.MemberOther {
			all = append(all, fmt.Sprintf("%s (%s)", name, members[name]))
		}
	}
	return strings.Join(all, ", ")
}
