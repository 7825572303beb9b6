package library

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

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
	noDrivers := false
	cmd := &cobra.Command{
		Use:   "lint FILE...",
		Short: "Check protocols for mistakes without storing them",
		Long: `Reads protocols from files, from the .md files below a folder, or with - from standard input, and prints their
mistakes as compilers do: file:line:col: error: ... The challenge drivers judge the challenges. Nothing is stored.`,
		Example: `  kairos lint protocols/
  kairos lint --no-drivers draft.md`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			files := new(documents.Documents)
			defer files.Close()
			if err := files.Find(args); err != nil {
				return err
			}
			l := linter{stdin: cmd.InOrStdin()}
			if noDrivers {
				l.judge = declaredBy(at).judge
				return l.run(cmd, *out, files.Files)
			}
			return at.Options.With(cmd.Context(), func(_ context.Context, a *app.App) error {
				l.judge = a.Engine.Library.Lint
				return l.run(cmd, *out, files.Files)
			})
		},
	}
	out.AddTo(cmd)
	cmd.Flags().BoolVar(&noDrivers, "no-drivers", false, "start no challenge driver: judge by the schemas in drivers.lock alone")
	return cmd
}

// linter is one run of the command.
type linter struct {
	stdin io.Reader
	judge func(ctx context.Context, document string) (library.Linted, error)
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
	// BelieveModels is the number of steps that a model may prove although KAIROS could
	// do them itself.
	BelieveModels int           `json:"believe_models"`
	Findings      []lintFinding `json:"findings"`
	// Notes name those steps.
	Notes []lintFinding `json:"notes"`
}

// lintedProtocol is one that was read.
type lintedProtocol struct {
	File  string `json:"file"`
	Title string `json:"title"`
	Worth string `json:"worth,omitempty"` // empty without drivers
}

// lintFinding is a diagnostic and its file.
type lintFinding struct {
	File string `json:"file"`
	protocol.Diagnostic
}

func (l linter) run(cmd *cobra.Command, out output.Format, files []documents.Document) error {
	r := lintReport{Protocols: []lintedProtocol{}, Files: len(files), Findings: []lintFinding{}, Notes: []lintFinding{}}
	for _, file := range files {
		text, err := file.Read(cmd.Context(), l.stdin)
		var found library.Linted
		if err == nil {
			found, err = l.judge(cmd.Context(), string(text))
		}
		if err != nil {
			if cmd.Context().Err() != nil {
				return err
			}
			found.Findings = append(found.Findings, protocol.Diagnostic{Severity: driver.SeverityError, Line: 1, Column: 1, Message: err.Error()})
		}
		name := file.Name
		if name == "-" {
			name = "<stdin>"
		}
		for i, c := range found.Chains {
			one := lintedProtocol{File: name, Title: c.Title}
			if i < len(found.Worths) {
				one.Worth = found.Worths[i]
			}
			r.Protocols = append(r.Protocols, one)
			if len(c.Triggers) == 0 {
				r.WithoutTriggers++
			}
		}
		r.BelieveModels += len(found.BelieveModels)
		for _, d := range found.BelieveModels {
			r.Notes = append(r.Notes, lintFinding{name, d})
		}
		for _, d := range found.Findings {
			r.Findings = append(r.Findings, lintFinding{name, d})
		}
	}
	r.Errors = len(slices.DeleteFunc(slices.Clone(r.Findings), func(f lintFinding) bool { return f.Severity != driver.SeverityError }))
	r.Warnings = len(r.Findings) - r.Errors
	err := out.Print(cmd.OutOrStdout(), r, func(p *output.Printer) {
		for _, one := range r.Protocols {
			if one.Worth != "" {
				p.Printf("%s: %s: %s\n", one.File, output.Short(one.Title), one.Worth)
			}
		}
		for _, f := range slices.Concat(r.Findings, r.Notes) {
			p.Printf("%s:%s\n", f.File, f.Diagnostic)
		}
	})
	if r.Errors > 0 {
		return errors.Join(err, errors.New(r.summary()))
	}
	fmt.Fprintln(cmd.ErrOrStderr(), r.summary())
	if r.WithoutTriggers > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s without triggers: list in the front matter what people say when they need the protocol, "+
			"and searches in plain words find it\n", output.Count(r.WithoutTriggers, "protocol"))
	}
	if r.BelieveModels > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s may be proved by what a model writes, and KAIROS can do such steps itself: accept that with `kairos accept`, "+
			"or demand it with \"evidence\": \"server\"\n", output.Count(r.BelieveModels, "step"))
	}
	return err
}

func (r lintReport) summary() string {
	return fmt.Sprintf("%s and %s in %s", output.Count(r.Errors, "error"), output.Count(r.Warnings, "warning"), output.Count(r.Files, "file"))
}
