package library

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/app"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/documents"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

func lintCommand(at *session.Session) *cobra.Command {
	out := new(output.Format)
	noDrivers, asServer, strict, space := false, false, false, ""
	cmd := &cobra.Command{
		Use:   "lint FILE...",
		Short: "Check protocols for mistakes without storing them",
		Long: `Reads protocols from files, from the .md files below a folder, or with - from standard input, and prints their
mistakes as compilers do: file:line:col: error: ... The challenge drivers judge the challenges. Nothing is stored. A
warning that several files have is printed once. With --as-server a protocol is judged as if it were stored under the rules
of the configuration, and what they demand of each step is printed.`,
		Example: `  kairos lint protocols/
  kairos lint --strict release.md
  kairos lint --as-server --space production deploy.md`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			files := new(documents.Documents)
			defer files.Close()
			if err := files.Find(args); err != nil {
				return err
			}
			if skipped := files.SkippedInWords(); skipped != "" {
				fmt.Fprintln(cmd.ErrOrStderr(), skipped)
			}
			l := newLinter(cmd.InOrStdin(), declaredBy(at).judge)
			l.strict, l.demands = strict, asServer
			switch {
			case noDrivers && asServer:
				return errors.New("--no-drivers does not go with --as-server: the drivers say what a step does, which rules match")
			case space != "" && !asServer:
				return errors.New("--space is the one in which --as-server judges: add --as-server")
			case noDrivers:
				return l.run(cmd, *out, files.Files)
			}
			return at.Options.With(cmd.Context(), func(_ context.Context, a *app.App) error {
				if asServer {
					space = cmp.Or(space, a.Caller().Space)
				}
				l.judge = func(ctx context.Context, text library.Text) (library.Linted, error) {
					return a.Engine.Library.Lint(ctx, library.LintInput{Document: text.Document, File: text.File, Space: space})
				}
				return l.run(cmd, *out, files.Files)
			})
		},
	}
	out.AddTo(cmd)
	cmd.Flags().BoolVar(&noDrivers, "no-drivers", false, "start no challenge driver: judge by the schemas in drivers.lock alone")
	cmd.Flags().BoolVar(&asServer, "as-server", false, "judge under the rules of the configuration, and print what they demand")
	cmd.Flags().StringVar(&space, "space", "", "the space in which --as-server judges; default: your own")
	cmd.Flags().BoolVar(&strict, "strict", false, "treat warnings as errors")
	return cmd
}

// linter is one run of the command.
type linter struct {
	stdin  io.Reader
	judge  func(ctx context.Context, text library.Text) (library.Linted, error)
	strict bool
	// demands: what rules demand is part of the report.
	demands bool

	report lintReport
	// titles holds the place of each title, by its look; seen the index of a finding that
	// is printed once.
	titles  map[string]string
	seen    map[string]int
	exports map[*os.Root]bool // whether a folder is an export
}

func newLinter(stdin io.Reader, judge func(context.Context, library.Text) (library.Linted, error)) *linter {
	return &linter{
		stdin: stdin, judge: judge, report: lintReport{Protocols: []lintedProtocol{}, Findings: []lintFinding{}, Notes: []lintFinding{}},
		titles: map[string]string{}, seen: map[string]int{}, exports: map[*os.Root]bool{},
	}
}

// lintReport is what the command prints.
type lintReport struct {
	// Protocols are what was read, each with what its steps will be worth at least.
	Protocols []lintedProtocol `json:"protocols"`

	Files    int `json:"files"`
	Errors   int `json:"errors"`
	Warnings int `json:"warnings"`
	// WithoutTriggers is the number of protocols whose front matter has none.
	WithoutTriggers int `json:"without_triggers"`
	// Introductions is the number of protocols that say something before their first step.
	Introductions int `json:"introductions"`
	// BelieveModels is the number of steps that a model may prove although KAIROS could
	// do them itself.
	BelieveModels int           `json:"believe_models"`
	Findings      []lintFinding `json:"findings"`
	// Notes name those steps.
	Notes []lintFinding `json:"notes"`
	// Demands are what the rules of the server demand, with --as-server.
	Demands []lintDemand `json:"demands,omitempty"`
}

// lintDemand is what rules demand of a step, and the file of the step.
type lintDemand struct {
	File string `json:"file"`
	library.Demanded
}

// lintedProtocol is one that was read.
type lintedProtocol struct {
	File  string `json:"file"`
	Title string `json:"title"`
	Worth string `json:"worth,omitempty"` // empty without drivers, and where the file has errors
}

// lintFinding is a diagnostic and its file.
type lintFinding struct {
	File string `json:"file"`
	protocol.Diagnostic
	// More is in how many more files the same was found.
	More int `json:"more_files,omitempty"`
}

