package drivers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/app"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/servers"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/config"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/files"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/audit"
	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/core/rules"
	"github.com/kairos-mcp/kairos/core/server/operations"
	"github.com/kairos-mcp/kairos/core/server/socket"
	"github.com/kairos-mcp/kairos/core/setup"
)

func driverInstallCommand(at *session.Session, out *output.Format) *cobra.Command {
	var force, yes bool
	cmd := &cobra.Command{
		Use:   "install FILE...",
		Short: "Install driver binaries and lock them",
		Long: "Copies each file into the drivers folder as kairos-driver-NAME, starts it there with its settings as a server would, and\n" +
			"updates its entry in drivers.lock. Then the running servers take it up, and the command prints what they did. A driver\n" +
			"that does not work keeps the version that is installed, and the others are installed all the same. Settings that a\n" +
			"driver requires are written to drivers.settings.NAME of the configuration first.\n\n" +
			"An installed driver is replaced. Protocols and the decision tree rely on its role and on what it handles, so an\n" +
			"update that changes the role or handles less needs --force. Two drivers cannot handle one challenge type.\n\n" +
			"Before it installs anything, the command shows what each driver may do, or what an update changes. It asks for\n" +
			"confirmation at a terminal and needs --yes elsewhere.",
		Example: "  kairos driver install ./kairos-driver-word_count\n  kairos driver install --yes bin/drivers/*",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := at.Load()
			if err != nil {
				return err
			}
			report, err := install(cmd.Context(), c, args, installation{
				version: at.Version, force: force, isolation: app.Confinement(c, at.File), progress: cmd.ErrOrStderr(),
				approve: func(grants []grant) error { return approveGrants(cmd, grants, yes) },
				tell:    func(r *lockReport) { r.tellServers(cmd, c) },
			})
			if err != nil {
				return err
			}
			err = out.Print(cmd.OutOrStdout(), report, func(p *output.Printer) {
				report.text(p)
				if len(report.Drivers) > 0 {
					toldText(p, report.Servers)
				}
			})
			return errors.Join(err, report.refusals(), refusals(report.Servers))
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "install without asking")
	cmd.Flags().BoolVar(&force, "force", false, "also where a driver changes its role or what it handles")
	return cmd
}

// installation says how drivers are installed.
type installation struct {
	version   string // of this program
	force     bool   // also where a driver takes something away
	isolation driverhost.Confinement
	approve   func([]grant) error // an error: nothing is installed
	tell      func(*lockReport)   // has the running servers take up what changed
	progress  io.Writer           // the terminal, if there is one
}

// refusedDriver is a file that was not installed, and why.
type refusedDriver struct {
	File   string `json:"file"`
	Driver string `json:"driver,omitempty"`
	Why    string `json:"why"`
}

// install copies, tries and locks the files. A driver that cannot be installed keeps the
// version that is there, and the others are installed all the same.
func install(ctx context.Context, c config.Config, files []string, how installation) (report lockReport, err error) {
	dir := c.Drivers.Dir
	report = lockReport{Lock: config.LockPath(dir), Warnings: []string{}}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return report, fmt.Errorf("make the drivers folder: %w", err)
	}
	if err := driverhost.CheckPermissions(dir); err != nil { // no server would start what is there
		return report, fmt.Errorf("nothing is installed in %s: %w", dir, err)
	}
	release, err := holdFolder(dir)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, release()) }()
	old, err := driverhost.ReadLock(report.Lock)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return report, err
	}
	all, err := output.While(how.progress, "describing drivers", func() ([]stagedDriver, error) {
		return stageAll(ctx, dir, files, how.isolation)
	})
	defer func() {
		for _, s := range all {
			_, _ = os.Remove(s.temp), os.Remove(s.was()) // gone already where it was installed
		}
	}()
	if err != nil {
		return report, err
	}
	fit := report.keep(all, func(s stagedDriver) error { return s.unfit(old, all, how.force) })
	if err := how.approve(grantsOf(c, old, fit)); err != nil {
		return report, err
	}
	fit, err = output.While(how.progress, "starting drivers", func() ([]stagedDriver, error) {
		return report.keep(fit, func(s stagedDriver) error { return s.try(ctx, c, how.isolation) }), ctx.Err()
	})
	if err != nil || len(fit) == 0 {
		return report, err
	}
	err = app.Audited(ctx, c, how.version, installed(fit), func() error { return report.placeAll(c, old, fit, how.tell) })
	return report, err
}

