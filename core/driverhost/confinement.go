package driverhost

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/kairos-mcp/kairos/core/driverhost/sandbox"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// Level says how a driver is kept from the files of the machine.
type Level string

// The levels of isolation, best first. At all but the last a driver sees its binary,
// the system's folders, its own folder for temporary files and what its settings name.
const (
	// LevelNamespace: nothing else exists, and of processes it sees its own. Landlock
	// is added where the kernel has it.
	LevelNamespace Level = "namespace"
	// LevelLandlock: nothing else can be opened.
	LevelLandlock Level = "landlock"
	// LevelNone: the driver reads and writes whatever the server's user may.
	LevelNone Level = "none"
)

// Confinement says how drivers are isolated, and which files are the server's own. The
// zero value isolates drivers as well as the machine can.
type Confinement struct {
	// Level, if set, is the only one that drivers start with; empty: the best
	// that this machine offers.
	Level Level
	// Private lists files and folders that only the server opens, whether they exist or
	// not. A driver whose settings name the folder that directly holds such a file is
	// refused: beside it there are others, such as the log of a database.
	Private []string
	// Settings lists files that say how the server works. Drivers see none of them.
	Settings []string
	// Folders are what a binary may read that is described or tried: which driver it
	// is, and so what its settings name, is not known then.
	Folders []string
}

// confinement finds and applies the level of a host.
type confinement struct {
	Confinement
	log   *slog.Logger
	temps privateFolder // for the temporary files of drivers
	find  func() confined
}

// confined is what this machine offers.
type confined struct {
	level    Level
	landlock bool  // is added to the namespaces
	why      error // why there is nothing better; nil: there is nothing better
	refused  error // why no driver may start
}

func newConfinement(c Confinement, s *starter, log *slog.Logger) *confinement {
	out := &confinement{Confinement: c, log: log, temps: privateFolder{parent: os.TempDir}}
	out.find = sync.OnceValue(func() confined { return out.choose(s) })
	return out
}

// choose looks for the best level, or for the one that is demanded.
func (c *confinement) choose(s *starter) confined {
	var errs []error
	for _, offer := range []struct {
		confined
		try sandbox.Launch
	}{
		{confined{level: LevelNamespace, landlock: true}, sandbox.Launch{Namespaces: true, Landlock: true}},
		{confined{level: LevelNamespace}, sandbox.Launch{Namespaces: true}},
		{confined{level: LevelLandlock, landlock: true}, sandbox.Launch{Landlock: true}},
		{confined{level: LevelNone}, sandbox.Launch{}},
	} {
		if c.Level != "" && c.Level != offer.level {
			continue
		}
		var err error
		if offer.level != LevelNone {
			_, err = s.visible(offer.try, nil)
		}
		if err == nil {
			offer.why = errors.Join(errs...)
			if offer.level == LevelNone && c.Level == "" {
				c.log.Warn("drivers can read and change whatever this user may, also database and keys: "+
					"the kernel offers neither namespaces nor Landlock", "error", reason(offer.why))
			}
			return offer.confined
		}
		errs = append(errs, fmt.Errorf("%s: %w", offer.level, err))
	}
	return confined{level: LevelNone, refused: fmt.Errorf(
		"drivers.isolation demands %q, which this machine does not offer: %s; choose another level or allow it", c.Level, reason(errors.Join(errs...)))}
}

func reason(err error) string {
	if err == nil {
		return ""
	}
	return strings.ReplaceAll(err.Error(), "\n", "; ")
}

// of is the level of one driver. A launcher gets no Landlock rules, inside
// which it could not isolate what it starts.
func (c confined) of(launcher bool) Level {
	if c.level == LevelLandlock && launcher {
		return LevelNone
	}
	return c.level
}

// isolation is the level at which the driver runs, or would.
func (s *slot) isolation() Level {
	if s.spec.attach != nil { // somebody else has started it
		return LevelNone
	}
	return s.host.confinement.find().of(s.spec.entry.Descriptor.Has(driver.FeatureLauncher))
}

