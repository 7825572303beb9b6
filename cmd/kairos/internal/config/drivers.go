package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/fields"
	"github.com/kairos-mcp/kairos/sdk/schema"
)

// DriversConfig is the section drivers.
type DriversConfig struct {
	// Dir holds the driver binaries and drivers.lock. The default is "drivers" beside the program.
	Dir string `yaml:"dir"`
	// Watch: the server takes up changed files by itself. Default true.
	Watch *bool `yaml:"watch"`
	// Isolation is how drivers are kept from the files of the machine: auto,
	// namespace, landlock or none. Default auto.
	Isolation string `yaml:"isolation"`
	// Settings of single drivers, by name.
	Settings map[string]DriverSettings `yaml:"settings"`
}

// DriverSettings are the settings of one driver.
type DriverSettings struct {
	Config map[string]any `yaml:"config"`
	// EnvFrom names environment variables that the driver may see.
	EnvFrom []string `yaml:"env_from"`
	// May is what the driver may do. Not set: everything that its descriptor claims, but
	// not driverhost.MayChange.
	May driverhost.May `yaml:"may"`
	// Folders are files and folders that the driver needs besides the system's and
	// those that its config names, which it only reads. It may change these, unless it is pure.
	Folders []string `yaml:"folders"`
	// MemoryMiB is how much memory the driver should do with, in MiB. Default 256.
	MemoryMiB int `yaml:"memory_mib"`
	// CallTimeout bounds one call of the driver. Default 10s.
	CallTimeout Duration `yaml:"call_timeout"`
}

// workIn lets commands run on a copy of the folder. Their changes are written back unless
// the configuration says something else.
func (d *DriversConfig) workIn(folder string) {
	own := d.Settings["command"]
	with := map[string]any{"writes": true}
	maps.Copy(with, own.Config)
	with["workspace"] = folder
	own.Config = with
	d.Settings = maps.Clone(d.Settings)
	if d.Settings == nil {
		d.Settings = map[string]DriverSettings{}
	}
	d.Settings["command"] = own
}

func (d DriversConfig) problems() []error {
	var errs []error
	for _, err := range []error{d.modelTime(), d.isolationProblem()} {
		if err != nil {
			errs = append(errs, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(d.Settings)) {
		s := d.Settings[name]
		errs = append(errs, notNegative("", map[string]Duration{"drivers.settings." + name + ".call_timeout": s.CallTimeout})...)
		errs = append(errs, mayProblems("drivers.settings."+name+".may", s.May)...)
		errs = append(errs, notNegative("", map[string]int{"drivers.settings." + name + ".memory_mib": s.MemoryMiB})...)
	}
	return errs
}

// mayProblems refuses words that are none, and those that are there twice.
func mayProblems(at string, may driverhost.May) (errs []error) {
	words := make([]string, 0, 4)
	for _, p := range driverhost.Permissions() {
		words = append(words, string(p))
	}
	for i, p := range may {
		switch {
		case !slices.Contains(words, string(p)):
			errs = append(errs, fmt.Errorf("%s has %q: it lists %s, or nothing at all%s", at, p, strings.Join(words, ", "), fields.Suggestion(string(p), words)))
		case slices.Contains(may[:i], p):
			errs = append(errs, fmt.Errorf("%s has %q twice", at, p))
		}
	}
	return errs
}

// idle lists what a driver with this descriptor makes no use of.
func idle(at string, may driverhost.May, d driver.Descriptor) (unused []error) {
	for _, p := range may {
		switch {
		case p.Concerns(d):
		case p == driverhost.MayChange && d.Has(driver.FeaturePreview):
			unused = append(unused, fmt.Errorf("%s has %q, which driver %s does not need: it changes only what is accepted with kairos accept", at, p, d.Name))
		default:
			unused = append(unused, fmt.Errorf("%s has %q, which the descriptor of driver %s does not claim", at, p, d.Name))
		}
	}
	return unused
}

// SettingProblems compares the settings of drivers with what the drivers say of them:
// what is wrong, and what belongs to no driver. No driver is started; file is the
// configuration file.
func (d DriversConfig) SettingProblems(drivers []driver.Descriptor, file string) (wrong, unused []error) {
	known := map[string]driver.Descriptor{}
	for _, d := range drivers {
		known[d.Name] = d
	}
	in := placesIn(file)
	for _, name := range slices.Sorted(maps.Keys(d.Settings)) {
		at := "drivers.settings." + name
		desc, locked := known[name]
		if !locked {
			unused = append(unused, fmt.Errorf("%s%s: drivers.lock has no driver of this name%s", in.of("drivers", "settings", name), at, fields.Suggestion(name, slices.Collect(maps.Keys(known)))))
			continue
		}
		for _, problem := range idle(at+".may", d.Settings[name].May, desc) {
			unused = append(unused, fmt.Errorf("%s%w", in.of("drivers", "settings", name, "may"), problem))
		}
		given, err := d.Settings[name].JSON()
		if err != nil {
			wrong = append(wrong, fmt.Errorf("%s.config: %w", at, err))
			continue
		}
		if len(given) == 0 || len(desc.ConfigSchema) == 0 {
			continue
		}
		for _, found := range schema.Validate(desc.ConfigSchema, given) {
			place := in.of(append([]string{"drivers", "settings", name, "config"}, strings.Split(found.Pointer, "/")[1:]...)...)
			wrong = append(wrong, fmt.Errorf("%s%s.config%s: %s", place, at, strings.ReplaceAll(found.Pointer, "/", "."), found.Message))
		}
	}
	return wrong, unused
}

// JSON returns the configuration of the driver, or nil if none is set.
func (s DriverSettings) JSON() (json.RawMessage, error) {
	if len(s.Config) == 0 {
		return nil, nil
	}
	return json.Marshal(s.Config)
}

// LockPath is the lock of a drivers folder.
func LockPath(dir string) string { return filepath.Join(dir, driverhost.LockName) }

// IsolationAuto is the best level that the machine offers.
const IsolationAuto = "auto"

var isolationLevels = []string{
	IsolationAuto, string(driverhost.LevelNamespace), string(driverhost.LevelLandlock), string(driverhost.LevelNone),
}

func (d DriversConfig) isolationProblem() error {
	if d.Isolation != "" && !slices.Contains(isolationLevels, d.Isolation) {
		return fmt.Errorf("drivers.isolation is %q: must be one of %s", d.Isolation, strings.Join(isolationLevels, ", "))
	}
	return nil
}

// Pinned is what says which drivers there are.
func (c Config) Pinned(dev bool) string {
	if dev {
		return c.Drivers.Dir
	}
	return filepath.Join(c.Drivers.Dir, driverhost.LockName)
}

// ReadLock reads drivers.lock in the drivers folder.
func (c Config) ReadLock() (driverhost.Lock, error) {
	lock, err := driverhost.ReadLock(filepath.Join(c.Drivers.Dir, driverhost.LockName))
	if errors.Is(err, fs.ErrNotExist) {
		return lock, fmt.Errorf("no drivers.lock in %s: run `make build`, or `kairos driver lock` for drivers built elsewhere, or set drivers.dir", c.Drivers.Dir)
	}
	return lock, err
}
