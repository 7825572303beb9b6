package setup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/core/drivers"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// Wanted is what the operator's files ask for.
type Wanted struct {
	Drivers  driverhost.Config
	Tree     decision.Source
	Settings decision.ConfigFacts
	// Files are the files, and folders, that say so, as absolute paths. They
	// count even when reading them failed.
	Files []string
	// Restart holds the settings that only a restart applies, by key. They are
	// compared with reflect.DeepEqual.
	Restart map[string]any
}

// Read works out what is wanted. It is called for every reload, one at a time,
// and once more when it names other files than the last time.
type Read func() (Wanted, error)

// snapshot is one setup. It never changes.
type snapshot struct {
	wanted Wanted
	set    *driverhost.Set
	tree   *decision.Tree
}

// Current is the present setup. Its methods may be called concurrently.
type Current struct {
	host *driverhost.Host
	read Read
	log  *slog.Logger

	present  atomic.Pointer[snapshot]
	switched chan struct{}

	// turn is taken by whoever changes something, and guards the fields below.
	turn    chan struct{}
	earlier *snapshot      // what Rollback goes back to; nil: nothing
	started map[string]any // Wanted.Restart as it was at Open
	closed  bool

	mu     sync.Mutex // guards the fields below
	files  []string   // that the latest read named
	judged string     // fingerprint of the files when they were last looked at
}

// Open makes the first setup from what read returns. It starts no process. The
// host remains the caller's, who closes it after the Current.
func Open(host *driverhost.Host, read Read, log *slog.Logger) (*Current, error) {
	c := &Current{host: host, read: read, log: log, turn: make(chan struct{}, 1), switched: make(chan struct{}, 1)}
	w, err := c.wanted()
	if err != nil {
		return nil, err
	}
	set, err := host.Load(w.Drivers)
	if err != nil {
		return nil, err
	}
	first, err := compiled(w, set)
	if err != nil {
		c.drop(set)
		return nil, err
	}
	c.started = w.Restart
	c.present.Store(first)
	host.Use(set)
	return c, nil
}

// maxReads bounds how often wanted reads on while the list of files goes on changing.
const maxReads = 3

// wanted reads, and remembers which files it has seen in which state: the one
// they were in before they were read, so that a write during it is seen as one.
// Files that were not known before are therefore read once more.
func (c *Current) wanted() (w Wanted, err error) {
	for range maxReads {
		before := c.known()
		print := fingerprint(before)
		w, err = c.read()
		if c.saw(before, print, w) {
			break
		}
	}
	return w, err
}

// saw notes what was read while the files before had that fingerprint, and
// reports whether these are the files that matter.
func (c *Current) saw(before []string, print string, w Wanted) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(w.Files) > 0 {
		c.files = append(slices.Clone(w.Files), binaries(w.Drivers)...)
	}
	c.judged = print
	same := slices.Equal(before, c.files)
	if !same {
		c.judged = "" // looks like a change
	}
	return same
}

// known lists the files that matter.
func (c *Current) known() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.files
}

func compiled(w Wanted, set *driverhost.Set) (*snapshot, error) {
	tree, err := decision.Compile(w.Tree, set.Descriptors())
	if err != nil {
		return nil, err
	}
	return &snapshot{wanted: w, set: set, tree: tree}, nil
}

// drop lets go of a set that nobody uses.
func (c *Current) drop(set *driverhost.Set) {
	c.host.Retire(set)
	c.host.Forget(set)
}

// Hold returns the present setup, whose drivers go on until release even when
// another setup takes its place; see drivers.Setups.
func (c *Current) Hold() (drivers.Setup, func()) {
	for {
		s := c.present.Load()
		// A set that is retired and still the present one is that of a closed
		// host: its drivers say so when they are called.
		if held := s.set.Hold(); held || c.present.Load() == s {
			release := func() {}
			if held {
				release = s.set.Release
			}
			return drivers.Setup{Drivers: s.set, Tree: s.tree, Settings: s.wanted.Settings}, release
		}
	}
}

// Descriptors lists the drivers of the present setup, by name.
func (c *Current) Descriptors() []driver.Descriptor { return c.present.Load().set.Descriptors() }

// Lock is what the drivers of the present setup are pinned by.
func (c *Current) Lock() driverhost.Lock { return c.present.Load().set.Lock() }

// take waits for the turn to change something.
func (c *Current) take(ctx context.Context) error {
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	if c.closed {
		c.give()
		return errors.New("the server is stopping")
	}
	return nil
}

