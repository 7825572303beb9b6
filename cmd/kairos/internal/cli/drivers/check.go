package drivers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/app"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/sdk/driverrpc"
	"github.com/kairos-mcp/kairos/sdk/drivertest"
)

// kitFormats are the ways a report can be written.
var kitFormats = []string{"human", "json", "junit"}

// kitFlags are the flags of `kairos driver test`.
type kitFlags struct {
	sample, format, out string
	run, envFrom        []string
	timeout, soon       time.Duration
}

func driverTestCommand(at *session.Session) *cobra.Command {
	var f kitFlags
	cmd := &cobra.Command{
		Use:   "test BINARY",
		Short: "Run the driver conformance suite on a driver",
		Long: "Starts the binary as the server would, isolated but not locked, and runs the conformance suite on it. Every check has\n" +
			"a stable id. A failed MUST fails the driver, a failed SHOULD is a warning. The suite does not know what a challenge\n" +
			"type means: give it sample requests with the results that you expect.\n\n" +
			"  {\"config\": {...}, \"samples\": [{\"name\": \"passes\", \"method\": \"Advance\", \"request\": {...}, \"want\": \"accepted\"}]}\n\n" +
			"The exit status is 0 if at least one check ran and no MUST failed.",
		Example: "  kairos driver test --sample samples.json ./kairos-driver-word_count\n  kairos driver test --run 'call/*' --format junit --out report.xml ./kairos-driver-word_count",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.takeOutput(cmd); err != nil {
				return err
			}
			c, err := at.Load()
			if err != nil {
				return err
			}
			return runKit(cmd, args[0], f, app.Confinement(c, at.File))
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.sample, "sample", "", "file of samples (JSON); without it the checks that need samples are skipped")
	flags.StringVar(&f.format, "format", "human", "human, json or junit")
	flags.StringVar(&f.out, "out", "", "write the report to this file instead of stdout")
	flags.StringSliceVar(&f.run, "run", nil, "only checks whose id matches the pattern, such as 'call/*'; may be repeated")
	flags.StringSliceVar(&f.envFrom, "env-from", nil, "names of environment variables the driver gets, as env_from of its settings")
	flags.DurationVar(&f.timeout, "timeout", drivertest.DefaultTimeout, "for each check")
	flags.DurationVar(&f.soon, "soon", time.Second, "what \"within a second\" means to the checks, on a machine that is busy")
	return cmd
}

// takeOutput takes --output, which all driver commands have, as --format.
func (f *kitFlags) takeOutput(cmd *cobra.Command) error {
	flag := cmd.Flag("output")
	if flag == nil || !flag.Changed {
		return nil
	}
	of := map[string]string{string(output.FormatText): "human", string(output.FormatJSON): "json"}
	as, ok := of[flag.Value.String()]
	switch {
	case !ok:
		return fmt.Errorf("--output %s: the report can be text or json, or with --format junit", flag.Value)
	case cmd.Flag("format").Changed && f.format != as:
		return fmt.Errorf("--output %s and --format %s contradict each other: give one", flag.Value, f.format)
	}
	f.format = as
	return nil
}

// check reports flags that make no sense.
func (f kitFlags) check() error {
	if !slices.Contains(kitFormats, f.format) {
		return fmt.Errorf("--format %q is not one of %s", f.format, strings.Join(kitFormats, ", "))
	}
	if f.timeout <= 0 {
		return fmt.Errorf("--timeout %v is not positive: give the time for each check, such as 30s", f.timeout)
	}
	if f.soon <= 0 {
		return fmt.Errorf("--soon %v is not positive: give a time such as 5s", f.soon)
	}
	for _, name := range f.envFrom {
		if before, _, bad := strings.Cut(name, "="); bad || name == "" { // what follows may be a secret
			return fmt.Errorf("--env-from %q takes the name of a variable alone: set its value in the environment", before)
		}
	}
	return nil
}

