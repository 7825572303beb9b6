package drivers

import (
	"cmp"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/app"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/config"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/files"
	"github.com/kairos-mcp/kairos/core/audit"
	"github.com/kairos-mcp/kairos/core/driverhost"
)

// lockReport is what `driver lock` and `driver install` print.
type lockReport struct {
	Lock    string       `json:"lock"`
	Drivers []lockChange `json:"drivers"`
	// Warnings are what the operator should know besides.
	Warnings []string `json:"warnings"`
	// Refused are the files that were not installed.
	Refused []refusedDriver `json:"refused,omitempty"`
	// misfits are those of the warnings that say why no server takes the drivers up.
	misfits []string
	// Servers are the running servers and what they did.
	Servers []changeReport `json:"servers,omitempty"`
}

// refusals is an error if files were not installed.
func (r lockReport) refusals() error {
	if len(r.Refused) == 0 {
		return nil
	}
	why := make([]string, len(r.Refused))
	for i, one := range r.Refused {
		why[i] = one.Why
	}
	return fmt.Errorf("%s not installed: %s", output.Count(len(r.Refused), "driver"), strings.Join(why, "\n"))
}

// lockChange is what became of one entry of a lock.
type lockChange struct {
	Name   string `json:"name"`
	Change string `json:"change"` // added, updated, removed or unchanged
	// From and To are versions; empty where there is none.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
	// SHA256 is the sum on this platform now.
	SHA256 string `json:"sha256,omitempty"`
	// Note says what is different.
	Note string `json:"note,omitempty"`
}

func (r lockReport) changed() bool {
	return slices.ContainsFunc(r.Drivers, func(c lockChange) bool { return c.Change != "unchanged" })
}

func (r lockReport) text(p *output.Printer) {
	for _, c := range r.Drivers {
		version := cmp.Or(c.To, c.From)
		if c.From != "" && c.To != "" && c.From != c.To {
			version = c.From + " -> " + c.To
		}
		p.Printf("%-9s  %s %s", c.Change, c.Name, version)
		if c.Note != "" {
			p.Printf(": %s", c.Note)
		}
		p.Printf("\n")
	}
	for _, w := range r.Warnings {
		p.Printf("note: %s\n", w)
	}
}

type lockOptions struct {
	check          bool
	platform, from string
}

func driverLockCommand(at *session.Session, out *output.Format) *cobra.Command {
	var opt lockOptions
	cmd := &cobra.Command{
		Use:   "lock DIR",
		Short: "Write the drivers.lock of a folder",
		Long: "Runs every kairos-driver-* of the folder with --describe, isolated as a driver is, and writes its name, version, sha256 and\n" +
			"descriptor to drivers.lock in the same folder. A server starts only what is locked there. The checksums of other\n" +
			"platforms are kept if name and version are the same.\n\n" +
			"Binaries of another platform cannot run here. With --platform and --from their checksums are added to drivers\n" +
			"that are locked already.",
		Example: "  kairos driver lock bin/drivers\n" +
			"  kairos driver lock bin/drivers --platform linux/arm64 --from build/arm64\n" +
			"  kairos driver lock bin/drivers --check",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return lockDrivers(cmd, at, args[0], opt, out) },
	}
	cmd.Flags().BoolVar(&opt.check, "check", false, "change nothing; fail when the lock is not up to date")
	cmd.Flags().StringVar(&opt.platform, "platform", "", "add the sums of another platform, such as linux/arm64; needs --from")
	cmd.Flags().StringVar(&opt.from, "from", "", "folder with the binaries of --platform")
	cmd.MarkFlagsRequiredTogether("platform", "from")
	return cmd
}

func lockDrivers(cmd *cobra.Command, at *session.Session, dir string, opt lockOptions, out *output.Format) (err error) {
	c, err := at.Load()
	if err != nil {
		return err
	}
	unlock, err := holdFolder(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	report := lockReport{Lock: config.LockPath(dir), Warnings: []string{}}
	old, err := driverhost.ReadLock(report.Lock)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		if opt.platform != "" {
			return err
		}
		report.Warnings = append(report.Warnings, fmt.Sprintf("the lock that was there is replaced as a whole: %v", err))
	}
	var next driverhost.Lock
	if opt.platform != "" {
		next, err = addPlatform(old, opt.platform, opt.from)
	} else if next, err = output.While(cmd.ErrOrStderr(), "describing drivers", func() (driverhost.Lock, error) {
		return driverhost.DescribeAll(cmd.Context(), dir, app.Confinement(c, at.File, dir))
	}); err == nil {
		keepPlatforms(old, &next)
	}
	if err != nil {
		return err
	}
	report.Drivers = lockChanges(old, next)
	if !opt.check {
		act := audit.Act{Action: audit.DriverLock, Object: report.Lock}
		if err := app.Audited(cmd.Context(), c, at.Version, act, func() error { return driverhost.WriteLock(report.Lock, next) }); err != nil {
			return err
		}
	}
	err = out.Print(cmd.OutOrStdout(), report, func(p *output.Printer) {
		report.text(p)
		if !opt.check {
			p.Printf("locked %d drivers in %s\n", len(next.Drivers), report.Lock)
		}
	})
	if err == nil && opt.check && (report.changed() || len(report.Warnings) > 0) {
		return fmt.Errorf("%s is not up to date: run `kairos driver lock %s`", report.Lock, dir)
	}
	return err
}