func (c *Current) give() { <-c.turn }

// Reload reads the files again and, when everything they ask for works, puts it
// in the place of the present setup: drivers that differ are started, described,
// configured and probed first, and the tree is compiled for them. Calls in
// flight end under the setup they began with. The drivers named in again get a
// fresh process although they are the same. On an error nothing is changed.
func (c *Current) Reload(ctx context.Context, again ...string) (Report, error) {
	if err := c.take(ctx); err != nil {
		return Report{}, err
	}
	defer c.give()
	return c.reload(ctx, again)
}

// reload is Reload for who has the turn.
func (c *Current) reload(ctx context.Context, again []string) (Report, error) {
	began := time.Now()
	w, err := c.wanted()
	if err != nil {
		return Report{}, err
	}
	old := c.present.Load()
	set, err := c.host.Prepare(ctx, old.set, w.Drivers, again...)
	if err != nil {
		return Report{}, err
	}
	next, err := compiled(w, set)
	if err != nil {
		c.drop(set)
		return Report{}, err
	}
	report := old.changes(next)
	report.NeedsRestart = differing(c.started, w.Restart)
	if !report.Changed() {
		c.drop(set)
		return c.finish(report, began), nil
	}
	c.replace(old, next)
	if report.differs() {
		c.keep(old)
	} else {
		c.host.Forget(old.set) // fresh processes of the same drivers are nothing to go back from
	}
	return c.finish(report, began), nil
}

// replace puts a snapshot in the place of the present one.
func (c *Current) replace(old, next *snapshot) {
	c.present.Store(next)
	c.host.Use(next.set)
	c.host.Retire(old.set)
	select {
	case c.switched <- struct{}{}:
	default: // whoever listens has still to look
	}
}

// Switched receives after the present setup was replaced, once for any number
// of times. It is for one listener and never closed.
func (c *Current) Switched() <-chan struct{} { return c.switched }

// keep makes a snapshot the one to go back to.
func (c *Current) keep(s *snapshot) {
	if c.earlier != nil {
		c.host.Forget(c.earlier.set)
	}
	c.earlier = s
}

func (c *Current) finish(r Report, began time.Time) Report {
	r.At, r.Took = time.Now(), Milliseconds(time.Since(began))
	c.log.Info("setup", "changed", r.Changed(), "drivers", r.words(), "tree", r.Tree, "settings", r.Settings,
		"took", time.Duration(r.Took).Round(time.Millisecond), "needs_restart", r.NeedsRestart)
	for _, w := range r.Warnings {
		c.log.Warn("setup", "warning", w)
	}
	return r
}

// Rollback goes back to the setup before the last reload that changed anything:
// the drivers run the very binaries they ran then, whatever has their names now.
// drivers.lock, and binaries that differ, are written back, so that a restart
// starts the same drivers; configuration and tree files are left alone, and the
// report says when they ask for something else. A second Rollback undoes the
// first. On an error nothing is changed.
func (c *Current) Rollback(ctx context.Context) (Report, error) {
	if err := c.take(ctx); err != nil {
		return Report{}, err
	}
	defer c.give()
	began := time.Now()
	if c.earlier == nil {
		return Report{}, errors.New("there is nothing to go back to: no reload has changed a binary, the configuration or the tree since this server started")
	}
	old, target := c.present.Load(), c.earlier
	set, err := c.host.Restore(ctx, old.set, target.set)
	if err != nil {
		return Report{}, fmt.Errorf("go back to the earlier drivers: %w", err)
	}
	next := &snapshot{wanted: target.wanted, set: set, tree: target.tree}
	report := old.changes(next)
	report.NeedsRestart = differing(c.started, next.wanted.Restart)
	c.replace(old, next)
	c.keep(old)
	report.Warnings = c.writeBack(next, report)
	// The files are the operator's and stay as they are: only when they change
	// again are they taken up.
	c.mu.Lock()
	c.judged = fingerprint(c.files)
	c.mu.Unlock()
	return c.finish(report, began), nil
}

// Close ends the changes. The present setup can be held until its host is closed.
func (c *Current) Close() error {
	c.turn <- struct{}{}
	defer c.give()
	c.closed = true
	return nil
}

// differing lists the keys whose values differ, in order.
func differing(a, b map[string]any) []string {
	var keys []string
	for _, k := range slices.Sorted(maps.Keys(b)) {
		if !reflect.DeepEqual(a[k], b[k]) {
			keys = append(keys, k)
		}
	}
	return keys
}
