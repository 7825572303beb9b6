package ops

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/app"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/servers"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/core/replicas"
	"github.com/kairos-mcp/kairos/core/server/operations"
	"github.com/kairos-mcp/kairos/core/server/socket"
)

// statusReport is what `kairos status` prints.
type statusReport struct {
	Database string         `json:"database"`
	Servers  []serverStatus `json:"servers"`
}

// serverStatus is one server.
type serverStatus struct {
	ID      string    `json:"id,omitempty"` // among those that share a database
	Address string    `json:"address,omitempty"`
	Version string    `json:"version"`
	Started time.Time `json:"started"`
	// Unseen is for how many seconds it has not said that it is there.
	Unseen float64 `json:"unseen_seconds"`
	// Lost: it has not said so for too long.
	Lost bool `json:"lost"`
	replicas.State
}

func statusCommand(at *session.Session) *cobra.Command {
	out := new(output.Format)
	cmd := &cobra.Command{
		Use: "status", Short: "List the running servers of the database", Args: cobra.NoArgs,
		Long: `Lists the servers that use the database, with the addresses at which they serve HTTP. With SQLite they are those of this
machine that also run with the drivers of this configuration. With PostgreSQL they are those of all machines, as each reports itself
every 5 s; one that was killed is listed as lost for an hour. kairos reload, kairos driver and kairos logs talk to the servers of
this machine only.`,
		Example: "  kairos status\n  kairos status -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			at.NoteUnread(cmd)
			return output.Reply(cmd, out, printStatus)(status(cmd, at))
		},
	}
	return out.AddTo(cmd)
}

func status(cmd *cobra.Command, at *session.Session) (report statusReport, err error) {
	c := servers.Look(*at, cmd.ErrOrStderr())
	report = statusReport{Database: c.Config.Database.String(), Servers: []serverStatus{}}
	if !c.Config.Database.Postgres() {
		return report, new(servers.Choice).WithMaybe(cmd, c, func(found []socket.Found) error { return report.addLocal(cmd.Context(), c.OfDatabase(found)) })
	}
	return report, at.With(cmd.Context(), func(ctx context.Context, a *app.App) error {
		all, _, err := app.Replicas(ctx, a)
		for _, r := range all {
			report.Servers = append(report.Servers, serverStatus{
				ID: r.ID, Address: cmp.Or(r.Address, r.State.HTTP), Version: r.Version, Started: r.Started, Unseen: max(r.Unseen, 0).Seconds(), Lost: r.Lost(), State: r.State,
			})
		}
		return err
	})
}

// addLocal adds servers of this machine.
func (r *statusReport) addLocal(ctx context.Context, found []socket.Found) error {
	for _, f := range found {
		s := serverStatus{Address: f.HTTP, Version: f.Version, Started: f.StartedAt, State: replicas.State{PID: f.PID, Drivers: []replicas.Driver{}}}
		all, err := servers.Drivers(ctx, f)
		if err != nil {
			return fmt.Errorf("ask server %d: %w", f.PID, err)
		}
		for _, d := range all {
			s.Drivers = append(s.Drivers, replicas.Driver{Name: d.Name, Version: d.Version, State: string(d.State)})
			if d.State == driverhost.BreakerOpen {
				s.NotReady = strings.TrimPrefix(s.NotReady+", ", ", ") + "driver " + d.Name + " fails again and again"
			}
		}
		r.Servers = append(r.Servers, s)
	}
	return nil
}

func printStatus(p *output.Printer, r statusReport) {
	if len(r.Servers) == 0 {
		p.Printf("no server uses %s, or none that has answered a call yet\n", r.Database)
		return
	}
	rows := [][]string{{"SERVER", "HOST", "PID", "ADDRESS", "VERSION", "SINCE", "SEEN", "STATE"}}
	for _, s := range r.Servers {
		rows = append(rows, []string{
			cmp.Or(s.ID, "-"), cmp.Or(s.Host, "-"), strconv.Itoa(s.PID), cmp.Or(s.Address, "-"), s.Version, output.Moment(s.Started),
			time.Duration(s.Unseen*float64(time.Second)).Round(time.Second).String() + " ago", s.word(),
		})
	}
	p.Table(rows)
	for _, s := range r.Servers {
		if len(s.Jobs) > 0 && !s.Lost {
			p.Printf("%s does for all: %s\n", s.ID, strings.Join(s.Jobs, ", "))
		}
		if s.NotReady != "" && !s.Lost {
			p.Printf("%s: %s\n", cmp.Or(s.ID, strconv.Itoa(s.PID)), s.NotReady)
		}
	}
}

// word is the state of the server.
func (s serverStatus) word() string {
	switch {
	case s.Lost:
		return "lost"
	case s.NotReady != "":
		return "not ready"
	}
	return "ready, " + output.Count(len(s.Drivers), "driver")
}

func logsCommand(at *session.Session) *cobra.Command {
	var logs servers.Logs
	out, level := new(output.Format), "debug"
	cmd := &cobra.Command{
		Use: "logs", Short: "Print the log of every running server", Args: cobra.NoArgs,
		Long: "Prints the latest lines that the running servers of this configuration logged. A server keeps the last 1000, of what its\n" +
			"log.level lets through, and forgets them when it ends: what has to last is what it writes to stderr. With -o json each\n" +
			"line is one JSON object. `kairos driver logs` prints what a driver wrote.",
		Example: "  kairos logs\n  kairos logs --level warn --follow",
		RunE: func(cmd *cobra.Command, _ []string) error {
			var least slog.Level
			if err := least.UnmarshalText([]byte(level)); err != nil {
				return fmt.Errorf("--level is %q: must be debug, info, warn or error", level)
			}
			return logs.Read(cmd, at, out, func(ctx context.Context, f socket.Found, in operations.LogRequest, print servers.Printed) (int, error) {
				r, err := operations.ServerLogs.Call(ctx, f, operations.ServerLogsRequest{LogRequest: in, Level: least})
				for _, record := range r.Records {
					fields := map[string]any{}
					if bad := json.Unmarshal(record, &fields); bad != nil {
						return r.Next, fmt.Errorf("read the log of server %d: %w", f.PID, bad)
					}
					text := logText(fields)
					fields["server"] = f.PID
					err = errors.Join(err, print(fields, text))
				}
				return r.Next, err
			})
		},
	}
	logs.AddTo(cmd)
	cmd.Flags().StringVar(&level, "level", level, "only lines of this level or a worse one: debug, info, warn or error")
	err := cmd.RegisterFlagCompletionFunc("level", cobra.FixedCompletions([]cobra.Completion{"debug", "info", "warn", "error"}, cobra.ShellCompDirectiveNoFileComp))
	if err != nil {
		panic(err) // the flag is there
	}
	return out.AddTo(cmd)
}

// logText is a record for people: its time, level and message, then the rest.
func logText(fields map[string]any) string {
	var b strings.Builder
	clock, _ := fields[slog.TimeKey].(string)
	if at, err := time.Parse(time.RFC3339Nano, clock); err == nil {
		clock = at.Local().Format("15:04:05.000")
	}
	fmt.Fprintf(&b, "%s  %-5v  %v", clock, fields[slog.LevelKey], fields[slog.MessageKey])
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		if key != slog.TimeKey && key != slog.LevelKey && key != slog.MessageKey {
			fmt.Fprintf(&b, "  %s=%v", key, fields[key])
		}
	}
	return b.String()
}
