package drivers

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/config"
	"github.com/kairos-mcp/kairos/core/driverhost"
)

// place moves the binaries into the folder and writes the lock.
func (r *lockReport) place(c config.Config, old driverhost.Lock, fit []stagedDriver) error {
	next := old
	next.Drivers = slices.Clone(old.Drivers)
	for _, s := range fit {
		next.Drivers = slices.DeleteFunc(next.Drivers, func(e driverhost.LockedEntry) bool { return e.Name == s.entry.Name })
		next.Drivers = append(next.Drivers, s.entry)
	}
	keepPlatforms(old, &next)
	if err := placeBinaries(c.Drivers.Dir, old, fit); err != nil {
		return err
	}
	// The lock comes last: a server that watches the folder takes up the
	// binaries when it sees the lock that fits them.
	if err := driverhost.WriteLock(r.Lock, next); err != nil {
		return err
	}
	for _, change := range lockChanges(old, next) {
		if slices.ContainsFunc(fit, func(s stagedDriver) bool { return s.entry.Name == change.Name }) {
			r.Drivers = append(r.Drivers, change)
		}
	}
	r.misfits = misfits(c, next)
	r.Warnings = append(append(r.Warnings, afterInstall(old, fit)...), r.misfits...)
	return nil
}

// placeBinaries moves the staged binaries to their names in the folder, and removes
// those that they replace under another name.
func placeBinaries(dir string, old driverhost.Lock, staged []stagedDriver) error {
	for _, s := range staged {
		to := filepath.Join(dir, s.entry.File)
		was, ok := EntryOf(old, s.entry.Name)
		if ok {
			_ = os.Link(filepath.Join(dir, was.File), s.was()) // without it, it cannot be taken back
		}
		if err := os.Rename(s.temp, to); err != nil {
			return fmt.Errorf("install driver %s: %w", s.entry.Name, copyError{err, s.temp, to})
		}
		if ok && was.File != s.entry.File {
			_ = os.Remove(filepath.Join(dir, was.File)) // its place is taken; gone already is as good
		}
	}
	return nil
}

// oneByOne takes back what a server refused, and then installs each driver alone, so that one
// which does not start in a server keeps its old version and holds no other up.
func (r *lockReport) oneByOne(c config.Config, old driverhost.Lock, fit []stagedDriver, tell func(*lockReport)) error {
	if err := r.takeBack(c, old, fit); err != nil {
		return err
	}
	if tell(r); refusedWhy(r.Servers) != "" { // it refuses what was there, too: that is not for these drivers to say
		err := r.place(c, old, fit)
		tell(r)
		return err
	}
	now := old
	for _, s := range fit {
		if err := r.place(c, now, []stagedDriver{s}); err != nil {
			return err
		}
		tell(r)
		if why := refusedWhy(r.Servers); why != "" {
			r.Refused = append(r.Refused, refusedDriver{s.file, s.entry.Name, fmt.Sprintf("%s: a server refused it: %s", s.file, why)})
			if err := r.takeBack(c, now, []stagedDriver{s}); err != nil {
				return err
			}
			continue
		}
		var err error
		if now, err = driverhost.ReadLock(r.Lock); err != nil {
			return err
		}
	}
	tell(r)
	return nil
}

// takeBack puts the binaries and the lock from before back, and forgets that they changed.
func (r *lockReport) takeBack(c config.Config, before driverhost.Lock, staged []stagedDriver) error {
	for _, s := range staged {
		if err := s.takeBack(c.Drivers.Dir, before); err != nil {
			return fmt.Errorf("take back driver %s, which a server refused: %w; `kairos driver install` puts its earlier binary back", s.entry.Name, err)
		}
		r.Drivers = slices.DeleteFunc(r.Drivers, func(c lockChange) bool { return c.Name == s.entry.Name })
	}
	r.Warnings = []string{}
	return driverhost.WriteLock(r.Lock, before)
}

// takeBack undoes placeBinaries for one driver.
func (s stagedDriver) takeBack(dir string, before driverhost.Lock) error {
	to := filepath.Join(dir, s.entry.File)
	was, ok := EntryOf(before, s.entry.Name)
	if !ok {
		return os.Rename(to, s.temp)
	}
	if err := os.Link(to, s.temp); err != nil {
		return err
	}
	err := os.Rename(s.was(), filepath.Join(dir, was.File))
	if err == nil && was.File != s.entry.File {
		err = os.Remove(to)
	}
	return err
}

// was is where the binary is kept that the driver replaces.
func (s stagedDriver) was() string { return s.temp + ".was" }

// refusedWhy is why a server refused; empty: none did.
func refusedWhy(reports []changeReport) string {
	for _, r := range reports {
		if r.Report == nil {
			return r.Refused
		}
	}
	return ""
}
