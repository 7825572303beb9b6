package ops

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/drivers"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/servers"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/config"
	"github.com/kairos-mcp/kairos/core/archive"
	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/server/socket"
)

// doctorReport is what `doctor` prints.
type doctorReport struct {
	OK     bool          `json:"ok"`
	Checks []doctorCheck `json:"checks"`
	// Steps and Runs are what no driver serves at present.
	Steps   []unservedStep `json:"steps"`
	Runs    []unservedRun  `json:"runs"`
	Servers []servers.Info `json:"servers"`
}

// doctorCheck is one thing that was looked at.
type doctorCheck struct {
	Check    string    `json:"check"`
	OK       bool      `json:"ok"`
	Detail   string    `json:"detail,omitempty"`
	Problems []finding `json:"problems"`
	// Warnings do not make the check fail.
	Warnings []finding `json:"warnings,omitempty"`
}

// finding is what is wrong and what to do about it.
type finding struct {
	Problem string `json:"problem"`
	Fix     string `json:"fix,omitempty"`
}

type unservedStep struct {
	archive.UnservedStep
	Fix string `json:"fix"`
}

type unservedRun struct {
	archive.UnservedRun
	Fix string `json:"fix"`
}

func doctorCommand(at *session.Session) *cobra.Command {
	out, deep := new(output.Format), false
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Diagnose blocked protocols and runs",
		Long: "Checks the configuration, the driver lock, the binaries and who may write them, the decision tree, the database and\n" +
			"the running servers, and asks the identity provider for its keys and the time; then asks the drivers whether they still\n" +
			"accept every stored challenge and the open step of every run. It names tokens and certificates that end within 14 days.\n" +
			"For each problem it says what to do. It changes nothing, but writes a line to the audit log, if there is one. The exit\n" +
			"status is 1 if there is a problem.\n" +
			"It reads every page of a SQLite database to find damage. With --deep it also compares indexes with tables, and\n" +
			"runs with what happened in them, which takes longer. Of PostgreSQL it asks whether damaged pages were found.\n" +
			"With --url it reports the health of the server, its stores and drivers, and what of your protocols and runs no driver serves.",
		Example: "  kairos doctor\n  kairos doctor --deep -o json\n  kairos doctor --url http://127.0.0.1:3300",
		Args:    cobra.NoArgs, Annotations: session.AsksServers,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if at.Server() != "" && deep {
				return errors.New("--deep reads the whole database: use it where the server runs, without --url and " + session.ServerEnv)
			}
			r, _ := output.While(cmd.ErrOrStderr(), "examining", func() (doctorReport, error) {
				if at.Server() != "" {
					return examineServer(cmd.Context(), *at), nil
				}
				return examine(cmd.Context(), *at, deep), nil
			})
			err := out.Print(cmd.OutOrStdout(), r, r.text)
			if err == nil && !r.OK {
				err = errors.New("something needs attention")
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&deep, "deep", false, "also read the whole database and check that nothing in it is damaged")
	return out.AddTo(cmd)
}

// examine looks at everything it can get at.
func examine(ctx context.Context, s session.Session, deep bool) doctorReport {
	r := newReport()
	c, err := s.Load()
	r.check("configuration", cmp.Or(s.File, "the defaults: no file is named"), "", err)
	if beside, fix, found := strings.Cut(s.Unread(), ": "); found {
		r.warn(beside, fix)
	}
	if err == nil {
		detail, err := c.Keys().CheckSigning()
		r.check("signing key", detail, "give it back to the account that runs kairos alone (chmod 600), or restore it", err)
		r.drivers(ctx, c)
		r.isolation(c, s.File)
		r.toolServers(s)
		r.identity(ctx, c)
		r.servers(ctx, c)
		if r.database(c.Database, deep) {
			r.engine(ctx, s, deep)
		} else {
			r.machine(ctx, s)
		}
	}
	return r.concluded()
}

func newReport() doctorReport {
	return doctorReport{Steps: []unservedStep{}, Runs: []unservedRun{}, Servers: []servers.Info{}}
}

// concluded is the report with its conclusion.
func (r doctorReport) concluded() doctorReport {
	r.OK = len(r.Steps)+len(r.Runs) == 0 && !slices.ContainsFunc(r.Checks, func(c doctorCheck) bool { return !c.OK })
	return r
}

// unserved notes what no driver serves, and what to do.
func (r *doctorReport) unserved(u archive.Unserved) {
	for _, step := range u.Steps {
		r.Steps = append(r.Steps, unservedStep{step, stepFix(step)})
	}
	for _, run := range u.Runs {
		r.Runs = append(r.Runs, unservedRun{run, runFix(run)})
	}
}

