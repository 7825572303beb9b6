package runs

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/director"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/server/operations"
)

// runsCancel is `kairos runs cancel`.
func runsCancel(at *session.Session, out *output.Format) *cobra.Command {
	return &cobra.Command{
		Use: "cancel RUN", Short: "Cancel what a driver does for a run", Args: cobra.ExactArgs(1), Annotations: session.AsksServers, ValidArgsFunction: at.CompleteRuns,
		Long: `Ends what a driver does for the open step of a run, such as a command that KAIROS runs. The run stays open, and
nothing is counted.

With --url the server ends it at once. Without, the run records it, and the server that runs the driver ends it when it
looks next: at once while a client waits, else with the client's next call.`,
		Example: "  kairos runs cancel RUN",
		RunE: func(cmd *cobra.Command, args []string) error {
			return at.WithRun(cmd.Context(), args[0], func(ctx context.Context, t api.Transport, id run.ID) error {
				reply, err := operations.CancelRun.Call(ctx, t, operations.CancelRunRequest{RunRequest: operations.RunRequest{RunID: id}, By: session.Operator()})
				if err != nil {
					return err
				}
				return out.Print(cmd.OutOrStdout(), reply, func(p *output.Printer) { printCancelled(p, reply) })
			})
		},
	}
}

func printCancelled(p *output.Printer, r director.CancelReply) {
	said := "is told when its server asks it next"
	if r.Ended {
		said = "has ended it"
	}
	p.Printf("run %s: cancelled; driver %s, at step %d, %s\n", r.RunID, r.Driver, r.Step, said)
}
