package runs

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/app"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
	"github.com/kairos-mcp/kairos/core/archive"
	"github.com/kairos-mcp/kairos/core/run"
)

// runsRedact is `kairos runs redact`.
func runsRedact(at *session.Session, out *output.Format) *cobra.Command {
	var in archive.RedactInput
	cmd := &cobra.Command{
		Use: "redact RUN", Short: "Redact the evidence of a run",
		Annotations: session.StaysLocal("it erases for good and rewrites the files of the database, so run it on the machine that has them"),
		Args:        cobra.ExactArgs(1), ValidArgsFunction: at.CompleteRuns,
		Long: `Erases answers and what quotes them: evidence, outputs, questions, recorded replies, and for a whole run its input. Digests,
times, drivers and who approved stay, so the proof chain still verifies. This cannot be undone. It does not reach backups,
statements exported with their evidence, logs and the copies of clients.

With --step only one solved step is erased, also in an open run, unless an unsolved step needs its result.
The database file is rewritten: if it is large, this takes a while and other processes wait.`,
		Example: "  kairos runs redact 01a1fcdc-c44f-78f1-b508-a6e8e5cc1fc2 --reason 'asked by the customer'\n  kairos runs redact 01a1fcdc-c44f-78f1-b508-a6e8e5cc1fc2 --step 2",
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("step") && in.Step < 1 {
				return fmt.Errorf("--step is %d: steps are counted from 1", in.Step)
			}
			return at.WithLocalRun(cmd.Context(), args[0], func(ctx context.Context, a *app.App, id run.ID) error {
				in.Run = id
				reply, err := a.Engine.Archive.Redact(ctx, a.RunCaller(), in)
				if err != nil {
					return err
				}
				if err := out.Print(cmd.OutOrStdout(), reply, func(p *output.Printer) { printRedacted(p, reply) }); err != nil {
					return err
				}
				if reply.Remains != "" {
					return fmt.Errorf("the run is redacted, but what was erased may still be in the files: %s", reply.Remains)
				}
				return nil
			})
		},
	}
	cmd.Flags().IntVar(&in.Step, "step", 0, "erase this solved step only, counted from 1")
	cmd.Flags().StringVar(&in.Reason, "reason", "", "why, for whoever looks at the run later; it is kept")
	return cmd
}

func printRedacted(p *output.Printer, r archive.RedactReply) {
	p.Printf("run %s: the evidence of %s is erased\n", r.RunID, run.StepsText(r.Steps))
	if len(r.Quoting) > 0 {
		p.Printf("what was asked in %s quoted it and is erased, too; their own evidence stays: erase it as well if it repeats the values\n", run.StepsText(r.Quoting))
	}
	p.Printf("its digests stay; the run is verified: %t\n", r.Verified)
}
