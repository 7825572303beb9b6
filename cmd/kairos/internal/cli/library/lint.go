package library

import (
	"cmp"
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
	noDrivers, asServer, space := false, false, ""
	cmd := &cobra.Command{
		Use:   "lint FILE...",
		Short: "Check protocols for mistakes without storing them",
		Long: `Reads protocols from files, from the .md files below a folder, or with - from standard input, and prints their
mistakes as compilers do: file:line:col: error: ... The challenge drivers judge the challenges. Nothing is stored.
With --as-server a protocol is judged as if it were stored under the rules of the configuration, and what they demand of each
step is printed.`,
		Example: `  kairos lint protocols/
  kairos lint --as-server --space production deploy.md
  kairos lint --no-drivers draft.md`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			files := new(documents.Documents)
			defer files.Close()
			if err := files.Find(args); err != nil {
				return err
			}
			l := linter{stdin: cmd.InOrStdin(), judge: declaredBy(at).judge, demands: asServer}
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
				l.judge = func(ctx context.Context, document string) (library.Linted, error) {
					return a.Engine.Library.Lint(ctx, library.LintInput{Document: document, Space: space})
				}
				return l.run(cmd, *out, files.Files)
			})
		},
	}
	out.AddTo(cmd)
	cmd.Flags().BoolVar(&noDrivers, "no-drivers", false, "start no challenge driver: judge by the schemas in drivers.lock alone")
	cmd.Flags().BoolVar(&asServer, "as-server", false, "judge under the rules of the configuration, and print what they demand")
	cmd.Flags().StringVar(&space, "space", "", "the space in which --as-server judges; default: your own")
	return cmd
}

// linter is one run of the command.
type linter struct {
	stdin io.Reader
	judge func(ctx context.Context, document string) (library.Linted, error)
	// demands: what rules demand is part of the report.
	demands bool
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
		for _, d := range found.Demands {
			if l.demands {
				r.Demands = append(r.Demands, lintDemand{name, d})
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
		for _, d := range r.Demands {
			for _, rule := range d.Demand.By {
				p.Printf("%s:%d: rule: step %q: %s\n", d.File, d.Line, d.Label, rule)
			}
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