// holdFolder keeps two commands from writing the lock of a folder at the same
// time.
func holdFolder(dir string) (release func() error, err error) {
	f, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err != nil {
		return nil, fmt.Errorf("open the drivers folder: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("hold the drivers folder %s: %w", dir, err), f.Close())
	}
	return f.Close, nil
}

// keepPlatforms takes over the sums that this machine cannot make.
func keepPlatforms(old driverhost.Lock, next *driverhost.Lock) {
	for i, e := range next.Drivers {
		was, ok := EntryOf(old, e.Name)
		if !ok || was.Version != e.Version {
			continue
		}
		sums := maps.Clone(was.SHA256)
		maps.Copy(sums, e.SHA256)
		next.Drivers[i].SHA256 = sums
	}
}

// lockChanges says what is different, by name.
func lockChanges(old, next driverhost.Lock) []lockChange {
	out := []lockChange{}
	for _, e := range next.Drivers {
		c := lockChange{Name: e.Name, Change: "added", To: e.Version, SHA256: e.SHA256[driverhost.Platform()]}
		if was, ok := EntryOf(old, e.Name); ok {
			c.From, c.Note = was.Version, difference(was, e)
			c.Change = "unchanged"
			if c.Note != "" {
				c.Change = "updated"
			}
		}
		out = append(out, c)
	}
	for _, was := range old.Drivers {
		if _, ok := EntryOf(next, was.Name); !ok {
			out = append(out, lockChange{Name: was.Name, Change: "removed", From: was.Version, Note: was.File + " is gone"})
		}
	}
	slices.SortFunc(out, func(a, b lockChange) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// difference says in words what is new in an entry, or empty.
func difference(was, is driverhost.LockedEntry) string {
	var parts []string
	for _, platform := range slices.Sorted(maps.Keys(is.SHA256)) {
		switch before, now := was.SHA256[platform], is.SHA256[platform]; before {
		case now:
		case "":
			parts = append(parts, fmt.Sprintf("%s %s is new", platform, output.ShortSum(now)))
		default:
			parts = append(parts, fmt.Sprintf("%s %s -> %s", platform, output.ShortSum(before), output.ShortSum(now)))
		}
	}
	for _, platform := range slices.Sorted(maps.Keys(was.SHA256)) {
		if is.SHA256[platform] == "" {
			parts = append(parts, fmt.Sprintf("%s is dropped, because it was of version %s", platform, was.Version))
		}
	}
	if was.File != is.File {
		parts = append(parts, was.File+" -> "+is.File)
	}
	if !reflect.DeepEqual(was.Descriptor, is.Descriptor) {
		parts = append(parts, "it describes itself otherwise")
	}
	return strings.Join(parts, "; ")
}

// addPlatform adds the sums of binaries that cannot be run here.
func addPlatform(lock driverhost.Lock, platform, from string) (driverhost.Lock, error) {
	if platform == driverhost.Platform() {
		return lock, fmt.Errorf("%s is this machine: run `kairos driver lock` without --platform", platform)
	}
	system, arch, ok := strings.Cut(platform, "/")
	if !ok || system == "" || arch == "" {
		return lock, fmt.Errorf("--platform is %q: must be like linux/arm64", platform)
	}
	paths, err := binariesIn(from)
	if err != nil || len(paths) == 0 {
		return lock, errors.Join(fmt.Errorf("no %s* in %s", driverhost.BinaryPrefix, from), err)
	}
	next := lock
	next.Drivers = slices.Clone(lock.Drivers)
	for _, path := range paths {
		i := slices.IndexFunc(next.Drivers, func(e driverhost.LockedEntry) bool { return e.File == filepath.Base(path) })
		if i < 0 {
			return lock, fmt.Errorf("%s: no locked driver has a file of this name: lock the same driver for this machine first, "+
				"because it cannot be asked here what it is", path)
		}
		if err := builtFor(path, system, arch); err != nil {
			return lock, err
		}
		sum, err := driverhost.SumFile(path)
		if err != nil {
			return lock, err
		}
		sums := maps.Clone(next.Drivers[i].SHA256)
		sums[platform] = sum
		next.Drivers[i].SHA256 = sums
	}
	return next, nil
}

// builtFor compares the platform of a Go binary with the given one. Other binaries
// do not name theirs.
func builtFor(path, system, arch string) error {
	f, err := files.Open(os.OpenFile, path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read
	info, err := buildinfo.Read(f)
	if err != nil {
		return nil // it is not a Go binary
	}
	setting := func(key string) string {
		i := slices.IndexFunc(info.Settings, func(s debug.BuildSetting) bool { return s.Key == key })
		if i < 0 {
			return ""
		}
		return info.Settings[i].Value
	}
	if s, a := setting("GOOS"), setting("GOARCH"); s != "" && (s != system || a != arch) {
		return fmt.Errorf("%s is built for %s/%s, not for %s/%s", path, s, a, system, arch)
	}
	return nil
}
