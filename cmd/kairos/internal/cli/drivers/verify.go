package drivers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/app"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/ask"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/config"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/files"
	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// VerifyReport is what `driver verify` prints.
type VerifyReport struct {
	OK         bool             `json:"ok"`
	DriversDir string           `json:"drivers_dir"`
	Problems   []string         `json:"problems"` // of the folder and the lock
	Warnings   []string         `json:"warnings"`
	Drivers    []verifiedDriver `json:"drivers"`
}

// verifiedDriver is one driver that was verified.
type verifiedDriver struct {
	Name     string   `json:"name"`
	Version  string   `json:"version"`
	OK       bool     `json:"ok"`
	SHA256   string   `json:"sha256"` // in the lock, for this platform
	Problems []string `json:"problems"`
	Warnings []string `json:"warnings"`
	// StartMS is how long it took to start, in milliseconds; only with --start.
	StartMS float64 `json:"start_ms,omitempty"`
}

func (d *verifiedDriver) problem(err error) {
	if err != nil {
		d.Problems = append(d.Problems, err.Error())
	}
}

func driverVerifyCommand(at *session.Session, out *output.Format) *cobra.Command {
	var start bool
	cmd := &cobra.Command{
		Use: "verify [NAME...]", ValidArgsFunction: completeDrivers(at),
		Short: "Compare the driver binaries with the lock",
		Long: "Compares the checksums of the binaries with drivers.lock, and checks who may write to the folder. With --start it also\n" +
			"starts each driver, reads its descriptor, tries its configuration and asks for its health. The exit status is 1 if\n" +
			"anything is wrong.",
		Example: "  kairos driver verify\n  kairos driver verify --start shell",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := at.Load()
			if err != nil {
				return err
			}
			var isolation *driverhost.Confinement
			if start {
				started := app.Confinement(c, at.File)
				isolation = &started
			}
			report, err := output.While(cmd.ErrOrStderr(), "verifying drivers", func() (VerifyReport, error) {
				return Verify(cmd.Context(), c, args, isolation)
			})
			if err != nil {
				return err
			}
			err = out.Print(cmd.OutOrStdout(), report, report.text)
			if err == nil && !report.OK {
				err = fmt.Errorf("the drivers in %s are not as they should be", c.Drivers.Dir)
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&start, "start", false, "also start, describe, configure (dry run) and probe each driver")
	return cmd
}

// Verify compares the driver binaries with the lock, and starts each one where
// start says how it is isolated.
func Verify(ctx context.Context, c config.Config, names []string, start *driverhost.Confinement) (VerifyReport, error) {
	r := VerifyReport{DriversDir: c.Drivers.Dir, Problems: []string{}, Warnings: []string{}, Drivers: []verifiedDriver{}}
	lock, err := c.ReadLock()
	if err != nil {
		return r, err
	}
	for _, name := range names {
		if _, ok := EntryOf(lock, name); !ok {
			return r, noSuchDriver(name, lock, c)
		}
	}
	verify := driverhost.VerifyFile
	if err := driverhost.CheckPermissions(c.Drivers.Dir); err != nil {
		// It is said once; the binaries can be compared all the same.
		r.Problems = append(r.Problems, err.Error())
		if start != nil {
			r.Warnings = append(r.Warnings, "no driver was started, because of the permissions")
		}
		start, verify = nil, compareSum
	}
	r.Warnings = append(r.Warnings, notLocked(c, lock)...)
	r.OK = len(r.Problems) == 0
	for _, e := range lock.Drivers {
		if len(names) > 0 && !slices.Contains(names, e.Name) {
			continue
		}
		d := verifyDriver(c, e, verify)
		if start != nil && d.OK { // nothing is started that is not what was locked
			tryDriver(ctx, c, e, *start, &d)
			d.OK = len(d.Problems) == 0
		}
		r.OK = r.OK && d.OK
		r.Drivers = append(r.Drivers, d)
	}
	return r, nil
}

// binariesIn lists the files of a folder that are named as drivers are. It reads the folder,
// because in a pattern the name of the folder would take part.
func binariesIn(dir string) (paths []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), driverhost.BinaryPrefix) {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	return paths, err
}