// check refuses a driver that could not be isolated, before anything of it runs.
func (c *confinement) check(s spec) error {
	level := c.find().of(s.entry.Descriptor.Has(driver.FeatureLauncher))
	if s.attach != nil || level == LevelNone {
		return nil
	}
	_, err := c.view(useOf(s), level)
	return err
}

// Check refuses files and folders that no driver may use, because they would show it files
// of the server, and says which.
func (c Confinement) Check(own DriverConfig) error {
	if c.Level == LevelNone {
		return nil
	}
	_, err := (&confinement{Confinement: c}).view(use{own.ReadOnly, own.Folders}, LevelNamespace)
	return err
}

// use is what a driver may use besides the system's files.
type use struct{ read, write []string }

// useOf is what the settings of a driver name. A pure driver changes nothing.
func useOf(s spec) use {
	read := slices.Concat(s.config.ReadOnly, s.roots)
	if s.entry.Descriptor.Effect == driver.EffectPure {
		return use{read: append(read, s.config.Folders...)}
	}
	return use{read, s.config.Folders}
}

// view is what a driver sees, or why that would show it files of the server.
func (c *confinement) view(u use, level Level) (sandbox.View, error) {
	v := sandbox.View{Read: u.read, Write: u.write}
	for _, path := range u.read {
		if err := c.grant(&v, path, false, level); err != nil {
			return v, err
		}
	}
	for _, path := range u.write {
		if err := c.grant(&v, path, true, level); err != nil {
			return v, err
		}
	}
	for _, own := range slices.Concat(c.Private, c.Settings) {
		if sandbox.OfSystem(own) {
			v.Except = append(v.Except, own)
		}
	}
	return v, nil
}

// grant finds out what must be left out of a path that a driver may use.
func (c *confinement) grant(v *sandbox.View, path string, write bool, level Level) error {
	path = sandbox.Real(path)
	refused := func(own string) error {
		where := "where " + own + " of this server is"
		if sandbox.In(own, path) {
			where = "which is this server's own"
		}
		return fmt.Errorf("it may use %s, %s: move the server's file into a folder of its own, or name a smaller folder in the driver's settings", path, where)
	}
	for _, own := range c.Private {
		own = sandbox.Real(own)
		within := own
		if info, err := os.Stat(own); err != nil || !info.IsDir() {
			within = filepath.Dir(own)
		}
		switch {
		case strings.HasPrefix(path, own) && (path == own || filepath.Dir(path) == filepath.Dir(own)), // also the log beside a database
			sandbox.In(own, path), within == path:
			return refused(own)
		case sandbox.In(path, own) && level == LevelLandlock:
			return fmt.Errorf("%w (Landlock cannot leave out what is below a folder)", refused(own))
		case sandbox.In(path, own):
			v.Except = append(v.Except, within)
		}
	}
	for _, own := range c.Settings {
		own = sandbox.Real(own)
		switch {
		case path == own, sandbox.In(path, own) && write && level == LevelLandlock:
			return refused(own)
		case sandbox.In(path, own):
			v.Except = append(v.Except, own)
		}
	}
	return c.keepDriversApart(v, path, level)
}

// keepDriversApart leaves the sockets and temporary files of all drivers out of a path.
func (c *confinement) keepDriversApart(v *sandbox.View, path string, level Level) error {
	for _, parent := range []string{socketParent(), os.TempDir()} {
		if parent = sandbox.Real(parent); !sandbox.In(path, parent) {
			continue
		}
		if level == LevelLandlock {
			return fmt.Errorf("it may use %s, where the sockets and temporary files of all drivers are: name a smaller folder", path)
		}
		folders, err := privateFolders(parent)
		if err != nil {
			return fmt.Errorf("keep drivers apart: %w", err)
		}
		v.Except = append(v.Except, folders...)
	}
	return nil
}

