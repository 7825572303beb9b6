package drivers

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/config"
	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// unfit says why a driver cannot take its place beside the others; nil: it can.
func (s stagedDriver) unfit(old driverhost.Lock, all []stagedDriver, force bool) error {
	if s.fault != nil {
		return s.fault
	}
	if err := mayReplace(old, s.entry, force); err != nil {
		return err
	}
	return sharedType(old, all, s)
}

// try starts a driver with its settings as a server would, and stops it again.
func (s stagedDriver) try(ctx context.Context, c config.Config, isolation driverhost.Confinement) error {
	staged := s.entry
	staged.File = filepath.Base(s.temp)
	d := verifiedDriver{}
	tryDriver(ctx, c, staged, isolation, &d)
	if len(d.Problems) == 0 {
		return nil
	}
	err := fmt.Errorf("driver %s does not work with its settings, so no server would take it: %s", s.entry.Name, strings.Join(d.Problems, "; "))
	return copyError{fmt.Errorf("%w; settings are read from drivers.settings.%s.config of the configuration: write them there and install it again", err, s.entry.Name), s.temp, s.file}
}

// mayReplace refuses a driver that would take something away from those who
// rely on the one that is installed.
func mayReplace(old driverhost.Lock, e driverhost.LockedEntry, force bool) error {
	was, ok := EntryOf(old, e.Name)
	if !ok || force {
		return nil
	}
	if was.Descriptor.Role != e.Descriptor.Role {
		return fmt.Errorf("driver %s is a %s driver, the new one a %s driver; use --force to replace it",
			e.Name, was.Descriptor.Role, e.Descriptor.Role)
	}
	for _, handled := range was.Descriptor.Handles {
		if !slices.Contains(e.Descriptor.Handles, handled) {
			return fmt.Errorf("driver %s handles %s now, %s would handle %s; use --force to replace it",
				e.Name, strings.Join(was.Descriptor.Handles, ", "), e.Version, strings.Join(e.Descriptor.Handles, ", "))
		}
	}
	return nil
}

// sharedType refuses a driver that handles a challenge type of another one: which
// of the two judges a step would depend on a tree that nobody wrote for that.
func sharedType(old driverhost.Lock, all []stagedDriver, s stagedDriver) error {
	if s.entry.Descriptor.Role != driver.RoleChallenge {
		return nil
	}
	others := slices.Clone(old.Drivers)
	for _, other := range all {
		if i := slices.IndexFunc(others, func(e driverhost.LockedEntry) bool { return e.Name == other.entry.Name }); i >= 0 {
			others[i] = other.entry
		} else {
			others = append(others, other.entry)
		}
	}
	for _, challengeType := range s.entry.Descriptor.Handles {
		for _, other := range others {
			if other.Name == s.entry.Name || other.Descriptor.Role != driver.RoleChallenge || !slices.Contains(other.Descriptor.Handles, challengeType) {
				continue
			}
			return fmt.Errorf("driver %s is not installed: driver %s handles challenges of type %q already; run `kairos driver remove %s` first, "+
				"or change what %s handles", s.entry.Name, other.Name, challengeType, other.Name, s.entry.Name)
		}
	}
	return nil
}
