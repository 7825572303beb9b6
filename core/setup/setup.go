package setup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/audit"
	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/core/drivers"
	"github.com/kairos-mcp/kairos/core/rules"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// Desired is the state that the operator's files describe.
type Desired struct {
	Drivers  driverhost.Config
	Tree     decision.Source
	Rules    rules.Source
	Settings decision.ConfigFacts
	// How are the ways of approving that count.
	How []string
	// Realm is that of groups which are written without one. Empty: nobody can log in.
	Realm string
	// Files lists these files and folders as absolute paths, also those that could
	// not be read.
	Files []string
	// Digest tells two states apart, for the audit log.
	Digest string
	// Restart holds the settings that only a restart applies, by key. They are
	// compared with reflect.DeepEqual.
	Restart map[string]any
}

// Read reads the desired state. It is called for every reload, one at a time, and
// again if it lists other files than the last time.
type Read func() (Desired, error)

// snapshot is one setup. It never changes.
type snapshot struct {
	desired Desired
	set     *driverhost.Set
	tree    *decision.Tree
	rules   *rules.Set
}

// Current is the present setup. Its methods may be called concurrently.
type Current struct {
	host  *driverhost.Host
	read  Read
	audit *audit.Log
	log   *slog.Logger

	present  atomic.Pointer[snapshot]
	switched chan struct{}

	// turn is held while something changes, and guards the fields below.
	turn    chan struct{}
	earlier *snapshot      // restored by Rollback; nil: none
	started map[string]any // Desired.Restart as it was at Open
	closed  bool

	mu      sync.Mutex        // guards the fields below
	files   []string          // that the latest read named
	checked map[string]string // states of the files when they were last read
	refused map[string]string // states that were refused because a driver could have written them
	taken   bool              // it was said that changes of drivers would be taken up
}

// Open creates the first setup from what read returns. It starts no process. What
// replaces it is audited. The caller closes the host after the Current.
func Open(host *driverhost.Host, read Read, audited *audit.Log, log *slog.Logger) (*Current, error) {
	c := &Current{host: host, read: read, audit: audited, log: log, turn: make(chan struct{}, 1), switched: make(chan struct{}, 1)}
	w, err := c.desired()
	if err != nil {
		return nil, err
	}
	set, err := host.Load(w.Drivers)
	if err != nil {
		return nil, err
	}
	first, err := compiled(w, set)
	if err != nil {
		c.discard(set)
		return nil, err
	}
	c.started = w.Restart
	c.present.Store(first)
	host.Use(set)
	return c, nil
}

// maxReads limits the reads of one reload while the list of files keeps changing.
const maxReads = 3

// desired reads the files and remembers their state from before the read, so that a
// write during it counts as a change. If the list of files changes, it reads again.
func (c *Current) desired() (w Desired, err error) {
	for range maxReads {
		before := c.known()
		print := states(before)
		w, err = c.read()
		if c.remember(before, print, w) {
			break
		}
	}
	return w, err
}

// remember records that the files had these states before the read, and reports
// whether the list of files is still the same.
func (c *Current) remember(before []string, print map[string]string, w Desired) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(w.Files) > 0 {
		c.files = append(slices.Clone(w.Files), binaries(w.Drivers)...)
	}
	c.checked = print
	same := slices.Equal(before, c.files)
	if !same {
		c.checked = nil // counts as a change
	}
	return same
}

// known lists the files of the latest read.
func (c *Current) known() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.files
}

func compiled(w Desired, set *driverhost.Set) (*snapshot, error) {
	tree, err := decision.Compile(w.Tree, set.Descriptors())
	if err == nil {
		err = drivers.CheckHow(w.How, tree.Ways())
	}
	if err != nil {
		return nil, err
	}
	held, err := rules.Compile(w.Rules, set.Descriptors())
	if err != nil {
		return nil, err
	}
	return &snapshot{desired: w, set: set, tree: tree, rules: held}, nil
}

// discard drains a set that was never in use.
func (c *Current) discard(set *driverhost.Set) {
	c.host.Drain(set)
	c.host.Forget(set)
}

// Hold returns the present setup. Its drivers run until release even if another
// setup replaces it; see drivers.Setups.
func (c *Current) Hold() (drivers.Setup, func()) {
	for {
		s := c.present.Load()
		// If the present set is draining, the host is closed, and its drivers return
		// an error when they are called.
		if held := s.set.Hold(); held || c.present.Load() == s {
			release := func() {}
			if held {
				release = s.set.Release
			}
			return drivers.Setup{Drivers: s.set, Tree: s.tree, Rules: s.rules, Settings: s.desired.Settings, How: s.desired.How, Realm: s.desired.Realm}, release
		}
	}
}

// Descriptors lists the drivers of the present setup, by name.
func (c *Current) Descriptors() []driver.Descriptor { return c.present.Load().set.Descriptors() }

// Lock returns the lock of the present drivers.
func (c *Current) Lock() driverhost.Lock { return c.present.Load().set.Lock() }