func runKit(cmd *cobra.Command, binary string, f kitFlags, isolation driverhost.Confinement) (err error) {
	if err := f.check(); err != nil {
		return err
	}
	path, err := executable(binary)
	if err != nil {
		return err
	}
	var samples drivertest.SampleFile
	if f.sample != "" {
		if samples, err = drivertest.LoadSamples(f.sample); err != nil {
			return err
		}
	}
	to := cmd.OutOrStdout()
	if f.out != "" {
		file, err := os.Create(f.out)
		if err != nil {
			return fmt.Errorf("write the report: %w", err)
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		to = file
	}
	subject := drivertest.Subject{
		Program: launcher{path: path, config: samples.Config, envFrom: f.envFrom, isolation: isolation},
		Samples: samples.Samples, Config: samples.Config,
	}
	report, err := output.While(cmd.ErrOrStderr(), "running the checks", func() (drivertest.Report, error) {
		return drivertest.Verify(cmd.Context(), subject, drivertest.Options{Only: f.run, Timeout: f.timeout, Soon: f.soon})
	})
	if err != nil && !report.Interrupted {
		return err
	}
	if len(report.Results) == 0 && !report.Interrupted {
		return fmt.Errorf("no check matches --run %s; the ids are in docs/reference/driver-checks.md", strings.Join(f.run, ","))
	}
	if err := writeReport(to, report, f.format); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return verdict(binary, report)
}

// verdict is nil if the checks were not interrupted, at least one ran, and no MUST is broken.
func verdict(binary string, report drivertest.Report) error {
	switch n := report.Count(drivertest.Failed); {
	case n > 0:
		return fmt.Errorf("%s breaks %d of the driver contract's MUST rules", binary, n)
	case report.Interrupted:
		return fmt.Errorf("interrupted: %s ran only %d checks", binary, report.Checked())
	case report.Checked() == 0:
		return fmt.Errorf("nothing was checked: none of the %d chosen checks could run on %s", len(report.Results), binary)
	}
	return nil
}

func writeReport(w io.Writer, r drivertest.Report, format string) error {
	switch format {
	case "json":
		return r.JSON(w)
	case "junit":
		return r.JUnit(w)
	}
	return r.Human(w)
}

// executable is the absolute path of a binary that can be run, or why it is none.
func executable(binary string) (string, error) {
	path, err := filepath.Abs(binary)
	if err != nil {
		return "", fmt.Errorf("find the driver: %w", err)
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return "", fmt.Errorf("find the driver: %w", err)
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%s is not a file: name the driver's binary or script", binary)
	case info.Mode().Perm()&0o111 == 0:
		return "", fmt.Errorf("%s is not executable: chmod +x %s", binary, binary)
	}
	return path, nil
}

// launcher is a driver binary for the kit, run as the server runs it.
type launcher struct {
	path      string
	config    json.RawMessage
	envFrom   []string
	isolation driverhost.Confinement
}

var (
	_ drivertest.Program = launcher{}
	_ drivertest.Printer = launcher{}
	_ drivertest.Process = (*driverhost.Launched)(nil)
)

// Run implements drivertest.Program.
func (l launcher) Run(ctx context.Context, args ...string) (drivertest.Output, error) {
	return l.once(ctx, args, nil, driverhost.LaunchConfig{Confinement: l.isolation})
}

// Print implements drivertest.Printer.
func (l launcher) Print(ctx context.Context, method string, request []byte) (drivertest.Output, error) {
	return l.once(ctx, []string{driverrpc.CallFlag, method}, request,
		driverhost.LaunchConfig{Confinement: l.isolation, EnvFrom: l.envFrom, Config: l.config})
}

func (l launcher) once(ctx context.Context, args []string, stdin []byte, cfg driverhost.LaunchConfig) (drivertest.Output, error) {
	p, err := driverhost.RunOnce(ctx, l.path, args, stdin, cfg)
	return drivertest.Output{Stdout: p.Stdout, Stderr: p.Stderr, ExitStatus: p.ExitStatus, Took: p.Took}, err
}

// Start implements drivertest.Program.
func (l launcher) Start(ctx context.Context) (drivertest.Process, error) {
	return l.launch(ctx, l.envFrom)
}

// StartBare implements drivertest.Program.
func (l launcher) StartBare(ctx context.Context) (drivertest.Process, error) {
	return l.launch(ctx, nil)
}

func (l launcher) launch(ctx context.Context, envFrom []string) (drivertest.Process, error) {
	p, err := driverhost.Launch(ctx, l.path, driverhost.LaunchConfig{Confinement: l.isolation, EnvFrom: envFrom, Config: l.config},
		slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	return p, nil
}
