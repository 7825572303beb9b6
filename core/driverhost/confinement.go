package driverhost

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/kairos-mcp/kairos/core/driverhost/sandbox"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// Level says how a driver is kept from the files of its server.
type Level string

// The levels of isolation, best first.
const (
	// LevelNamespace: a mount namespace hides database, keys, lock and admin folder.
	LevelNamespace Level = "namespace"
	// LevelLandlock: the driver reaches the system's files and those that its
	// settings name.
	LevelLandlock Level = "landlock"
	// LevelNone: the driver reads and writes whatever the server's user may.
	LevelNone Level = "none"
)

// Confinement says what drivers must not see.
type Confinement struct {
	// Hidden are the server's own files; nothing is hidden if there are none.
	Hidden sandbox.Hidden
	// Level, if set, is the only one that drivers start with; empty: the best
	// that this machine offers.
	Level Level
	// Folders are what a binary may use that is described or tried, where it is
	// isolated by Landlock: which driver it is, and so what its settings name, is
	// not known then.
	Folders []string
}

// confinement finds and applies the level of a host.
type confinement struct {
	Confinement
	log  *slog.Logger
	find func() confined
}

// confined is what this machine offers.
type confined struct {
	level    Level
	launcher bool  // the namespace is made by a launcher in each process
	why      error // why there is nothing better; nil: there is nothing better
	refused  error // why no driver may start
}

func newConfinement(c Confinement, s *starter, log *slog.Logger) *confinement {
	c.Hidden.Open = append(slices.Clone(c.Hidden.Open), socketParent())
	out := &confinement{Confinement: c, log: log}
	out.find = sync.OnceValue(func() confined { return out.choose(s) })
	return out
}

// choose looks for the best level, or for the one that is demanded.
func (c *confinement) choose(s *starter) confined {
	if c.nothing() {
		return confined{level: LevelNone, why: errors.New("nothing is to be hidden")}
	}
	var errs []error
	for _, offer := range []struct {
		confined
		try func(*starter) error
	}{
		{confined{level: LevelNamespace}, c.tryThread},
		{confined{level: LevelNamespace, launcher: true}, c.tryLauncher},
		{confined{level: LevelLandlock}, func(*starter) error { return tryLandlock() }},
		{confined{level: LevelNone}, func(*starter) error { return nil }},
	} {
		if c.Level != "" && c.Level != offer.level {
			continue
		}
		err := offer.try(s)
		if err == nil {
			offer.why = errors.Join(errs...)
			if offer.level == LevelNone && c.Level == "" {
				c.log.Warn("drivers can read and change whatever this user may, also database and keys: "+
					"the kernel offers neither mount namespaces nor Landlock", "error", reason(offer.why))
			}
			return offer.confined
		}
		errs = append(errs, err)
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

// covers lists what is hidden from a process: the server's own files, and every
// folder of sockets but its own.
func (c *confinement) covers(own []string) []sandbox.Cover {
	covers := c.Hidden.Covers()
	for _, dir := range socketFolders(socketParent()) {
		cover := sandbox.Cover{Path: dir, Private: true}
		for _, o := range own {
			if filepath.Dir(o) == dir {
				cover.Except = o
			}
		}
		covers = append(covers, cover)
	}
	return covers
}

func (c *confinement) nothing() bool {
	return len(c.Hidden.Secret)+len(c.Hidden.Shielded)+len(c.Hidden.ReadOnly) == 0
}

// conflict says why Landlock cannot hide the secrets from a driver with these
// settings: it cannot exclude a file below a folder that it grants.
func (c *confinement) conflict(use []string) error {
	path, secret := c.Hidden.Conflict(use)
	if path == "" {
		return nil
	}
	return fmt.Errorf("it may use %s, which contains %s of this server, and Landlock cannot exclude a file below a folder that it grants: "+
		"move the server's file into a folder of its own, name a smaller folder in the driver's settings, or set drivers.isolation to none", path, secret)
}

// check refuses a driver that could not be isolated, before anything of it runs.
func (c *confinement) check(s spec) error {
	if s.attach != nil || s.entry.Descriptor.Has(driver.FeatureLauncher) {
		return nil
	}
	err := c.conflict(s.config.folders())
	if err == nil || c.nothing() || c.find().level != LevelLandlock {
		return nil
	}
	return err
}

// folders are the files and folders that an operator's settings name.
func (c DriverConfig) folders() []string { return append(foldersOf(c.Config), c.Folders...) }

// isolation is the level at which the driver runs, or would.
func (s *slot) isolation() Level {
	if s.attach != nil { // somebody else has started it
		return LevelNone
	}
	return s.host.confinement.find().of(s.entry.Descriptor.Has(driver.FeatureLauncher))
}

// of is the level of one driver. A launcher gets no Landlock rules, inside
// which it could not isolate what it starts.
func (c confined) of(launcher bool) Level {
	if c.level == LevelLandlock && launcher {
		return LevelNone
	}
	return c.level
}

// Isolation says how drivers are kept from the server's own files: the level and
// what it means in words. An error says why no driver may start.
func (h *Host) Isolation() (Level, string, error) {
	found := h.confinement.find()
	if found.refused != nil {
		return LevelNone, "", found.refused
	}
	return found.level, h.confinement.words(found), nil
}

func (c *confinement) words(found confined) string {
	switch {
	case found.level == LevelNone && c.nothing():
		return "none: drivers can read and change whatever this user may; drivers.isolation is none"
	case found.level == LevelNone:
		return "none: drivers can read and change whatever this user may: " + reason(found.why)
	case found.level == LevelLandlock && c.Level == LevelLandlock:
		return "landlock: drivers reach the system's files and those that their settings name"
	case found.level == LevelLandlock:
		return "landlock: drivers reach the system's files and those that their settings name (no mount namespace: " + reason(found.why) + ")"
	default:
		return "namespace: database, keys, drivers.lock and admin socket are hidden from drivers"
	}
}

// foldersOf returns the absolute paths that a configuration names.
func foldersOf(config json.RawMessage) []string {
	var v any
	if len(config) == 0 || json.Unmarshal(config, &v) != nil {
		return nil
	}
	var out []string
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case string:
			if filepath.IsAbs(v) {
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