func (l *linter) run(cmd *cobra.Command, out output.Format, files []documents.Document) error {
	r := &l.report
	r.Files = len(files)
	for _, file := range files {
		if err := l.lint(cmd.Context(), file); err != nil {
			return err
		}
	}
	for i := range r.Findings {
		if l.strict {
			r.Findings[i].Severity = driver.SeverityError
		}
		if r.Findings[i].Severity == driver.SeverityError {
			r.Errors++
		}
	}
	r.Warnings = len(r.Findings) - r.Errors
	err := out.Print(cmd.OutOrStdout(), r, func(p *output.Printer) {
		for _, one := range r.Protocols {
			if one.Worth != "" {
				p.Printf("%s: %s: %s\n", one.File, output.Short(one.Title), one.Worth)
			}
		}
		for _, f := range slices.Concat(r.Findings, r.Notes) {
			more := ""
			if f.More > 0 {
				more = fmt.Sprintf(" (and in %s)", output.Count(f.More, "more file"))
			}
			p.Printf("%s:%s%s\n", f.File, f.Diagnostic, more)
		}
		for _, d := range r.Demands {
			for _, rule := range d.Demand.By {
				p.Printf("%s:%d: rule: step %q: %s\n", d.File, d.Line, d.Label, rule)
			}
		}
	})
	if r.Errors > 0 {
		return errors.Join(err, errors.New(r.summary()))
	}
	fmt.Fprint(cmd.ErrOrStderr(), r.summary()+"\n"+r.hints())
	return err
}

// lint adds what is found in a file. An error ends the command.
func (l *linter) lint(ctx context.Context, file documents.Document) error {
	name := cmp.Or(file.File(), "<stdin>")
	text, err := file.Read(ctx, l.stdin)
	var found library.Linted
	if err == nil {
		found, err = l.judge(ctx, l.text(file, text))
	}
	if err != nil {
		if ctx.Err() != nil {
			return err
		}
		found.Findings = append(found.Findings, protocol.Diagnostic{Severity: driver.SeverityError, Line: 1, Column: 1, Message: err.Error()})
	}
	unsound := slices.ContainsFunc(found.Findings, func(d protocol.Diagnostic) bool { return d.Severity == driver.SeverityError })
	for i, c := range found.Chains {
		one := lintedProtocol{File: name, Title: c.Title}
		if i < len(found.Worths) && !unsound {
			one.Worth = found.Worths[i]
		}
		l.report.Protocols = append(l.report.Protocols, one)
		if len(c.Triggers) == 0 {
			l.report.WithoutTriggers++
		}
		if c.Introduction() != "" {
			l.report.Introductions++
		}
		if !l.isOlder(file) {
			found.Findings = append(found.Findings, l.clash(name, c)...)
		}
	}
	l.report.BelieveModels += len(found.BelieveModels)
	for _, d := range found.BelieveModels {
		l.report.Notes = append(l.report.Notes, lintFinding{File: name, Diagnostic: d})
	}
	for _, d := range found.Findings {
		l.add(name, d)
	}
	for _, d := range found.Demands {
		if l.demands {
			l.report.Demands = append(l.report.Demands, lintDemand{name, d})
		}
	}
	return nil
}

// text is the document as import reads it: those of an export have their title in its
// index.
func (l *linter) text(file documents.Document, text []byte) library.Text {
	if l.inExport(file) {
		return library.Text{Document: string(text)}
	}
	return library.Text{Document: string(text), File: file.File()}
}

func (l *linter) inExport(file documents.Document) bool {
	if file.Root == nil {
		return false
	}
	export, known := l.exports[file.Root]
	if !known {
		_, err := file.Root.Stat(exportIndex)
		export = err == nil
		l.exports[file.Root] = export
	}
	return export
}

// isOlder reports whether the file is an older version in an export.
func (l *linter) isOlder(file documents.Document) bool {
	return l.inExport(file) && strings.HasPrefix(file.Path, historyFolder+"/")
}

// clash finds a protocol that import and mint refuse because another file has its title.
func (l *linter) clash(name string, c protocol.Chain) []protocol.Diagnostic {
	look := library.SameLook(c.Title)
	other, twice := l.titles[look]
	if !twice {
		l.titles[look] = name
		return nil
	}
	if other == name {
		return nil // the parser says so
	}
	return []protocol.Diagnostic{{Severity: driver.SeverityError, Line: 1, Column: 1, Message: fmt.Sprintf(
		"the title %q is that of %s, too, or looks the same: import and mint take one of them; give each its own", c.Title, other)}}
}

// add adds a finding, or counts it if another file has the same warning about the whole
// document.
func (l *linter) add(name string, d protocol.Diagnostic) {
	if d.Severity == driver.SeverityWarning && d.Step == "" {
		if i, known := l.seen[d.Message]; known && l.report.Findings[i].File != name {
			l.report.Findings[i].More++
			return
		}
		l.seen[d.Message] = len(l.report.Findings)
	}
	l.report.Findings = append(l.report.Findings, lintFinding{File: name, Diagnostic: d})
}

func (r lintReport) summary() string {
	return fmt.Sprintf("%s and %s in %s", output.Count(r.Errors, "error"), output.Count(r.Warnings, "warning"), output.Count(r.Files, "file"))
}

// hints say what protocols without errors could do better.
func (r lintReport) hints() string {
	var b strings.Builder
	if r.Introductions > 0 {
		fmt.Fprintf(&b, "%s with text before the first step: each run shows it with the first step\n", output.Count(r.Introductions, "protocol"))
	}
	if r.WithoutTriggers > 0 {
		fmt.Fprintf(&b, "%s without triggers: list in the front matter what people say when they need the protocol, "+
			"and searches in plain words find it\n", output.Count(r.WithoutTriggers, "protocol"))
	}
	if r.BelieveModels > 0 {
		fmt.Fprintf(&b, "%s may be proved by what a model writes, and KAIROS can do such steps itself: accept that with `kairos accept`, "+
			"or demand it with \"evidence\": \"server\"\n", output.Count(r.BelieveModels, "step"))
	}
	return b.String()
}