// notLocked lists binaries in the folder that never start.
func notLocked(c config.Config, lock driverhost.Lock) []string {
	paths, err := binariesIn(c.Drivers.Dir)
	var out []string
	if err != nil {
		out = append(out, fmt.Sprintf("the folder cannot be read, so nothing says which binaries in it are not locked: %v", err))
	}
	for _, path := range paths {
		if !slices.ContainsFunc(lock.Drivers, func(e driverhost.LockedEntry) bool { return e.File == filepath.Base(path) }) {
			out = append(out, fmt.Sprintf("%s is not locked, so it never starts; `kairos driver lock %s` locks it", path, c.Drivers.Dir))
		}
	}
	return out
}

func verifyDriver(c config.Config, e driverhost.LockedEntry, verify func(dir string, e driverhost.LockedEntry) error) verifiedDriver {
	d := verifiedDriver{
		Name: e.Name, Version: e.Version, SHA256: e.SHA256[driverhost.Platform()], Problems: []string{}, Warnings: []string{},
	}
	if err := verify(c.Drivers.Dir, e); err != nil {
		d.problem(fmt.Errorf("%w (here: `kairos driver lock %s`)", err, c.Drivers.Dir))
	}
	d.OK = len(d.Problems) == 0
	return d
}

// compareSum is driverhost.VerifyFile whoever may write the binary.
func compareSum(dir string, e driverhost.LockedEntry) error {
	path := filepath.Join(dir, e.File)
	sum, err := driverhost.SumFile(path)
	if err != nil {
		return fmt.Errorf("driver %s: its binary cannot be read: %w", e.Name, err)
	}
	if want := e.SHA256[driverhost.Platform()]; sum != want {
		return fmt.Errorf("driver %s: %s is not the locked one: its sha256 is %s, the lock says %s", e.Name, path, sum, want)
	}
	return nil
}

// tryDriver starts a driver on its own, away from any server, and ends it again.
func tryDriver(ctx context.Context, c config.Config, e driverhost.LockedEntry, isolation driverhost.Confinement, d *verifiedDriver) {
	settings := c.Drivers.Settings[e.Name]
	given, err := settings.JSON()
	if err != nil {
		d.problem(fmt.Errorf("drivers.settings.%s.config: %w", e.Name, err))
		return
	}
	isolation.Folders = files.Absolute(settings.Folders...)
	path := filepath.Join(c.Drivers.Dir, e.File)
	launched, err := driverhost.Launch(ctx, path,
		driverhost.LaunchConfig{Confinement: isolation, EnvFrom: settings.EnvFrom, Config: given}, slog.New(slog.DiscardHandler))
	if err != nil {
		d.problem(err)
		return
	}
	defer func() { d.problem(launched.Close()) }()
	d.StartMS = float64(launched.Took().Microseconds()) / 1000
	if !reflect.DeepEqual(launched.Descriptor(), e.Descriptor) {
		d.problem(fmt.Errorf("its descriptor differs from drivers.lock; run `kairos driver lock %s` if you trust the new binary", c.Drivers.Dir))
	}
	if e.Descriptor.Effect == driver.EffectChanges && !e.Descriptor.Has(driver.FeaturePreview) && !settings.May.Has(driverhost.MayChange) {
		d.Warnings = append(d.Warnings, "it changes something whenever it is called, and refuses calls until drivers.settings."+e.Name+".may lists change")
	}
	ctx, cancel := context.WithTimeout(ctx, driverhost.DefaultCall)
	defer cancel()
	if len(given) > 0 || len(e.Descriptor.ConfigSchema) > 0 {
		found, err := launched.Calls().Configure(ctx, given, true)
		if err != nil {
			d.problem(fmt.Errorf("configure (dry run): %w", err))
		}
		for _, f := range found {
			finding := strings.TrimPrefix(f.Pointer+": "+f.Message, ": ")
			if f.Severity == driver.SeverityWarning {
				d.Warnings = append(d.Warnings, "its configuration: "+finding)
				continue
			}
			d.problem(fmt.Errorf("its configuration is refused: %s", finding))
		}
	}
	if err := launched.Calls().CheckHealth(ctx); err != nil {
		d.problem(fmt.Errorf("probe: %w", err))
	}
}

