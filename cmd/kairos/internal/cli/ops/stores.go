package ops

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/app"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/config"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/index"
	"github.com/kairos-mcp/kairos/core/outlines"
)

// dbCommand is `kairos db`.
func dbCommand(at *session.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use: "db", Short: "Copy the database, and check what is made from it",
		Example: "  kairos db backup /backup/kairos-monday.db\n  kairos db index check",
	}
	cmd.AddCommand(backupCommand(at), migrateCommand(at), indexCommand(at), embeddingCommand(at))
	return cmd
}

// backedUp is what `kairos db backup` prints.
type backedUp struct {
	File  string `json:"file"`
	Bytes int64  `json:"bytes"`
	// AlsoKeep are the files that a restored server needs besides the copy.
	AlsoKeep []string `json:"also_keep"`
}

// backupCommand is `kairos db backup`.
func backupCommand(at *session.Session) *cobra.Command {
	out := new(output.Format)
	cmd := &cobra.Command{
		Use: "backup FILE", Short: "Copy the SQLite database while servers use it", Args: cobra.ExactArgs(1),
		Long: "Writes a copy of the database, as it is at one moment, to a new file, and checks the copy as `kairos doctor --deep` does before\n" +
			"the file gets its name. It overwrites nothing. Servers may run. For a database on a PostgreSQL server it names the command\n" +
			"to use. Keys and configuration are not in the copy: the command lists the files to keep with it.",
		Example: "  kairos db backup /backup/kairos-monday.db",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := at.Load()
			if err != nil {
				return err
			}
			size, err := output.While(cmd.ErrOrStderr(), "copying and checking", func() (int64, error) {
				return app.Backup(cmd.Context(), c.Database, args[0])
			})
			if err != nil {
				return err
			}
			made := backedUp{File: args[0], Bytes: size, AlsoKeep: besides(c, at.File)}
			return out.Print(cmd.OutOrStdout(), made, func(p *output.Printer) {
				p.Printf("%s: %.1f MB, checked\n", made.File, float64(made.Bytes)/1e6)
				for _, f := range made.AlsoKeep {
					p.Printf("also keep %s\n", f)
				}
			})
		},
	}
	return out.AddTo(cmd)
}

// besides lists those files of an installation that exist and that nothing can make
// again.
func besides(c config.Config, file string) []string {
	kept := []string{}
	for _, path := range []string{file, c.Keys().SigningFile(), c.Keys().StateFile(), c.Tree, c.ToolsFile, config.LockPath(c.Drivers.Dir)} {
		if _, err := os.Stat(path); err == nil {
			kept = append(kept, path)
		}
	}
	return kept
}

// migrateCommand is `kairos db migrate`.
func migrateCommand(at *session.Session) *cobra.Command {
	var to string
	cmd := &cobra.Command{
		Use: "migrate --to ADDRESS", Short: "Copy the SQLite database with protocols and runs to PostgreSQL", Args: cobra.NoArgs,
		Long: "Copies protocols with their history, ratings and vectors, runs with everything that happened in them, acceptances and declines from the\n" +
			"configured SQLite database into an empty PostgreSQL database. Stop all servers before. The SQLite file stays as it is.\n\n" +
			"Others can see the command line: leave the password out of the address and set PGPASSWORD or PGPASSFILE.",
		Example: "  kairos db migrate --to postgres://kairos@db.example/kairos",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := at.Load()
			if err != nil {
				return err
			}
			target := config.Database(to)
			if err := target.Understand(); err != nil {
				return fmt.Errorf("--to: %w", err)
			}
			p := output.NewProgress(cmd.ErrOrStderr(), 0, "moving")
			defer p.End()
			shown := 0
			moved, err := app.Migrate(cmd.Context(), c.Database, target, func(m app.Moved) {
				all := m.Protocols + m.Versions + m.Runs
				p.Add(all - shown)
				shown = all
			})
			p.End()
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "moved %s with %s, and %s\n"+
				"now set database: to that address, and copy %s and %s to every server\n",
				output.Count(moved.Protocols, "protocol"), output.Count(moved.Versions, "older version"), output.Count(moved.Runs, "run"),
				c.Keys().StateFile(), c.Keys().SigningFile())
			return nil
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "address of an empty PostgreSQL database: postgres://USER@HOST/NAME")
	if err := cmd.MarkFlagRequired("to"); err != nil {
		panic(err) // the flag is there
	}
	return cmd
}

// index checks the index in Qdrant, if there is one.
func (r *doctorReport) index(ctx context.Context, a *app.App) {
	if a.Index == nil {
		n, err := a.Protocols(ctx)
		if err != nil {
			r.check("search", "", "", err)
		}
		r.library(n, a.Config.Embedding.Endpoint())
		return
	}
	fix := app.IndexFix
	err := a.Index.Usable(ctx)
	if f := (*fault.Error)(nil); errors.As(err, &f) && f.Hint != "" {
		fix = f.Hint
	}
	r.check("index", a.Index.Feeder.Location(), fix, err)
}

// library warns of more protocols than searches compare well.
func (r *doctorReport) library(protocols int, endpoint bool) {
	if protocols <= outlines.Many {
		return
	}
	fix := "split the library among databases, if searches take too long"
	if endpoint {
		fix = "let an index on a Qdrant server find the nearest: qdrant.url"
	}
	r.note("search", fmt.Sprintf("%d protocols", protocols))
	r.warn("every search compares all protocols in memory, which takes a processor 2 ms for each thousand", fix)
}

func indexCommand(at *session.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use: "index", Short: "Check or rebuild the index of the protocols in Qdrant",
		Long: `The database has all protocols; the index on a Qdrant server (qdrant.url) is made from it. A running server keeps
it up to date.`,
		Example: "  kairos db index check\n  kairos db index rebuild",
	}
	cmd.AddCommand(indexCheck(at), indexRebuild(at))
	return cmd
}

// withIndex calls do with the index, which has to be configured.
func withIndex(cmd *cobra.Command, at *session.Session, do func(context.Context, *app.Index, *output.Progress) error) error {
	quiet := *at
	quiet.LogLevel = "error" // what fails is the error of the command
	return quiet.With(cmd.Context(), func(ctx context.Context, a *app.App) error {
		if a.Index == nil {
			return errors.New("there is no index: set qdrant.url or QDRANT_URL to the address of a Qdrant server")
		}
		if err := a.Index.Reachable(ctx); err != nil {
			return err
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
something differs; kairos db index rebuild corrects it.`,
		Example: "  kairos db index check",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withIndex(cmd, at, func(ctx context.Context, x *app.Index, p *output.Progress) error {
				r, err := x.Feeder.Compare(ctx, p.Add)
				p.End()
				if err != nil {
					return err
				}
				err = out.Print(cmd.OutOrStdout(), r, func(p *output.Printer) { printDifference(p, r, x.Feeder.Location()) })
				if err == nil && !r.Good() {
					err = errors.New("the index differs from the database; run `kairos db index rebuild`")
				}
				return err
			})
		},
	}
	return out.AddTo(cmd)
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
		Example: "  kairos db index rebuild\n  kairos db index rebuild --replace",
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
