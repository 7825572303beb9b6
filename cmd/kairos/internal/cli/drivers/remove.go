package drivers

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/app"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/ask"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/config"
	"github.com/kairos-mcp/kairos/core/archive"
	"github.com/kairos-mcp/kairos/core/audit"
	"github.com/kairos-mcp/kairos/core/driverhost"
)

func driverRemoveCommand(at *session.Session, out *output.Format) *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "remove NAME",
		Short: "Remove a driver and its lock entry",
		Long: "Removes the driver's entry from drivers.lock and its binary from the drivers folder. Open runs that need the driver\n" +
			"are listed first: they lose nothing, but cannot continue until another driver replaces it. If there are any, the\n" +
			"command asks for confirmation at a terminal and needs --yes elsewhere. The driver's settings stay in the\n" +
			"configuration; the command names them.",
		Example: "  kairos driver remove word_count\n" +
			"  kairos driver remove --yes word_count",
		Args: cobra.ExactArgs(1), ValidArgsFunction: session.First(completeDrivers(at)),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := at.Load()
			if err != nil {
				return err
			}
			report, err := remove(cmd.Context(), c, at.Version, args[0], func() ([]archive.Dependent, error) {
				runs, err := dependents(cmd.Context(), *at, args[0])
				return runs, approveRemoval(cmd, args[0], runs, err, yes)
			})
			if err != nil {
				return err
			}
			if _, ok := c.Drivers.Settings[args[0]]; ok {
				report.Warnings = append(report.Warnings, fmt.Sprintf("drivers.settings.%s is left in %s; delete it, or keep it for the day the driver is installed again", args[0], at.File))
			}
			report.tellServers(cmd, c)
			err = out.Print(cmd.OutOrStdout(), report, func(p *output.Printer) {
				report.text(p)
				toldText(p, report.Servers)
			})
			return errors.Join(err, refusals(report.Servers))
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "remove it although open runs need it, without asking")
	return cmd
}

// removal is what `driver remove` prints.
type removal struct {
	lockReport
	// Runs cannot continue until another driver takes its place.
	Runs []archive.Dependent `json:"runs"`
}

func (r removal) text(p *output.Printer) {
	r.lockReport.text(p)
	for _, d := range r.Runs {
		p.Printf("waits: %s\n", dependentLine(d))
	}
}

func dependentLine(d archive.Dependent) string {
	return fmt.Sprintf("run %s of %q at step %d, %s: %s", d.Run, d.Protocol, d.Step, d.Label, d.Reason)
}

// remove takes a driver out of the folder, unless approve returns an error.
func remove(ctx context.Context, c config.Config, version, name string, approve func() ([]archive.Dependent, error)) (report removal, err error) {
	dir := c.Drivers.Dir
	report = removal{lockReport: lockReport{Lock: config.LockPath(dir), Warnings: []string{}}}
	release, err := holdFolder(dir)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, release()) }()
	old, err := driverhost.ReadLock(report.Lock)
	if err != nil {
		return report, err
	}
	entry, ok := EntryOf(old, name)
	if !ok {
		return report, noSuchDriver(name, old, c)
	}
	if report.Runs, err = approve(); err != nil {
		return report, err
	}
	next := old
	next.Drivers = slices.DeleteFunc(slices.Clone(old.Drivers), func(e driverhost.LockedEntry) bool { return e.Name == name })
	err = app.Audited(ctx, c, version, audit.Act{Action: audit.DriverRemove, Object: name}, func() error {
		// The lock comes first: what it does not have never starts.
		if err := driverhost.WriteLock(report.Lock, next); err != nil {
			return err
		}
		if err := os.Remove(filepath.Join(dir, entry.File)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("the lock no longer has driver %s, but its binary is still there: %w; delete it", name, err)
		}
		return nil
	})
	if err != nil {
		return report, err
	}
	for _, change := range lockChanges(old, next) {
		if change.Name == name {
			report.Drivers = append(report.Drivers, change)
		}
	}
	report.Warnings = append(report.Warnings, misfits(c, next)...)
	return report, nil
}

// dependents looks into the database for open runs that need the driver.
func dependents(ctx context.Context, s session.Session, name string) (runs []archive.Dependent, err error) {
	if c, err := s.Load(); err == nil && !app.DatabaseExists(c.Database) {
		return nil, nil
	}
	err = s.With(ctx, func(ctx context.Context, a *app.App) error {
		runs, err = a.Engine.Archive.Dependents(ctx, a.RunCaller(), name)
		return err
	})
	return runs, err
}

// approveRemoval has the operator agree where open runs need the driver, or
// where nobody can tell because they could not be read.
func approveRemoval(cmd *cobra.Command, name string, runs []archive.Dependent, unread error, yes bool) error {
	if len(runs) == 0 && unread == nil {
		return nil
	}
	p := &output.Printer{W: cmd.ErrOrStderr()}
	if unread != nil {
		p.Printf("the open runs that need driver %s could not be looked up: %v\n", name, unread)
	}
	for _, d := range runs {
		p.Printf("%s\n", dependentLine(d))
	}
	if p.Err != nil || yes {
		return p.Err
	}
	ok, err := ask.Agreed(cmd, p, "remove driver "+name+" all the same?")
	if err == nil && !ok {
		err = fmt.Errorf("driver %s was not removed", name)
	}
	return err
}
