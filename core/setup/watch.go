package setup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

// settle is how long the files have to be left alone before they are read:
// editors and installers write more than once.
const settle = 250 * time.Millisecond

// A database that lies in a watched folder makes an event of every write. Behind
// such an event the watch rests: the system merges meanwhile what repeats, and
// calls are not held up by news of themselves.
const (
	attentive = 20 * time.Millisecond // how long every event is taken
	rest      = 200 * time.Millisecond
)

// Watch reloads when the files change, until ctx is done. It watches their
// folders, because editors replace files instead of writing into them. What is
// refused is said once in the log and tried again when something has changed.
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
				due.Reset(settle)
			case time.Since(since) > attentive:
				events = nil
				rested.Reset(rest)
			}
		case <-rested.C:
			events, since = w.Events, time.Now()
		case err := <-w.Errors:
			// Events were lost, so anything may have changed.
			c.log.Warn("watch the configuration", "error", err)
			due.Reset(settle)
		case <-due.C:
			c.reloadChanged(ctx)
			if c.follow(w) {
				due.Reset(settle) // for what was written before the watch began
			}
		}
	}
}

// follow watches the folders of the files that matter now, and reports whether
// there is one more.
func (c *Current) follow(w *fsnotify.Watcher) bool {
	before := len(w.WatchList())
	for _, path := range c.known() {
		for _, dir := range []string{filepath.Dir(path), path} {
			if !isFolder(dir) {
				continue // a file, which its folder's watch covers, or not there
			}
			// Adding what is watched already does nothing.
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

// concerns reports whether a change at the path may change what is wanted.
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

// reloadChanged reloads unless the files are as they were last seen. It looks
// when it has the turn: who had it before, a Rollback for one, may have written
// or judged them.
func (c *Current) reloadChanged(ctx context.Context) {
	if err := c.take(ctx); err != nil {
		return // stopping
	}
	defer c.give()
	c.mu.Lock()
	same := fingerprint(c.files) == c.judged
	c.mu.Unlock()
	if same {
		c.log.Debug("files are as they were last seen")
		return
	}
	if _, err := c.reload(ctx, nil); err != nil && ctx.Err() == nil {
		c.log.Error("the changed files are refused, everything goes on as before", "error", err)
	}
}
