package ops

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/servers"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
	"github.com/kairos-mcp/kairos/core/server/operations"
	"github.com/kairos-mcp/kairos/core/server/socket"
)

func logsCommand(at *session.Session) *cobra.Command {
	var choice servers.Choice
	out, lines, follow := new(output.Format), 0, false
	level := "debug"
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
			c := servers.Look(*at, cmd.ErrOrStderr())
			return choice.WithTarget(cmd.Context(), c, func(found []socket.Found) error {
				if err := servers.NeedServer(found, c, "the lines live with the server, whose stderr has them too"); err != nil {
					return err
				}
				l := servers.NewLogPrinter(out, cmd.OutOrStdout(), found)
				return servers.ReadLogs(cmd.Context(), found, follow, func(ctx context.Context, s socket.Found, after int) (int, error) {
					in := operations.ServerLogsRequest{LogRequest: operations.LogRequest{Lines: lines, After: after}, Level: least}
					r, err := operations.ServerLogs.Call(ctx, s, in)
					for _, record := range r.Records {
						err = errors.Join(err, printRecord(l, s, record))
					}
					return r.Next, err
				})
			})
		},
	}
	out.AddTo(cmd)
	choice.AddTo(cmd)
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "print new lines until interrupted")
	cmd.Flags().IntVar(&lines, "lines", operations.DefaultLines, "how many of the last lines")
	cmd.Flags().StringVar(&level, "level", level, "only lines of this level or a worse one: debug, info, warn or error")
	err := cmd.RegisterFlagCompletionFunc("level", cobra.FixedCompletions([]cobra.Completion{"debug", "info", "warn", "error"}, cobra.ShellCompDirectiveNoFileComp))
	if err != nil {
		panic(err) // the flag is there
	}
	return cmd
}

// printRecord prints a record of the log of a server.
func printRecord(l *servers.LogPrinter, f socket.Found, record json.RawMessage) error {
	fields := map[string]any{}
	if err := json.Unmarshal(record, &fields); err != nil {
		return fmt.Errorf("read the log of server %d: %w", f.PID, err)
	}
	text := logText(fields)
	fields["server"] = f.PID
	return l.Print(f, fields, text)
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
