package runs

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/app"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
	"github.com/kairos-mcp/kairos/core/director"
	"github.com/kairos-mcp/kairos/core/run"
)

// runsUndecline is `kairos runs undecline`. An agent that reaches the server must not take
// back what a person declined, so no server offers it.
func runsUndecline(at *session.Session, out *output.Format) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "undecline RUN", Short: "Revoke what was declined in a run",
		Annotations: session.StaysLocal("whoever reaches a server could take back what a person declined, so run it on the machine that has the database"),
		Args:        cobra.ExactArgs(1), ValidArgsFunction: at.CompleteRuns,
		Long: `Takes back what people declined in a run, and what keeps its open step from being approved because the same was declined
in another run. It approves nothing: the agent may continue the run, and the person is asked again. The run records who
took the decline back and why, and shows it to the person who is asked next.

A decline in a form can also be changed by the person in a form. One on an approval page cannot be changed there: the
holder of a link is not identified, so no link takes a decline back.`,
		Example: "  kairos runs undecline RUN --reason 'Ann pressed the wrong button'",
		RunE: func(cmd *cobra.Command, args []string) error {
			return at.WithLocalRun(cmd.Context(), args[0], func(ctx context.Context, a *app.App, id run.ID) error {
				reply, err := a.Engine.Undecline(ctx, a.RunCaller(), director.UndeclineInput{Run: id, By: session.Operator(), Reason: reason})
				if err != nil {
					return err
				}
				return out.Print(cmd.OutOrStdout(), reply, func(p *output.Printer) { printUndeclined(p, reply) })
			})
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for whoever looks at the run later and for the person who is asked again")
	return cmd
}

func printUndeclined(p *output.Printer, r director.UndeclineReply) {
	for _, d := range r.Declines {
		p.Printf("taken back: step %d (%q of %q) of run %s, declined at %s through %s\n", d.Step, d.Label, d.Title, d.RunID, d.At.UTC().Format(time.RFC3339), d.Via)
	}
	if r.Open {
		p.Printf("run %s: the agent can continue, and the person is asked again\n", r.RunID)
	}
}
