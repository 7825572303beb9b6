package library

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/app"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/library"
)

// importBatch is how many documents are judged side by side and stored in one
// write: enough to make the write cheap, few enough for a lively progress bar.
const importBatch = 128

func exportCommand(at *session.Session) *cobra.Command {
	var in library.ExportInput
	force := false
	out := new(output.Format)
	cmd := &cobra.Command{
		Use:   "export DIR",
		Short: "Export all protocols into a folder of Markdown files",
		Long: `Writes each protocol as a Markdown file, and what the files do not say (identities, times, ratings) into
` + exportIndex + `. The built-in protocols are left out. kairos import reads the folder, whatever the database is.`,
		Example: "  kairos protocols export backup",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return at.With(cmd.Context(), func(ctx context.Context, a *app.App) error {
				w, err := newExportFolder(args[0], force)
				if err != nil {
					return err
				}
				defer w.close()
				p := output.NewProgress(cmd.ErrOrStderr(), 0, "exporting")
				defer p.End()
				for protocol, err := range a.Engine.Library.Export(ctx, a.Caller(), in) {
					if err == nil {
						err = w.add(protocol)
					}
					if err != nil {
						return err
					}
					p.Add(1)
				}
				if err := w.finish(); err != nil {
					return err
				}
				p.End()
				return out.Print(cmd.OutOrStdout(), w.report, func(p *output.Printer) {
					p.Printf("%s and %s of the past in %s\n", output.Count(w.report.Protocols, "protocol"), output.Count(w.report.Older, "version"), args[0])
				})
			})
		},
	}
	out.AddTo(cmd)
	cmd.Flags().StringVar(&in.Space, "space", "", "only this space; else all that you may write to")
	cmd.Flags().BoolVar(&in.History, "history", false, "with the older versions")
	cmd.Flags().BoolVar(&force, "force", false, "write into a folder that holds other things")
	return cmd
}

func importCommand(at *session.Session) *cobra.Command {
	var in library.ImportInput
	existing := string(library.SkipExisting)
	var fromQdrant, collection string
	out := new(output.Format)
	cmd := &cobra.Command{
		Use:   "import DIR|FILE... | --from-qdrant URL",
		Short: "Import protocols from a folder, files or Qdrant",
		Long: `Stores what kairos protocols export wrote, as it was: identities, times and ratings included. Other Markdown files are stored as
kairos mint does. A protocol that is stored already with the same content is skipped, so an interrupted import can be
repeated. A bad file does not stop the others; bad files are listed at the end. With --from-qdrant the protocols come from
a Qdrant collection in which the earlier KAIROS server kept them, which is only read.`,
		Example: "  kairos import backup\n  kairos import --from-qdrant http://localhost:6333 --space personal",
		Args: func(cmd *cobra.Command, args []string) error {
			if fromQdrant != "" {
				return cobra.NoArgs(cmd, args)
			}
			return cobra.MinimumNArgs(1)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			switch in.OnExisting = library.Existing(existing); in.OnExisting {
			case library.SkipExisting, library.ReplaceExisting, library.FailOnExisting:
			default:
				return fmt.Errorf("--on-existing is %q: must be skip, replace or fail", existing)
			}
			return at.Creating().With(cmd.Context(), func(ctx context.Context, a *app.App) error {
				i := importer{in: in, app: a, caller: a.Caller(), report: importReport{Failures: []importFailure{}}}
				if fromQdrant != "" {
					return i.fromQdrant(ctx, cmd, out, fromQdrant, collection)
				}
				sources, err := importSources(args)
				if err != nil {
					return err
				}
				if skipped := sources.SkippedInWords(); skipped != "" {
					fmt.Fprintln(cmd.ErrOrStderr(), skipped)
				}
				return i.from(ctx, cmd, out, sources)
			})
		},
	}
	out.AddTo(cmd)
	cmd.Flags().StringVar(&in.Space, "space", "", "store in this space; else where they were exported from, or your own")
	cmd.Flags().StringVar(&fromQdrant, "from-qdrant", "", "read this Qdrant server, such as http://localhost:6333; its key is QDRANT_API_KEY")
	cmd.Flags().StringVar(&collection, "collection", "", "collection to read; else kairos or kb_resources, whichever is there")
	cmd.Flags().StringVar(&in.ModelID, "model", "kairos-import", "who wrote the protocols that do not say")
	cmd.Flags().StringVar(&existing, "on-existing", existing, "where another version is stored: skip, replace or fail")
	return cmd
}