// Isolation says how drivers are isolated: the level and what it means in words, as a
// process found that was isolated in this way. An error says why no driver may start.
func (h *Host) Isolation() (Level, string, error) {
	found := h.confinement.find()
	if found.refused != nil {
		return LevelNone, "", found.refused
	}
	if found.level == LevelNone {
		why := "drivers.isolation is none"
		if h.confinement.Level == "" {
			why = reason(found.why)
		}
		return LevelNone, "none: drivers can read and change whatever this user may: " + why, nil
	}
	g := newGuard("doctor", guardConfig{brief: true}, h.starter, h.confinement, h.log)
	defer g.close()
	words, err := g.describeView()
	if err != nil {
		return LevelNone, "", err
	}
	if found.why != nil {
		words += " (nothing better: " + reason(found.why) + ")"
	}
	return found.level, words, nil
}

// describeView says what a process sees that is isolated as the guard's are, by starting one.
func (g *guard) describeView() (string, error) {
	g.mu.Lock()
	launch, err := g.launch(nil, nil)
	g.mu.Unlock()
	if err != nil {
		return "", err
	}
	what, own := string(g.level()), g.confinement.files()
	if launch.Namespaces && launch.Landlock {
		what = "namespace and landlock"
	}
	home, err := os.UserHomeDir()
	if err != nil {
		home = "" // an account without one
	}
	seen, err := g.starter.visible(launch, append(append([]string{home}, own...), g.config.write...))
	if err != nil {
		return "", err
	}
	return what + ": " + sight(seen, own, home, g.config), nil
}

// sight words what was seen from inside.
func sight(seen []sandbox.Seen, own []string, home string, c guardConfig) string {
	var words, visible, changes []string
	hidden := true
	for _, s := range seen {
		info, err := os.Stat(s.Path)
		if err != nil || !s.Is(info) {
			continue // what it saw is not that file
		}
		how := s.Path + map[bool]string{true: " (can be changed)", false: " (can be read)"}[s.Write]
		switch {
		case s.Path == home && !slices.Contains(slices.Concat(c.read, c.write), home):
			hidden = false
		case slices.Contains(own, s.Path):
			visible = append(visible, how)
		case s.Write:
			changes = append(changes, s.Path)
		}
	}
	if len(visible) > 0 {
		words = append(words, "VISIBLE of this server: "+strings.Join(visible, ", "))
	} else {
		words = append(words, fmt.Sprintf("none of the server's %d own files and folders can be opened", len(own)))
	}
	if home != "" && hidden {
		words = append(words, "the home folder is hidden")
	} else if home != "" {
		words = append(words, "the home folder is VISIBLE")
	}
	if len(c.read) > 0 {
		words = append(words, "it reads "+strings.Join(c.read, ", "))
	}
	if len(changes) > 0 {
		words = append(words, "it changes "+strings.Join(changes, ", "))
	}
	return strings.Join(words, "; ")
}

// files lists the server's own files that exist.
func (c *confinement) files() []string {
	return slices.DeleteFunc(slices.Concat(c.Private, c.Settings), func(path string) bool {
		_, err := os.Lstat(path)
		return err != nil
	})
}

// PathsIn returns the absolute paths that a configuration names.
func PathsIn(config json.RawMessage) []string {
	var v any
	if len(config) == 0 || json.Unmarshal(config, &v) != nil {
		return nil // a driver refuses what is not JSON
	}
	var out []string
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case string:
			if filepath.IsAbs(v) && !strings.ContainsAny(v, "\x00\n") {
				out = append(out, filepath.Clean(v))
			}
		case []any:
			for _, e := range v {
				walk(e)
			}
		case map[string]any:
			for _, e := range v {
				walk(e)
			}
		}
	}
	walk(v)
	slices.Sort(out)
	return slices.Compact(out)
}
