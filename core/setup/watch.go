package setup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/kairos-mcp/kairos/core/driverhost"
)

// settleTime is how long files must not change before they are read: editors and
// installers write more than once.
const settleTime = 250 * time.Millisecond

// Every write to a database in a watched folder is an event. After such an event the
// watch pauses, during which the system merges repeated events, so that calls are
// not slowed down.
const (
	attentive = 20 * time.Millisecond // how long events are received after a pause
	rest      = 200 * time.Millisecond
)

// Watch reloads when the files change, until ctx is done. It watches their
// folders, because editors replace files instead of writing into them. An invalid
// setup is logged once, and read again when something changes.
func (c *Current) Watch(ctx context.Context) (err error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch the configuration: %w", err)
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	c.follow(w)
	// Something may have changed since the files were read.
	due := time.NewTimer(0)
	defer due.Stop()
	events, since := w.Events, time.Now()
	rested := time.NewTimer(rest)
	defer rested.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case event := <-events:
			switch {
			case c.concerns(event.Name):
				due.Reset(settleTime)
			case time.Since(since) > attentive:
				events = nil
				rested.Reset(rest)
			}
		case <-rested.C:
			events, since = w.Events, time.Now()
		case err := <-w.Errors:
			// Events were lost, so anything may have changed.
			c.log.Warn("watch the configuration", "error", err)
			due.Reset(settleTime)
		case <-due.C:
			c.reloadChanged(ctx)
			if c.follow(w) {
				due.Reset(settleTime) // for what was written before the watch began
			}
		}
	}
}

// follow watches the folders of all known files, and reports whether it added one.
func (c *Current) follow(w *fsnotify.Watcher) bool {
	before := len(w.WatchList())
	for _, path := range c.known() {
		for _, dir := range []string{filepath.Dir(path), path} {
			if !isFolder(dir) {
				continue // a file, which its folder's watch covers, or missing
			}
			// Adding a folder again does nothing.
			if err := w.Add(dir); err != nil {
				c.log.Warn("folder is not watched", "folder", dir, "error", err)
			}
		}
	}
	return len(w.WatchList()) > before
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// concerns reports whether a change at the path may change the desired state.
// Databases lie in the same folders and change all the time.
func (c *Current) concerns(path string) bool {
	if strings.HasPrefix(filepath.Base(path), "..") {
		return true // how a Kubernetes volume is switched
	}
	for _, known := range c.known() {
		if path == known || filepath.Dir(path) == known {
			return true
		}
	}
	return false
}

// reloadChanged reloads unless the files are the same as at the last read. It compares
// them while it holds the lock, because a Rollback may have written them before.
func (c *Current) reloadChanged(ctx context.Context) {
	if err := c.lock(ctx); err != nil {
		return // stopping
	}
	defer c.unlock()
	if changed := c.changed(); len(changed) == 0 {
		c.log.Debug("files have not changed")
		return
	} else if !c.trusted(changed) {
		return
	}
	if _, err := c.reload(ctx, nil); err != nil && ctx.Err() == nil {
		c.log.Error("the changed files are refused, the present setup stays", "error", err)
	}
}

// changed lists the files that differ from the last read. Needs the lock of changes.
func (c *Current) changed() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := states(c.files)
	changed := differingFiles(c.checked, now)
	if maps.Equal(now, c.refused) {
		return nil // which the log says
	}
	return changed
}

// trusted reports whether changed files are taken up without being asked to. A driver that
// could have written them might give itself more rights. Needs the lock of changes.
func (c *Current) trusted(changed []string) bool {
	if c.present.Load().desired.Drivers.Dev {
		return true
	}
	var files, drivers []string
	for _, path := range changed {
		if by := c.host.Writers(path); len(by) > 0 {
			files, drivers = append(files, path), append(drivers, by...)
		}
	}
	if len(files) == 0 {
		return true
	}
	slices.Sort(drivers)
	drivers = slices.Compact(drivers)
	if level, _, err := c.host.Isolation(); err == nil && level == driverhost.LevelNone {
		if !c.taken {
			c.log.Warn("changed files are taken up although a driver could have written them: drivers are not isolated", "files", files, "drivers", drivers)
		}
		c.taken = true
		return true
	}
	c.log.Error("changed files are not taken up: a driver could have written them; look at them and run `kairos reload`", "files", files, "drivers", drivers)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refused = states(c.files)
	return false
}
