package ops

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/app"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/index"
)

// indexFix is what to do about an index that cannot be used.
const indexFix = "start Qdrant, or correct the section qdrant of the configuration; nothing is lost meanwhile"

// index checks the index in Qdrant, if there is one.
func (r *doctorReport) index(ctx context.Context, a *app.App) {
	if a.Index == nil {
		return
	}
	fix := indexFix
	err := a.Index.Usable(ctx)
	if f := (*fault.Error)(nil); errors.As(err, &f) && f.Hint != "" {
		fix = f.Hint
	}
	r.check("index", a.Index.Feeder.Location(), fix, err)
}

func indexCommand(at *session.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use: "index", Short: "Check or rebuild the index of the protocols in Qdrant",
		Long: `The database has all protocols; the index on a Qdrant server (qdrant.url) is made from it. A running server keeps
it up to date.`,
		Example: "  kairos index check\n  kairos index rebuild",
	}
	cmd.AddCommand(indexCheck(at), indexRebuild(at))
	return cmd
}

// withIndex calls do with the index, which has to be configured.
func withIndex(cmd *cobra.Command, at *session.Session, do func(context.Context, *app.Index, *output.Progress) error) error {
	return at.With(cmd.Context(), func(ctx context.Context, a *app.App) error {
		if a.Index == nil {
			return errors.New("there is no index: set qdrant.url or QDRANT_URL to the address of a Qdrant server")
		}
		total := 0
		for cursor := ""; ; {
			page, next, err := a.Store.Protocols.Entries(ctx, cursor, 1000)
			if err != nil {
				return err
			}
			if total, cursor = total+len(page), next; next == "" {
				break
			}
		}
		p := output.NewProgress(cmd.ErrOrStderr(), total, "reading protocols")
		defer p.End()
		return do(ctx, a.Index, p)
	})
}

func indexCheck(at *session.Session) *cobra.Command {
	out := new(output.Format)
	cmd := &cobra.Command{
		Use: "check", Short: "Compare every step in the index with the database", Args: cobra.NoArgs,
		Long: `Delivers what the index lacks, then compares the payload and the vector of every step. The exit status is 1 if
something differs; kairos index rebuild corrects it.`,
		Example: "  kairos index check",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withIndex(cmd, at, func(ctx context.Context, x *app.Index, p *output.Progress) error {
				r, err := x.Feeder.Compare(ctx, p.Add)
				p.End()
				if err != nil {
					return err
				}
				if err := out.Print(cmd.OutOrStdout(), r, func(p *output.Printer) { printDifference(p, r, x.Feeder.Location()) }); err != nil {
					return err
				}
				if !r.Good() {
					return errors.New("the index differs from the database; run `kairos index rebuild`")
				}
				return nil
			})
		},
	}
	out.AddTo(cmd)
	return cmd
}

func printDifference(p *output.Printer, r index.Report, where string) {
	p.Printf("%s\n%s, %s: %d missing, %d wrong, %d stray\n", where, output.Count(r.Protocols, "protocol"), output.Count(r.Steps, "step"), r.Missing, r.Wrong, r.Stray)
	for _, title := range r.Of {
		p.Printf("  %s\n", title)
	}
}

func indexRebuild(at *session.Session) *cobra.Command {
	replace := false
	cmd := &cobra.Command{
		Use: "rebuild", Short: "Remove the index and make it again from the database", Args: cobra.NoArgs,
		Long: `Removes the collections of this database's index and makes a new one. Nothing else in Qdrant is touched. Servers
may run: their searches use the database alone until the index is complete. If the command is interrupted, a running
server continues.

With --replace it also removes the index of the database that had the name qdrant.collection before: for a database
that was restored from a backup and replaces that one.`,
		Example: "  kairos index rebuild\n  kairos index rebuild --replace",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withIndex(cmd, at, func(ctx context.Context, x *app.Index, p *output.Progress) error {
				if replace {
					if err := x.Release(ctx); err != nil {
						return err
					}
				}
				n := 0
				if err := x.Feeder.Rebuild(ctx, func(more int) { n += more; p.Add(more) }); err != nil {
					return err
				}
				p.End()
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", x.Feeder.Location(), output.Count(n, "protocol"))
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&replace, "replace", false, "also replace the index of another database under this name")
	return cmd
}