// check notes one check that has at most one problem.
func (r *doctorReport) check(name, detail, fix string, err error) {
	if err == nil {
		r.note(name, detail)
		return
	}
	var known *fault.Error
	if fix == "" && errors.As(err, &known) {
		fix = known.Hint
	}
	r.note(name, detail, finding{Problem: err.Error(), Fix: fix})
}

func (r *doctorReport) note(name, detail string, problems ...finding) {
	r.Checks = append(r.Checks, doctorCheck{
		Check: name, Detail: detail, OK: len(problems) == 0, Problems: append([]finding{}, problems...),
	})
}

// warn adds a warning to the last check.
func (r *doctorReport) warn(problem, fix string) {
	last := &r.Checks[len(r.Checks)-1]
	last.Warnings = append(last.Warnings, finding{problem, fix})
}

// drivers looks at lock, binaries, permissions and tree.
func (r *doctorReport) drivers(ctx context.Context, c config.Config) {
	relock := fmt.Sprintf("run `kairos driver lock %s` if the drivers in there are those you want", c.Drivers.Dir)
	lock, err := c.ReadLock()
	r.check("driver lock", config.LockPath(c.Drivers.Dir), relock, err)
	if err != nil {
		return
	}
	verified, err := drivers.Verify(ctx, c, nil, nil)
	var problems []finding
	if err != nil {
		problems = append(problems, finding{Problem: err.Error()})
	}
	for _, d := range verified.Drivers {
		fix := relock
		if !hasBinary(c, lock, d.Name) {
			fix = fmt.Sprintf("install it again with `kairos driver install FILE`, or run `kairos driver remove %s`", d.Name)
		}
		for _, problem := range d.Problems {
			problems = append(problems, finding{Problem: problem, Fix: fix})
		}
	}
	r.note("driver binaries", fmt.Sprintf("%d of %s", len(verified.Drivers), c.Drivers.Dir), problems...)
	r.check("permissions", c.Drivers.Dir, "", driverhost.CheckPermissions(c.Drivers.Dir))
	_, err = c.CompileTree()
	detail := c.Tree
	if detail == "" {
		detail = "the one that is shipped"
	}
	r.check("decision tree", detail, "fix it and run `kairos tree check`", err)
	held, err := c.CompileRules()
	r.check("rules", output.Count(held.Len(), "rule"), "fix them and run `kairos config check`", err)
}

// hasBinary reports whether the file of a locked driver is there.
func hasBinary(c config.Config, lock driverhost.Lock, name string) bool {
	e, _ := drivers.EntryOf(lock, name)
	_, err := os.Lstat(filepath.Join(c.Drivers.Dir, e.File))
	return !errors.Is(err, fs.ErrNotExist)
}

// servers looks at what runs.
func (r *doctorReport) servers(ctx context.Context, c config.Config) {
	lock, _ := c.ReadLock() // what is wrong with it is noted already
	var problems []finding
	others := 0 // that use another database
	err := new(servers.Choice).With(ctx, c, func(found []socket.Found) error {
		for _, s := range found {
			all, err := servers.Drivers(ctx, s)
			if err != nil && servers.Gone(ctx, s) {
				continue // it was stopped meanwhile, which is not a fault
			}
			if !(servers.Target{Config: c}).Uses(s) {
				others++
			}
			r.Servers = append(r.Servers, servers.InfoOf(s))
			if err != nil {
				problems = append(problems, finding{Problem: fmt.Sprintf("%s: %v", servers.Process(s), err)})
			}
			for _, d := range all {
				problems = append(problems, ailments(s, d, lock)...)
			}
		}
		return nil
	})
	if err != nil {
		problems = append(problems, finding{Problem: err.Error()})
	}
	r.note("servers", runningServers(len(r.Servers), others), problems...)
}

// runningServers says how many servers run with the drivers, of which some use another
// database.
func runningServers(all, others int) string {
	switch {
	case all == 0:
		return "none runs with these drivers"
	case others == all:
		return fmt.Sprintf("none of this database; %s of other databases with these drivers", output.Count(others, "server"))
	case others > 0:
		return fmt.Sprintf("%s of this database; %d of other databases with these drivers", output.Count(all-others, "server"), others)
	}
	return output.Count(all, "server") + " of this database"
}