// lock waits until no other change is under way.
func (c *Current) lock(ctx context.Context) error {
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	if c.closed {
		c.unlock()
		return errors.New("the server is stopping")
	}
	return nil
}

func (c *Current) unlock() { <-c.turn }

// Reload reads the files again and replaces the present setup if everything in them
// works: drivers that differ are started, described, configured and probed first,
// and the tree is compiled for them. Calls in flight end under the setup they began
// with. Drivers named in again are restarted even if nothing differs. After an
// error nothing has changed.
func (c *Current) Reload(ctx context.Context, again ...string) (Report, error) {
	if err := c.lock(ctx); err != nil {
		return Report{}, err
	}
	defer c.unlock()
	return c.reload(ctx, again)
}

// reload needs the lock of changes.
func (c *Current) reload(ctx context.Context, again []string) (Report, error) {
	began := time.Now()
	w, err := c.desired()
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
		c.discard(set)
		return Report{}, err
	}
	report := old.changes(next)
	report.NeedsRestart, report.Warnings = differing(c.started, w.Restart), set.Gone()
	if !report.Changed() {
		c.discard(set)
		return c.finish(report, began), nil
	}
	if err := c.replace(ctx, audit.SetupReload, report, old, next); err != nil {
		c.discard(set)
		return Report{}, err
	}
	if report.differs() {
		c.keepEarlier(old)
	} else {
		c.host.Forget(old.set) // a rollback to the same drivers would change nothing
	}
	return c.finish(report, began), nil
}

// replace makes next the present snapshot, unless that must be audited and cannot be.
func (c *Current) replace(ctx context.Context, action audit.Action, r Report, old, next *snapshot) error {
	caller, _ := access.CallerOf(ctx) // none: the files have changed, or there was a signal
	act := audit.Act{Action: action, Details: map[string]string{
		"digest": next.desired.Digest, "drivers": strings.Join(r.summary(), ", "), "tree": string(r.Tree), "rules": string(r.Rules), "settings": string(r.Settings),
	}}
	return c.audit.Do(ctx, caller, act, func(*audit.Doing) error {
		c.present.Store(next)
		c.host.Use(next.set)
		c.host.Drain(old.set)
		select {
		case c.switched <- struct{}{}:
		default: // the listener has not received the last one yet
		}
		return nil
	})
}

// Digest tells the present setup from others, for the audit log.
func (c *Current) Digest() string { return c.present.Load().desired.Digest }

// Switched receives after the present setup was replaced; several replacements may
// be received as one. It is for one listener and never closed.
func (c *Current) Switched() <-chan struct{} { return c.switched }

// keepEarlier makes s the target of Rollback.
func (c *Current) keepEarlier(s *snapshot) {
	if c.earlier != nil {
		c.host.Forget(c.earlier.set)
	}
	c.earlier = s
}

func (c *Current) finish(r Report, began time.Time) Report {
	r.At, r.Took = time.Now(), Milliseconds(time.Since(began))
	c.log.Info("setup", "changed", r.Changed(), "drivers", r.summary(), "tree", r.Tree, "rules", r.Rules, "settings", r.Settings,
		"took", time.Duration(r.Took).Round(time.Millisecond), "needs_restart", r.NeedsRestart)
	for _, w := range r.Warnings {
		c.log.Warn("setup", "warning", w)
	}
	return r
}

// Rollback restores the setup before the last reload that changed anything. The
// drivers run the binaries they ran then, even if the files were replaced.
// drivers.lock and binaries that differ are written back, so that a restart
// starts the same drivers. Configuration and tree files do not change, and the
// report warns if they differ. A second Rollback undoes the first. After an error
// nothing has changed.
func (c *Current) Rollback(ctx context.Context) (Report, error) {
	if err := c.lock(ctx); err != nil {
		return Report{}, err
	}
	defer c.unlock()
	began := time.Now()
	if c.earlier == nil {
		return Report{}, errors.New("nothing to roll back: no reload has changed a binary, the configuration or the tree since this server started")
	}
	old, target := c.present.Load(), c.earlier
	set, err := c.host.Restore(ctx, old.set, target.set)
	if err != nil {
		return Report{}, fmt.Errorf("restore the earlier drivers: %w", err)
	}
	next := &snapshot{desired: target.desired, set: set, tree: target.tree, rules: target.rules}
	report := old.changes(next)
	report.NeedsRestart = differing(c.started, next.desired.Restart)
	if err := c.replace(ctx, audit.SetupRollback, report, old, next); err != nil {
		c.discard(set)
		return Report{}, err
	}
	c.keepEarlier(old)
	report.Warnings = c.writeBack(next, report)
	// The watch ignores the operator's files until they change again.
	c.mu.Lock()
	c.checked = states(c.files)
	c.mu.Unlock()
	return c.finish(report, began), nil
}

// Close ends changes. The present setup can be held until its host is closed.
func (c *Current) Close() error {
	c.turn <- struct{}{}
	defer c.unlock()
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