// placeAll locks the drivers and has the running servers take them up.
func (r *lockReport) placeAll(c config.Config, old driverhost.Lock, fit []stagedDriver, tell func(*lockReport)) error {
	if err := r.place(c, old, fit); err != nil || !r.changed() {
		return err
	}
	tell(r)
	if refusedWhy(r.Servers) == "" || len(old.Drivers) == 0 || len(r.misfits) > 0 {
		return nil // or the configuration is what has to change
	}
	return r.oneByOne(c, old, fit, tell)
}

// installed is what the audit log says of drivers: their versions and sums.
func installed(drivers []stagedDriver) audit.Act {
	act := audit.Act{Action: audit.DriverInstall, Details: map[string]string{}}
	for _, s := range drivers {
		act.Object = strings.TrimSpace(act.Object + " " + s.entry.Name)
		act.Details[s.entry.Name] = s.entry.Version + " sha256:" + s.entry.SHA256[driverhost.Platform()]
	}
	return act
}

// keep returns the drivers without a reason to refuse them, and records the others.
func (r *lockReport) keep(all []stagedDriver, unfit func(stagedDriver) error) []stagedDriver {
	var fit []stagedDriver
	for _, s := range all {
		if why := unfit(s); why != nil {
			r.Refused = append(r.Refused, refusedDriver{s.file, s.entry.Name, why.Error()})
			continue
		}
		fit = append(fit, s)
	}
	return fit
}

// stagedDriver is a file that is copied into the folder but not installed yet.
type stagedDriver struct {
	file  string // that the operator named
	entry driverhost.LockedEntry
	temp  string
	fault error // why it is not a driver
}

// stageAll copies and describes the files. What is staged has to be removed, with an error
// too. That a file is not a driver is the fault of that file alone.
func stageAll(ctx context.Context, dir string, files []string, isolation driverhost.Confinement) ([]stagedDriver, error) {
	var staged []stagedDriver
	for _, file := range files {
		s := stagedDriver{file: file}
		if s.temp, s.fault = copyExecutable(dir, file); s.fault != nil {
			s.fault = fmt.Errorf("copy %s: %w", file, s.fault)
			staged = append(staged, s)
			continue
		}
		// The copy is what is described and locked, whatever becomes of the original.
		entry, err := driverhost.DescribeFile(ctx, s.temp, isolation)
		switch {
		case err != nil:
			s.fault = fmt.Errorf("%s is not a driver that can be installed: %w", file, copyError{err, s.temp, file})
		case slices.ContainsFunc(staged, func(s stagedDriver) bool { return s.entry.Name == entry.Name }):
			return append(staged, s), fmt.Errorf("nothing is installed: %s: a driver %q is among the files already", file, entry.Name)
		default:
			s.entry = entry
			s.entry.File = driverhost.BinaryPrefix + entry.Name
		}
		staged = append(staged, s)
	}
	return staged, nil
}

// copyError is an error about a copy, told as one about the file that the
// operator knows.
type copyError struct {
	error
	temp, file string
}

// Error implements error.
func (e copyError) Error() string {
	text := strings.ReplaceAll(e.error.Error(), e.temp, e.file)
	return strings.ReplaceAll(text, filepath.Base(e.temp), filepath.Base(e.file))
}

// Unwrap gives errors.Is and errors.As the cause.
func (e copyError) Unwrap() error { return e.error }

