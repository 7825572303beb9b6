package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/sdk/drivertest"
)

// kitFormats are the ways a report can be written.
var kitFormats = []string{"human", "json", "junit"}

// kitFlags are the flags of `kairos driver test`.
type kitFlags struct {
	sample, format, out string
	run, envFrom        []string
	timeout             time.Duration
}

func driverTestCommand() *cobra.Command {
	var f kitFlags
	cmd := &cobra.Command{
		Use:   "test BINARY",
		Short: "Hold a driver, in whatever language, against the driver contract",
		Long: "Starts the binary as the server would, unlocked, and runs the conformance kit on it: every check has a\n" +
			"stable id and is a MUST, which fails the verdict, or a SHOULD, which warns. The kit does not know what a\n" +
			"challenge type means: give it sample requests and what must come of them.\n\n" +
			"  {\"config\": {...}, \"samples\": [{\"name\": \"passes\", \"method\": \"Advance\", \"request\": {...}, \"want\": \"accepted\"}]}\n\n" +
			"The exit status is 0 when no MUST is broken.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runKit(cmd.Context(), cmd.OutOrStdout(), args[0], f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.sample, "sample", "", "file of samples (JSON); without it the checks that need samples are skipped")
	flags.StringVar(&f.format, "format", "human", "human, json or junit")
	flags.StringVar(&f.out, "out", "", "write the report to this file instead of stdout")
	flags.StringSliceVar(&f.run, "run", nil, "only checks whose id matches the pattern, such as 'call/*'; may be repeated")
	flags.StringSliceVar(&f.envFrom, "env-from", nil, "names of environment variables the driver gets, as env_from of its settings")
	flags.DurationVar(&f.timeout, "timeout", drivertest.DefaultTimeout, "for each check")
	return cmd
}

func runKit(ctx context.Context, stdout io.Writer, binary string, f kitFlags) (err error) {
	if !slices.Contains(kitFormats, f.format) {
		return fmt.Errorf("--format %q is not one of %s", f.format, strings.Join(kitFormats, ", "))
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
	to := stdout
	if f.out != "" {
		file, err := os.Create(f.out)
		if err != nil {
			return fmt.Errorf("write the report: %w", err)
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		to = file
	}
	subject := drivertest.Subject{
		Program: launcher{path: path, config: samples.Config, envFrom: f.envFrom},
		Samples: samples.Samples, Config: samples.Config,
	}
	report, err := drivertest.Verify(ctx, subject, drivertest.Options{Only: f.run, Timeout: f.timeout})
	if err != nil {
		return err
	}
	if len(report.Results) == 0 {
		return fmt.Errorf("no check matches --run %s; the ids are in docs/driver-checks.md", strings.Join(f.run, ","))
	}
	if err := writeReport(to, report, f.format); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	if n := report.Count(drivertest.Failed); n > 0 {
		return fmt.Errorf("%s breaks %d of the driver contract's MUST rules", binary, n)
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
	path    string
	config  json.RawMessage
	envFrom []string
}

var (
	_ drivertest.Program = launcher{}
	_ drivertest.Process = (*driverhost.Launched)(nil)
)

// bareEnvironment is what a driver finds without env_from.
var bareEnvironment = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}

// Run implements drivertest.Program.
func (l launcher) Run(ctx context.Context, args ...string) (drivertest.Output, error) {
	cmd := exec.CommandContext(ctx, l.path, args...)
	cmd.Env, cmd.Dir = bareEnvironment, "/"
	cmd.WaitDelay = time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	began := time.Now()
	err := cmd.Run()
	out := drivertest.Output{Stdout: stdout.Bytes(), Stderr: stderr.Bytes(), Took: time.Since(began)}
	var exit *exec.ExitError
	if errors.As(err, &exit) && ctx.Err() == nil {
		out.ExitStatus, err = exit.ExitCode(), nil
	}
	if err != nil {
		return out, fmt.Errorf("run %s: %w", l.path, errors.Join(err, ctx.Err()))
	}
	return out, nil
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
	p, err := driverhost.Launch(ctx, l.path, driverhost.LaunchConfig{EnvFrom: envFrom, Config: l.config},
		slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	return p, nil
}