// ailments says what is wrong with a driver in a server.
func ailments(s socket.Found, d driverhost.Status, lock driverhost.Lock) []finding {
	var out []finding
	switch d.State {
	case driverhost.Backoff, driverhost.BreakerOpen, driverhost.HalfOpen:
		out = append(out, finding{
			Problem: fmt.Sprintf("%s: driver %s is in state %s: %s", servers.Process(s), d.Name, d.State, d.LastError),
			Fix:     fmt.Sprintf("see `kairos driver info %s`; `kairos reload %s` once it is fixed", d.Name, d.Name),
		})
	}
	if d.Excess.Count > 0 {
		out = append(out, finding{
			Problem: fmt.Sprintf("%s: processes of driver %s were ended %d times because of their memory, last at %s: %s", servers.Process(s), d.Name,
				d.Excess.Count, output.Moment(d.Excess.At), d.Excess.Why),
			Fix: fmt.Sprintf("raise drivers.settings.%s.memory_mib if it needs more, else replace the driver; a restart of the server forgets this", d.Name),
		})
	}
	if e, ok := drivers.EntryOf(lock, d.Name); ok && e.SHA256[driverhost.Platform()] != d.SHA256 {
		out = append(out, finding{
			Problem: fmt.Sprintf("%s: driver %s runs as %s %s, but %s %s is locked", servers.Process(s), d.Name,
				d.Version, output.ShortSum(d.SHA256), e.Version, output.ShortSum(e.SHA256[driverhost.Platform()])),
			Fix: "run `kairos reload`",
		})
	}
	return out
}

func stepFix(s archive.UnservedStep) string {
	switch s.Trouble {
	case archive.TroubleGone:
		return fmt.Sprintf("install a driver that handles %s (`kairos driver install FILE`), or change or delete the protocol", s.Type)
	case archive.TroubleBroken:
		return fmt.Sprintf("see `kairos driver verify --start %s`", s.Driver)
	case archive.TroubleRefuses:
		return fmt.Sprintf("change the step and mint the protocol again, or install the driver %s that took it", s.Driver)
	}
	return ""
}

func runFix(r archive.UnservedRun) string {
	switch r.Trouble {
	case archive.TroubleRefuses:
		return fmt.Sprintf("install the driver %s that took it; or attest the run as a failure, change the step and begin anew", r.Driver)
	case archive.TroubleGone, archive.TroubleBroken:
		return stepFix(r.UnservedStep) + "; nothing is lost, the run continues then"
	case archive.TroubleUnreadable:
		return "restore the database from a backup: this run cannot continue, all others can"
	}
	return ""
}

func (r doctorReport) text(p *output.Printer) {
	for _, c := range r.Checks {
		word := "ok "
		if !c.OK {
			word = "BAD"
		}
		p.Printf("%s  %-16s %s\n", word, c.Check, output.Lines(c.Detail))
		for _, f := range c.Problems {
			printFinding(p, f)
		}
		for _, f := range c.Warnings {
			printFinding(p, finding{"warning: " + f.Problem, f.Fix})
		}
	}
	if len(r.Steps) > 0 {
		p.Printf("\nsteps that no driver serves:\n")
	}
	var last finding
	for _, s := range r.Steps {
		last = printNew(p, last, finding{s.Problem, s.Fix})
		p.Printf("  %s, step %d %q, type %s: %s\n", s.Protocol, s.Step, s.Label, s.Type, s.Trouble)
	}
	last = printNew(p, last, finding{})
	if len(r.Runs) > 0 {
		p.Printf("\nruns that cannot continue (no attempt is counted):\n")
	}
	for _, run := range r.Runs {
		last = printNew(p, last, finding{run.Problem, run.Fix})
		p.Printf("  %s of %s, step %d", run.Run, run.Protocol, run.Step)
		if run.Type != "" {
			p.Printf(" %q, type %s", run.Label, run.Type)
		}
		p.Printf(": %s\n", run.Trouble)
	}
	printNew(p, last, finding{})
}

// printNew prints what the entries before have in common, once the next one has another
// finding, and returns that of the next one.
func printNew(p *output.Printer, last, next finding) finding {
	if last != next && last != (finding{}) {
		printFinding(p, last)
	}
	return next
}

// printFinding prints a problem and what to do, unless the problem says that itself.
func printFinding(p *output.Printer, f finding) {
	p.Printf("       %s\n", output.Lines(strings.ReplaceAll(f.Problem, "\n", "\n       ")))
	command := quoted.FindString(f.Fix)
	if f.Fix != "" && (command == "" || !strings.Contains(f.Problem, command)) {
		p.Printf("       -> %s\n", output.Lines(f.Fix))
	}
}

// quoted is a command in a text.
var quoted = regexp.MustCompile("`[^`]+`")
