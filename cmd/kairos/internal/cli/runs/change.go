package runs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/app"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/archive"
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
				return output.Reply(cmd, out, printCancelled)(operations.CancelRun.Call(ctx, t, operations.CancelRunRequest{RunRequest: operations.RunRequest{RunID: id}, By: session.Operator()}))
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
				return output.Reply(cmd, out, printDecided)(operations.DecideRun.Call(ctx, t, in))
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
				return output.Reply(cmd, out, printUndeclined)(a.Engine.Runs.Undecline(ctx, a.RunCaller(), director.UndeclineInput{Run: id, By: session.Operator(), Reason: reason}))
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

// runsRedact is `kairos runs redact`.
func runsRedact(at *session.Session, out *output.Format) *cobra.Command {
	var in archive.RedactInput
	cmd := &cobra.Command{
		Use: "redact RUN", Short: "Redact the evidence of a run",
		Annotations: session.StaysLocal("it erases for good and rewrites the files of the database, so run it on the machine that has them"),
		Args:        cobra.ExactArgs(1), ValidArgsFunction: at.CompleteRuns,
		Long: `Erases answers and what quotes them: evidence, outputs, questions, recorded replies, for a whole run its input, and who
answered. Digests, times, drivers and whose run it is stay, so the proof chain still verifies. This cannot be undone. It does not reach backups,
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
				if err = output.Reply(cmd, out, printRedacted)(reply, err); err == nil && reply.Remains != "" {
					err = fmt.Errorf("the run is redacted, but what was erased may still be in the files: %s", reply.Remains)
				}
				return err
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
	if r.Verified {
		p.Printf("its digests stay, and its proofs still verify\n")
		return
	}
	p.Printf("its digests stay; the run is not verified\n")
}

// runsPrune is `kairos runs prune`.
func runsPrune(at *session.Session, out *output.Format) *cobra.Command {
	var in archive.PruneInput
	var olderThan age
	cmd := &cobra.Command{
		Use: "prune", Short: "Remove runs that ended long ago",
		Annotations: session.StaysLocal("it removes runs for good, so run it on the machine that has the database"),
		Args:        cobra.NoArgs,
		Long: `Removes runs that ended longer ago than --older-than, with everything recorded of them, whoever began them, and makes the
database file smaller. Without --older-than the time is that of run.keep, by which a running server prunes every ten
minutes. Export a statement first if a run must be provable later. With --dry-run nothing is removed.`,
		Example: "  kairos runs prune --dry-run\n  kairos runs prune --older-than 30d",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return at.With(cmd.Context(), func(ctx context.Context, a *app.App) error {
				if in.OlderThan = time.Duration(olderThan); !cmd.Flags().Changed("older-than") {
					in.OlderThan = time.Duration(*a.Config.Run.Keep)
				}
				if in.OlderThan <= 0 {
					return errors.New("run.keep is 0s, which keeps runs forever: say with --older-than which ones to remove, for example --older-than 90d")
				}
				return output.Reply(cmd, out, printPruned)(a.Engine.Archive.Prune(ctx, a.RunCaller(), in))
			})
		},
	}
	cmd.Flags().Var(&olderThan, "older-than", "remove those that ended longer ago, such as 30d or 12h (default run.keep)")
	cmd.Flags().BoolVar(&in.DryRun, "dry-run", false, "remove nothing, say what would be removed")
	return cmd
}

func printPruned(p *output.Printer, r archive.PruneReply) {
	runs, ended := output.Count(r.Runs, "run"), output.Moment(r.Before)
	if r.DryRun {
		p.Printf("%s that ended before %s would be removed\n", runs, ended)
	} else {
		p.Printf("%s that ended before %s removed\n", runs, ended)
	}
	if r.Size == 0 {
		return // a server keeps the files
	}
	p.Printf("the database has %s, %s of it free", megabytes(r.Size), megabytes(r.Free))
	if r.Freed > 0 {
		p.Printf("; it is %s smaller than before", megabytes(r.Freed))
	}
	p.Printf("\n")
}

func megabytes(bytes int64) string { return fmt.Sprintf("%.1f MB", float64(bytes)/1e6) }

// maxDays is as many days as a duration can be.
const maxDays = int(math.MaxInt64 / (24 * time.Hour))

// age is a duration as a flag that may also be given in days.
type age time.Duration

func (a *age) String() string { return "" }
func (a *age) Type() string   { return "duration" }

func (a *age) Set(text string) error {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.Atoi(days)
		if err != nil || n < 0 || n > maxDays {
			return fmt.Errorf("%q is not a number of days, such as 30d", text)
		}
		*a = age(time.Duration(n) * 24 * time.Hour)
		return nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return fmt.Errorf("%q is not a duration, such as 30d or 12h", text)
	}
	*a = age(d)
	return nil
}
