package drivers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/servers"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/server/operations"
	"github.com/kairos-mcp/kairos/core/server/socket"
	"github.com/kairos-mcp/kairos/core/setup"
)

// changeReport is what `reload` and `driver rollback` print of one server.
type changeReport struct {
	Server servers.Info  `json:"server"`
	Report *setup.Report `json:"report,omitempty"`
	// Refused is why nothing was changed.
	Refused string `json:"refused,omitempty"`
}

// Reload is `kairos reload`.
func Reload(at *session.Session) *cobra.Command {
	choice := servers.Choice{Own: true}
	out := new(output.Format)
	cmd := &cobra.Command{
		Use: "reload [DRIVER...]", ValidArgsFunction: completeDrivers(at),
		Short: "Reload configuration, tree and drivers in running servers",
		Long: "Each running server of this configuration reads configuration and tree again, starts, configures and probes the new\n" +
			"drivers beside the old ones, and then switches to all of it at once; calls in flight finish on the old ones. If anything\n" +
			"is wrong, nothing changes. Drivers named as arguments get a new process even if their binaries are the same.\n\n" +
			"A server of another configuration file, or without a file of another database, is left alone: --pid chooses it.",
		Example: "  kairos reload\n  kairos reload shell",
		RunE: func(cmd *cobra.Command, args []string) error {
			return changeServers(cmd, at, &choice, out, "the next server that starts takes the files as they are", func(ctx context.Context, t api.Transport) (setup.Report, error) {
				return operations.ReloadDrivers.Call(ctx, t, operations.ReloadRequest{Drivers: args})
			})
		},
	}
	choice.AddTo(cmd)
	return out.AddTo(cmd)
}

func driverRollbackCommand(at *session.Session, out *output.Format) *cobra.Command {
	choice := servers.Choice{Own: true}
	cmd := &cobra.Command{
		Use:   "rollback",
		Short: "Restore drivers, configuration and tree from before the last reload",
		Long: "Returns to the binaries that ran before, whatever the folder holds now, and writes them and their lock back into it.\n" +
			"The files of the configuration and the tree are not changed: correct them before the next reload.",
		Example: "  kairos driver rollback",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			const instead = "there is nothing to go back to; `kairos driver install` puts an earlier binary back in place"
			return changeServers(cmd, at, &choice, out, instead, func(ctx context.Context, t api.Transport) (setup.Report, error) {
				return operations.RollbackDrivers.Call(ctx, t, operations.NoRequest{})
			})
		},
	}
	choice.AddTo(cmd)
	return cmd
}

// reloadTime is how long to wait for all servers: new drivers start in it.
const reloadTime = 2 * time.Minute

// reasonOf is the server's own reason for not doing what was asked.
func reasonOf(err error) string {
	var f *fault.Error
	if errors.As(err, &f) {
		return f.Message
	}
	return err.Error()
}

// changeServers does the same to every server and prints what came of it.
func changeServers(cmd *cobra.Command, at *session.Session, choice *servers.Choice, out *output.Format, instead string,
	change func(context.Context, api.Transport) (setup.Report, error),
) error {
	return choice.Running(cmd, at, instead, func(found []socket.Found) error {
		reports := changeAll(cmd, found, change)
		err := out.Print(cmd.OutOrStdout(), struct {
			Servers []changeReport `json:"servers"`
		}{reports}, func(p *output.Printer) {
			for _, r := range reports {
				r.text(p)
			}
		})
		return errors.Join(err, refusals(reports))
	})
}

// changeAll does the same to every server, one after the other.
func changeAll(cmd *cobra.Command, found []socket.Found, change func(context.Context, api.Transport) (setup.Report, error)) []changeReport {
	reports := make([]changeReport, len(found))
	ctx, cancel := context.WithTimeout(cmd.Context(), reloadTime)
	defer cancel()
	for i, s := range found {
		reports[i].Server = servers.InfoOf(s)
		r, err := output.While(cmd.ErrOrStderr(), fmt.Sprintf("waiting for server %d", s.PID), func() (setup.Report, error) {
			return change(ctx, s)
		})
		if err != nil {
			reports[i].Refused = reasonOf(err)
			continue
		}
		reports[i].Report = &r
	}
	return reports
}

func (r changeReport) text(p *output.Printer) {
	if r.Report == nil {
		p.Printf("server %d: nothing changed: %s\n", r.Server.PID, output.Lines(r.Refused))
		return
	}
	what := "changed"
	switch {
	case r.Report.Changed():
	case len(r.Report.NeedsRestart) > 0:
		what = "nothing changed that a running server takes up"
	default:
		what = "nothing to change"
	}
	p.Printf("server %d: %s, took %s\n", r.Server.PID, what, took(*r.Report))
	for _, c := range r.Report.Changes {
		if c.Kind != "kept" {
			p.Printf("  %s\n", changeText(c))
		}
	}
	for _, part := range []struct {
		name   string
		change setup.Difference
	}{{"tree", r.Report.Tree}, {"rules", r.Report.Rules}, {"settings", r.Report.Settings}} {
		if part.change == setup.Changed {
			p.Printf("  %-9s %s\n", part.change, part.name)
		}
	}
	for _, key := range r.Report.NeedsRestart {
		p.Printf("  needs a restart of the server: %s\n", key)
	}
	for _, w := range r.Report.Warnings {
		p.Printf("  warning: %s\n", w)
	}
}

func took(r setup.Report) time.Duration { return time.Duration(r.Took).Round(time.Millisecond) }

func changeText(c driverhost.Change) string {
	text := fmt.Sprintf("%-9s %s", c.Kind, c.Driver)
	from, to := versionText(c.From), versionText(c.To)
	switch {
	case from == "" || from == to:
		text += " " + to
	case to == "":
		text += " " + from
	default:
		text += " " + from + " -> " + to
	}
	if len(c.Why) > 0 {
		text += " (" + strings.Join(c.Why, ", ") + ")"
	}
	return text
}

func versionText(v driverhost.Version) string {
	if v.Version == "" {
		return ""
	}
	return v.Version + " " + output.ShortSum(v.SHA256)
}

func driverLogsCommand(at *session.Session, out *output.Format) *cobra.Command {
	var logs servers.Logs
	cmd := &cobra.Command{
		Use: "logs NAME", Short: "Print the log of a driver from every running server", Args: oneDriver(at), ValidArgsFunction: session.First(completeDrivers(at)),
		Example: "  kairos driver logs shell\n  kairos driver logs shell -f",
		Long: "Prints the last lines that a driver wrote, and what the server noted about it. With -o json each line is\n" +
			"one JSON object.",
		RunE: func(cmd *cobra.Command, args []string) error {
			return logs.Read(cmd, at, out, func(ctx context.Context, s socket.Found, in operations.LogRequest, print servers.Printed) (int, error) {
				r, err := operations.DriverLogs.Call(ctx, s, operations.DriverLogsRequest{LogRequest: in, Driver: args[0]})
				for _, line := range r.Lines {
					err = errors.Join(err, print(printedLine{s.PID, line}, logText(line)))
				}
				return r.Next, err
			})
		},
	}
	logs.AddTo(cmd)
	return cmd
}

// printedLine is a log line and the server it comes from.
type printedLine struct {
	Server int `json:"server"` // process id
	driverhost.Line
}
