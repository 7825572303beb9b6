package runs

import (
	"context"
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
	"github.com/kairos-mcp/kairos/core/archive"
)

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
				reply, err := a.Engine.Archive.Prune(ctx, in)
				if err != nil {
					return err
				}
				return out.Print(cmd.OutOrStdout(), reply, func(p *output.Printer) { printPruned(p, reply) })
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
