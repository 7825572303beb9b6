package runs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/director"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/server/operations"
)

// runsDecide is `kairos runs decide`.
func runsDecide(at *session.Session, out *output.Format) *cobra.Command {
	var in operations.DecideRunRequest
	var happened, not bool
	var result string
	cmd := &cobra.Command{
		Use: "decide RUN --happened|--did-not-happen --reason TEXT", Short: "Decide a call whose outcome is unknown", Args: cobra.ExactArgs(1), Annotations: session.AsksServers, ValidArgsFunction: at.CompleteRuns,
		Long: `Decides a run that waits with OUTCOME_UNKNOWN: a driver that acts on the outside world was called, and it is not known
whether it acted. Find out first, for example in your bank account. The run records the decision, who made it and why.

--did-not-happen  the next submission makes another attempt
--happened        the call is not repeated; --result is its result, as JSON. Only you vouch for it, so it counts as reported`,
		Example: "  kairos runs decide RUN --did-not-happen --reason 'no transfer on the statement'",
		RunE: func(cmd *cobra.Command, args []string) error {
			if happened == not {
				return errors.New("say one of --happened and --did-not-happen")
			}
			if result != "" && !json.Valid([]byte(result)) {
				return fmt.Errorf("--result is not JSON: %.80q; a text needs its quotes: --result '\"done\"'", result)
			}
			in.Happened, in.Result = happened, json.RawMessage(result)
			in.By = session.Operator()
			return at.WithRun(cmd.Context(), args[0], func(ctx context.Context, t api.Transport, id run.ID) error {
				in.RunID = id
				reply, err := operations.DecideRun.Call(ctx, t, in)
				if err != nil {
					return err
				}
				return out.Print(cmd.OutOrStdout(), reply, func(p *output.Printer) { printDecided(p, reply) })
			})
		},
	}
	cmd.Flags().BoolVar(&happened, "happened", false, "the driver did act")
	cmd.Flags().BoolVar(&not, "did-not-happen", false, "the driver did not act")
	cmd.Flags().StringVar(&result, "result", "", "what came of it, as JSON: the answer that the driver obtains, or the output of the step")
	cmd.Flags().StringVar(&in.Reason, "reason", "", "how you know, for whoever looks at the run later; required")
	return cmd
}

func printDecided(p *output.Printer, r director.DecideReply) {
	said := "did not happen: the next submission makes another attempt"
	if r.Happened {
		said = "happened: it is not called again for this step's attempt"
	}
	p.Printf("run %s: attempt %d of driver %s at step %d %s\n", r.RunID, r.Attempt, r.Driver, r.Step, said)
}