// withoutPath is the cause of an error that names a temporary file.
func withoutPath(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// copyExecutable copies a file into the folder under a name that no driver has.
func copyExecutable(dir, file string) (temp string, err error) {
	from, err := files.Open(os.OpenFile, file)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	to, err := os.CreateTemp(dir, ".install-*")
	if err != nil {
		return "", fmt.Errorf("write to the folder %s: %w", dir, withoutPath(err))
	}
	_, err = io.Copy(to, from)
	if err = errors.Join(err, to.Chmod(0o755), to.Sync(), to.Close()); err != nil {
		return "", errors.Join(fmt.Errorf("write to the folder %s: %w", dir, withoutPath(err)), os.Remove(to.Name()))
	}
	return to.Name(), nil
}

// afterInstall says what the operator should know of what is installed now.
func afterInstall(old driverhost.Lock, staged []stagedDriver) []string {
	var out []string
	for _, s := range staged {
		was, ok := EntryOf(old, s.entry.Name)
		if !ok {
			continue
		}
		if was.Version == s.entry.Version && !reflect.DeepEqual(was.Descriptor, s.entry.Descriptor) {
			out = append(out, unchangedVersion(was, s.entry))
		}
		for _, v := range was.Descriptor.StateVersions {
			if !slices.Contains(s.entry.Descriptor.StateVersions, v) {
				out = append(out, fmt.Sprintf("%s %s does not read state of version %d: open steps that keep such state start over",
					s.entry.Name, s.entry.Version, v))
			}
		}
	}
	return out
}

// misfits says that the decision tree, approval.how or the rules do not fit the drivers of a lock, if so.
func misfits(c config.Config, lock driverhost.Lock) (out []string) {
	if _, err := c.TreeFor(lock); err != nil {
		out = append(out, fmt.Sprintf("the configuration does not fit these drivers, so no server takes them up: %v", err))
	}
	if _, err := rules.Compile(c.RulesSource(), lock.Descriptors()); err != nil {
		out = append(out, fmt.Sprintf("the rules do not fit these drivers, so no server takes them up: %v", err))
	}
	return out
}

// unchangedVersion says that a driver is another one although its version is not.
func unchangedVersion(was, is driverhost.LockedEntry) string {
	what := "describes itself otherwise"
	if before, now := was.Descriptor.Handles, is.Descriptor.Handles; !slices.Equal(before, now) {
		what = fmt.Sprintf("handles %s instead of %s", strings.Join(now, ", "), strings.Join(before, ", "))
	}
	return fmt.Sprintf("%s %s replaces a driver of the same version but %s: proofs tell the two apart only by their sums; give it a new version if it is not the same driver",
		is.Name, is.Version, what)
}

const idle = "no server runs with these drivers; the next one that starts takes them as they are"

// tellServers has the running servers of the drivers folder take up what is in it now.
func (r *lockReport) tellServers(cmd *cobra.Command, c config.Config) {
	err := new(servers.Choice).With(cmd.Context(), c, func(found []socket.Found) error {
		r.Servers = changeAll(cmd, found, func(ctx context.Context, t api.Transport) (setup.Report, error) {
			return operations.ReloadDrivers.Call(ctx, t, operations.ReloadRequest{})
		})
		return nil
	})
	if err != nil {
		r.Warnings = append(r.Warnings, fmt.Sprintf("no server could be asked to take this up: %v", err))
	}
}

// toldText says what the servers did.
func toldText(p *output.Printer, reports []changeReport) {
	if len(reports) == 0 {
		p.Printf("next: %s\n", idle)
	}
	for _, r := range reports {
		switch {
		case r.Report == nil:
			p.Printf("server %d refused and runs on as before: %s\n", r.Server.PID, output.Lines(r.Refused))
		case r.Report.Changed():
			r.text(p)
		default:
			p.Printf("server %d: took them up\n", r.Server.PID) // a server that watches the folder was faster
		}
	}
}

// refusals is an error if servers run on as before.
func refusals(reports []changeReport) error {
	refused := slices.DeleteFunc(slices.Clone(reports), func(r changeReport) bool { return r.Report != nil })
	switch {
	case len(refused) == 0:
		return nil
	case len(reports) == 1:
		return errors.New("the server refused and runs on as before")
	}
	return fmt.Errorf("%d of %d servers refused and run on as before", len(refused), len(reports))
}