// importReport is what the command prints.
type importReport struct {
	Documents int             `json:"documents"`
	Stored    int             `json:"stored"`
	Replaced  int             `json:"replaced"`
	Unchanged int             `json:"unchanged"`
	Skipped   int             `json:"skipped"`
	Failures  []importFailure `json:"failures"`
	Seconds   float64         `json:"seconds"`
}

type importFailure struct {
	File  string `json:"file"`
	Error string `json:"error"`
}

func printImported(p *output.Printer, r importReport) {
	for _, f := range r.Failures {
		p.Printf("%s: %s\n", f.File, output.Lines(strings.ReplaceAll(f.Error, "\n", "\n  ")))
	}
	p.Printf("%s: %d stored, %d replaced, %d unchanged, %d skipped, %d failed\n",
		output.Count(r.Documents, "document"), r.Stored, r.Replaced, r.Unchanged, r.Skipped, len(r.Failures))
	if r.Skipped > 0 {
		p.Printf("other versions of the skipped ones are stored; --on-existing replace replaces them\n")
	}
}

// importer is one run of the command.
type importer struct {
	in     library.ImportInput
	app    *app.App
	caller access.Caller
	report importReport
}

// from imports the files and prints what became of them.
func (i *importer) from(ctx context.Context, cmd *cobra.Command, out *output.Format, s *sourceFiles) error {
	defer s.Close()
	p := output.NewProgress(cmd.ErrOrStderr(), len(s.files), "importing")
	err := i.run(ctx, s, p)
	p.End()
	printErr := out.Print(cmd.OutOrStdout(), i.report, func(p *output.Printer) { printImported(p, i.report) })
	return errors.Join(printErr, i.outcome(ctx, err))
}

// fromQdrant imports the protocols of a collection of the earlier server.
func (i *importer) fromQdrant(ctx context.Context, cmd *cobra.Command, out *output.Format, url, collection string) error {
	sources, err := formerSources(ctx, i.app, url, collection, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	i.caller = i.app.RunCaller() // who also has the space of protocols from files
	return i.from(ctx, cmd, out, sources)
}

// run imports one batch after the other: the drivers judge the documents of one side by side.
func (i *importer) run(ctx context.Context, s *sourceFiles, p *output.Progress) error {
	start := time.Now()
	defer func() { i.report.Seconds = time.Since(start).Seconds() }()
	for files := range slices.Chunk(s.files, importBatch) {
		if err := i.store(ctx, s, files); err != nil || ctx.Err() != nil {
			return cmp.Or(err, ctx.Err())
		}
		p.Add(len(files))
	}
	return nil
}

func (i *importer) store(ctx context.Context, s *sourceFiles, files []sourceFile) error {
	var names []string
	in := i.in
	for _, f := range files {
		item, err := s.read(ctx, f)
		if err != nil {
			i.note(f.Name, library.ImportResult{Status: library.Failed, Err: err})
			continue
		}
		names, in.Items = append(names, f.Name), append(in.Items, item)
	}
	results, err := i.app.Engine.Library.Import(ctx, i.caller, in) // fewer where there is an error
	for k, r := range results {
		i.note(names[k], r)
	}
	return err
}

func (i *importer) note(file string, r library.ImportResult) {
	i.report.Documents++
	switch r.Status {
	case library.Stored:
		i.report.Stored++
	case library.Replaced:
		i.report.Replaced++
	case library.Unchanged:
		i.report.Unchanged++
	case library.Skipped:
		i.report.Skipped++
	case library.Failed:
		i.report.Failures = append(i.report.Failures, importFailure{file, r.Err.Error()})
	}
}

// outcome is the error of the command.
func (i *importer) outcome(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return errors.New("interrupted; what is stored stays, and the same command continues with the rest")
	case err != nil:
		return fmt.Errorf("%w\n  what is stored stays; the same command continues with the rest", err)
	case len(i.report.Failures) > 0:
		return fmt.Errorf("%s not stored", output.Count(len(i.report.Failures), "document"))
	}
	return nil
}