func (r VerifyReport) text(p *output.Printer) {
	for _, problem := range r.Problems {
		p.Printf("BAD  %s\n", problem)
	}
	for _, d := range r.Drivers {
		word := "ok "
		if !d.OK {
			word = "BAD"
		}
		p.Printf("%s  %s %s  %s", word, d.Name, d.Version, output.ShortSum(d.SHA256))
		if d.StartMS > 0 {
			p.Printf("  started in %s", time.Duration(d.StartMS*float64(time.Millisecond)).Round(time.Millisecond))
		}
		p.Printf("\n")
		for _, problem := range d.Problems {
			p.Printf("     %s\n", output.Lines(strings.ReplaceAll(problem, "\n", "\n     ")))
		}
		for _, w := range d.Warnings {
			p.Printf("     warning: %s\n", w)
		}
	}
	for _, w := range r.Warnings {
		p.Printf("warning: %s\n", w)
	}
}

// grant is what a driver may do once it is installed.
type grant struct {
	name, from, to string // versions; from is empty for a new driver
	rows           []grantRow
}

// grantRow is one thing that is granted; was is empty for a new driver.
type grantRow struct{ what, was, is string }

// grantsOf lists what the staged drivers may do. A driver that is installed
// already, byte for byte, gets nothing new.
func grantsOf(c config.Config, old driverhost.Lock, staged []stagedDriver) []grant {
	var out []grant
	for _, s := range staged {
		was, installed := EntryOf(old, s.entry.Name)
		sum, before := s.entry.SHA256[driverhost.Platform()], was.SHA256[driverhost.Platform()]
		if installed && before == sum && reflect.DeepEqual(was.Descriptor, s.entry.Descriptor) {
			continue
		}
		settings := c.Drivers.Settings[s.entry.Name]
		g := grant{name: s.entry.Name, from: was.Version, to: s.entry.Version, rows: granted(settings, s.entry.Descriptor, sum)}
		if installed {
			for i, row := range granted(settings, was.Descriptor, before) {
				g.rows[i].was = row.is
			}
		}
		out = append(out, g)
	}
	return out
}

// granted is what a driver with this descriptor may do under these settings.
func granted(s config.DriverSettings, d driver.Descriptor, sum string) []grantRow {
	effect := string(d.Effect)
	switch {
	case d.Effect == driver.EffectChanges && d.Has(driver.FeaturePreview):
		effect += " (only what is accepted)"
	case d.Effect == driver.EffectChanges && !s.May.Has(driverhost.MayChange):
		effect += " (refused until drivers.settings." + d.Name + ".may lists change)"
	}
	return []grantRow{
		{what: "role", is: string(d.Role) + ", handles " + strings.Join(d.Handles, ", ")},
		{what: "effect", is: effect},
		{what: "features", is: cmp.Or(strings.Join(d.Features, ", "), "none")},
		{what: "sends", is: cmp.Or(strings.Join(d.Methods(), ", "), "nothing to clients")},
		{what: "vouches", is: vouchesText(vouches(d, s.May))},
		{what: "may", is: s.May.Text(d)},
		{what: "environment", is: cmp.Or(strings.Join(s.EnvFrom, ", "), "no variables")},
		{what: "binary", is: output.ShortSum(sum)},
	}
}

func (g grant) text(p *output.Printer) {
	if g.from == "" {
		p.Printf("%s %s is new:\n", g.name, g.to)
	} else {
		p.Printf("%s %s replaces %s:\n", g.name, g.to, g.from)
	}
	for _, row := range g.rows {
		if row.was != "" && row.was != row.is {
			printRow(p, row.what, row.was+" -> "+row.is)
			continue
		}
		printRow(p, row.what, row.is)
	}
}

// approveGrants shows what is granted and has the operator agree.
func approveGrants(cmd *cobra.Command, grants []grant, yes bool) error {
	if len(grants) == 0 {
		return nil
	}
	p := &output.Printer{W: cmd.ErrOrStderr()}
	for _, g := range grants {
		g.text(p)
	}
	if p.Err != nil || yes {
		return p.Err
	}
	ok, err := ask.Agreed(cmd, p, "install?")
	if err == nil && !ok {
		err = errors.New("nothing was installed")
	}
	return err
}
