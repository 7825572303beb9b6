package driverhost

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/driverrpc"
)

// The defaults of Config.
const (
	DefaultStart = 10 * time.Second
	DefaultCall  = 10 * time.Second
	DefaultStop  = 2 * time.Second
	DefaultDrain = 30 * time.Second
	DefaultIdle  = 10 * time.Minute
	DefaultCool  = 30 * time.Second
)

// Config says which drivers there are and how they are run. The zero value of
// every optional field works.
type Config struct {
	// Dir is the folder of the binaries; required when the lock has drivers.
	Dir string
	// Lock pins the drivers. Only locked drivers start.
	Lock Lock
	// Drivers holds settings by driver name; a driver without any is fine.
	Drivers map[string]DriverConfig
	// Start bounds a start, from the binary to the first answer. 0: DefaultStart.
	Start time.Duration
	// Call bounds a call once its driver runs; its repetition on a fresh process
	// has the same time again. 0: DefaultCall.
	Call time.Duration
	// Stop bounds first the draining of calls and then the voluntary end of a
	// process, each. 0: DefaultStop.
	Stop time.Duration
	// Drain is how long those who hold a retired set may go on. 0: DefaultDrain.
	Drain time.Duration
	// Idle is after how much time without a call a driver is stopped; the next
	// call starts it. 0: DefaultIdle; negative: never.
	Idle time.Duration
	// Cool is how long a driver that failed five times within a minute, without
	// a served call in between, is left alone. 0: DefaultCool.
	Cool time.Duration
	// Dev runs binaries whose bytes are not the locked ones. For development only.
	Dev bool
	// Attach lists drivers that run already, started with --debug. Dev only.
	Attach []driverrpc.Attachment
}

// Network says whether a driver may use the network.
type Network string

// The network policies. The zero value allows.
const (
	NetworkAllow Network = "allow"
	NetworkDeny  Network = "deny"
)

// DriverConfig is what an operator says of one driver.
type DriverConfig struct {
	// Config is the driver's own configuration; empty: none.
	Config json.RawMessage
	// EnvFrom names the variables of the host's environment that the driver
	// sees. It sees no others.
	EnvFrom []string
	// AllowEffects lets a driver of effect class "effects" run.
	AllowEffects bool
	// Network; empty: allow.
	Network Network
	// MemoryMiB is how much memory the driver should do with; 0: 256.
	MemoryMiB int
	// Folders are what the driver may use besides the paths in Config, where it
	// is isolated by Landlock.
	Folders []string
	// Call and Idle take the place of Config.Call and Config.Idle; 0: they do not.
	// Other values apply to the running process: they do not make another driver.
	Call, Idle time.Duration
	// Limits do not make another driver either.
	Limits Limits
}

// Limits are what an operator lets a driver vouch for. The zero value limits
// nothing beyond the driver's descriptor.
type Limits struct {
	// MaxProvenance is the strongest provenance that what the driver says is
	// recorded with; empty: any.
	MaxProvenance driver.Provenance
	// NoPerson: the driver may not answer for a person.
	NoPerson bool
}

// Host runs drivers, in sets. Its methods are safe for concurrent use.
type Host struct {
	log     *slog.Logger
	tell    Observer
	starter *starter
	sockets socketBase

	confinement *confinement

	ctx       context.Context // ends when Close begins: aborts starts
	cancel    context.CancelFunc
	work      sync.WaitGroup // starts and stops in the background
	closeOnce sync.Once
	closed    error

	mu       sync.Mutex // guards the fields below and every slot's sets, keepers and over
	journals map[string]*journal
	sets     map[*Set]struct{} // live: not yet retired to the end
	kept     map[*Set]struct{} // not yet forgotten
	inUse    *Set
	closing  bool
}

// New makes a host without drivers. It starts no process. Call Close when done.
func New(log *slog.Logger, opt Options) *Host {
	if opt.Observer == nil {
		opt.Observer = silence{}
	}
	h := &Host{
		log: log, tell: opt.Observer, starter: newStarter(), journals: map[string]*journal{},
		sets: map[*Set]struct{}{}, kept: map[*Set]struct{}{},
	}
	h.confinement = newConfinement(opt.Confinement, h.starter, log)
	h.ctx, h.cancel = context.WithCancel(context.Background())
	return h
}

// Load makes a set whose drivers start when they are first called.
func (h *Host) Load(cfg Config) (*Set, error) {
	specs, lock, err := cfg.specs(h.ctx, h.confinement)
	if err != nil {
		return nil, err
	}
	return h.assemble(cfg.plan(lock, specs), nil, nil, nil)
}

// Prepare makes the set that is to follow old. Drivers that are the same, by
// binary, configuration and environment, are shared with it; every other one,
// and those named in again, is started, described, configured and probed. On an
// error nothing is left behind and old goes on. The caller holds old meanwhile,
// or retires it only later.
func (h *Host) Prepare(ctx context.Context, old *Set, cfg Config, again ...string) (*Set, error) {
	specs, lock, err := cfg.specs(ctx, h.confinement)
	if err != nil {
		return nil, err
	}
	for _, name := range again {
		if _, ok := specs[name]; !ok {
			return nil, unknown(name)
		}
	}
	return h.follow(ctx, old, cfg.plan(lock, specs), nil, again)
}

// Restore is Prepare for a set that was in use before: it runs the very
// binaries that set ran, from the open files, whatever has their names now.
// The earlier set may be retired, but not forgotten.
func (h *Host) Restore(ctx context.Context, old, earlier *Set) (*Set, error) {
	specs := make(map[string]spec, len(earlier.slots))
	for name, s := range earlier.slots {
		specs[name] = s.spec
	}
	return h.follow(ctx, old, plan{earlier.lock, specs, earlier.times, earlier.limits, earlier.drain}, earlier, nil)
}

// plan is what a set is made of.
type plan struct {
	lock   Lock
	specs  map[string]spec
	times  map[string]times  // by driver
	limits map[string]Limits // by driver
	drain  time.Duration
}

func (c Config) plan(lock Lock, specs map[string]spec) plan {
	p := plan{
		lock: lock, specs: specs, times: make(map[string]times, len(specs)), limits: make(map[string]Limits, len(specs)),
		drain: orDefault(c.Drain, DefaultDrain),
	}
	for name := range specs {
		p.times[name], p.limits[name] = c.timesOf(name), c.Drivers[name].Limits
	}
	return p
}

// follow assembles a set after old and starts what is new in it.
func (h *Host) follow(ctx context.Context, old *Set, p plan, files *Set, again []string) (*Set, error) {
	s, err := h.assemble(p, old, files, again)
	if err != nil {
		return nil, err
	}
	if files == nil {
		err = s.inPlace(old)
	}
	if err = errors.Join(err, s.start(ctx, old)); err != nil {
		h.Retire(s)
		h.Forget(s)
		return nil, err
	}
	return s, nil
}

// inPlace makes sure that the files of the drivers that go on are the locked
// ones: a restart of the server would refuse them.
func (s *Set) inPlace(old *Set) error {
	var all []error
	for name, sl := range s.slots {
		if old == nil || old.slots[name] != sl || sl.attach != nil {
			continue
		}
		if err := sl.held.inPlace(); err != nil {
			all = append(all, fmt.Errorf("driver %s: %w", name, err))
		}
	}
	return errors.Join(all...)
}

// start brings up every driver that old does not run already, all at once.
func (s *Set) start(ctx context.Context, old *Set) error {
	var wg sync.WaitGroup
	errs := make(chan error, len(s.slots))
	for name, sl := range s.slots {
		if old != nil && old.slots[name] == sl {
			continue
		}
		wg.Go(func() {
			err := sl.ready(ctx)
			if err != nil && old != nil {
				s.host.tell.Swapped(name, err)
			}
			errs <- err
		})
	}
	wg.Wait()
	close(errs)
	var all []error
	for err := range errs {
		all = append(all, err)
	}
	return errors.Join(all...)
}

// assemble makes a set, sharing slots with old where nothing is different. The
// binaries of files, if any, are taken from its open ones.
func (h *Host) assemble(p plan, old, files *Set, again []string) (*Set, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closing {
		return nil, errors.New("the driver host is closed")
	}
	set := &Set{
		host: h, lock: p.lock, times: p.times, limits: p.limits, drain: p.drain,
		slots: make(map[string]*slot, len(p.specs)), free: make(chan struct{}),
	}
	for name, sp := range p.specs {
		s := reusable(old, name, sp, again)
		if s == nil {
			s = newSlot(h, sp, set.times[name], heldFor(files, name, sp))
		}
		s.sets++
		s.keepers++
		set.slots[name] = s
	}
	h.sets[set], h.kept[set] = struct{}{}, struct{}{}
	if h.inUse == nil {
		h.inUse = set
	}
	return set, nil
}

func reusable(old *Set, name string, sp spec, again []string) *slot {
	if old == nil || old.slots[name] == nil || !old.slots[name].equal(sp) || slices.Contains(again, name) {
		return nil
	}
	return old.slots[name]
}

func heldFor(files *Set, name string, sp spec) *held {
	if files != nil && files.slots[name] != nil {
		return files.slots[name].held.again()
	}
	return hold(sp.dir, sp.entry, sp.dev)
}

// Use makes the set the one that Status and Logs show.
func (h *Host) Use(s *Set) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, sl := range s.slots {
		if h.inUse != nil && h.inUse.slots[name] != sl {
			h.tell.Swapped(name, nil)
		}
		sl.allow(s.times[name])
	}
	h.inUse = s
}

// Retire lets nobody hold the set any more and, in the background, waits for
// those who do, within its Drain, and stops the drivers that no other set has.
// It may be called twice.
func (h *Host) Retire(s *Set) {
	if !s.retire() {
		return
	}
	h.work.Go(func() {
		timer := time.NewTimer(s.drain)
		defer timer.Stop()
		select {
		case <-s.free:
		case <-timer.C:
			h.log.Warn("drivers are stopped although calls still need them")
		case <-h.ctx.Done():
		}
		h.dissolve(s)
	})
}

// dissolve stops what only this set has.
func (h *Host) dissolve(s *Set) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, live := h.sets[s]; !live {
		return
	}
	delete(h.sets, s)
	for _, sl := range s.slots {
		if sl.sets--; sl.sets == 0 {
			sl.close()
		}
	}
}

// Forget closes the binaries of a retired set, which cannot be restored then.
// It may be called twice.
func (h *Host) Forget(s *Set) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forget(s)
}

// forget needs the lock.
func (h *Host) forget(s *Set) {
	if _, kept := h.kept[s]; !kept {
		return
	}
	delete(h.kept, s)
	for _, sl := range s.slots {
		sl.keepers--
		h.letGo(sl)
	}
}

// ended notes that nothing of a slot runs any more, nor will.
func (h *Host) ended(s *slot) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s.over = true
	h.letGo(s)
}

// letGo closes the binary of a slot that nobody starts or restores any more.
// Those who hold a retired set may start its drivers until it is over. Needs the lock.
func (h *Host) letGo(s *slot) {
	if s.keepers > 0 || !s.over {
		return
	}
	if err := s.held.close(); err != nil {
		h.log.Warn("driver binary not closed", "driver", s.entry.Name, "error", err)
	}
}

// present returns the slots of the set in use.
func (h *Host) present() *Set {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.inUse == nil {
		return &Set{}
	}
	return h.inUse
}

// journalOf returns the journal of a driver name. Needs the lock.
func (h *Host) journalOf(name string) *journal {
	j := h.journals[name]
	if j == nil {
		j = newJournal()
		h.journals[name] = j
	}
	return j
}

func (h *Host) knownJournal(name string) *journal {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.journals[name]
}

// Logs returns the last n lines of a driver, over all its generations, oldest
// first; at most 200 are kept.
func (h *Host) Logs(name string, n int) []Line {
	j := h.knownJournal(name)
	if j == nil {
		return nil
	}
	return j.last(n)
}

// FollowLogs gives emit the last n lines of a driver and every later one until
// ctx ends or emit fails. A reader that is too slow misses lines.
func (h *Host) FollowLogs(ctx context.Context, name string, n int, emit func(Line) error) error {
	j := h.knownJournal(name)
	if j == nil {
		return unknown(name)
	}
	return j.follow(ctx, n, emit)
}

// Close takes no more calls, lets those in flight finish for a bounded time,
// stops every process and waits for it. It may be called twice.
func (h *Host) Close() error {
	h.closeOnce.Do(func() {
		h.mu.Lock()
		h.closing = true
		var sets []*Set
		for s := range h.sets {
			sets = append(sets, s)
		}
		h.mu.Unlock()
		h.cancel()
		for _, s := range sets {
			s.retire()
			h.dissolve(s)
		}
		h.work.Wait()
		h.forgetAll()
		h.starter.close()
		h.closed = h.sockets.remove()
	})
	return h.closed
}

func (h *Host) forgetAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.kept {
		h.forget(s)
	}
}

func unknown(name string) error {
	return fmt.Errorf("there is no driver %q; `kairos driver list` names those that there are", name)
}

var errEffects = errors.New("it changes the world, which needs allow_effects in its configuration")

// specs works out what there is to run.
func (c Config) specs(ctx context.Context, hide *confinement) (map[string]spec, Lock, error) {
	lock := c.Lock
	if len(lock.Drivers) > 0 {
		if err := lock.Validate(); err != nil {
			return nil, Lock{}, fmt.Errorf("driver lock: %w", err)
		}
	}
	if len(lock.Drivers) > 0 && !c.Dev {
		if err := CheckPermissions(c.Dir); err != nil {
			return nil, Lock{}, err
		}
	}
	out := make(map[string]spec, len(lock.Drivers))
	for _, e := range lock.Drivers {
		out[e.Name] = c.spec(e)
	}
	if err := c.attach(ctx, &lock, out); err != nil {
		return nil, Lock{}, err
	}
	for _, sp := range out {
		if err := hide.check(sp); err != nil {
			return nil, Lock{}, fmt.Errorf("driver %q: %w", sp.entry.Name, err)
		}
	}
	for name, own := range c.Drivers {
		if own.Network != "" && own.Network != NetworkAllow && own.Network != NetworkDeny {
			return nil, Lock{}, fmt.Errorf("driver %q: network is %q, it can be allow or deny", name, own.Network)
		}
		if _, ok := out[name]; !ok {
			return nil, Lock{}, fmt.Errorf("driver %q is configured but not in the lock: "+
				"put its binary into %s and run `kairos driver lock`", name, c.Dir)
		}
	}
	return out, lock, nil
}

func (c Config) spec(e LockedEntry) spec {
	own := c.Drivers[e.Name]
	return spec{entry: e, config: own, env: environment(own.EnvFrom), dir: c.Dir, dev: c.Dev}
}

func (c Config) timesOf(name string) times {
	own := c.Drivers[name]
	return times{
		start: orDefault(c.Start, DefaultStart), stop: orDefault(c.Stop, DefaultStop), cool: orDefault(c.Cool, DefaultCool),
		call: cmp.Or(own.Call, c.Call, DefaultCall), idle: cmp.Or(own.Idle, c.Idle, DefaultIdle),
	}
}

// attach puts the drivers that run already in the place of locked ones.
func (c Config) attach(ctx context.Context, lock *Lock, out map[string]spec) error {
	if len(c.Attach) > 0 && !c.Dev {
		return errors.New("attaching to a running driver needs dev mode")
	}
	for _, to := range c.Attach {
		d, err := describeAttached(ctx, to, orDefault(c.Start, DefaultStart))
		if err != nil {
			return err
		}
		e := LockedEntry{Name: d.Name, Version: d.Version, File: BinaryPrefix + d.Name, SHA256: map[string]string{}, Descriptor: d}
		sp := c.spec(e)
		sp.attach = &to
		out[d.Name] = sp
		lock.Drivers = withEntry(lock.Drivers, e)
	}
	return nil
}

func withEntry(entries []LockedEntry, e LockedEntry) []LockedEntry {
	out := make([]LockedEntry, 0, len(entries)+1)
	for _, o := range entries {
		if o.Name != e.Name {
			out = append(out, o)
		}
	}
	return append(out, e)
}

func describeAttached(ctx context.Context, to driverrpc.Attachment, within time.Duration) (d driver.Descriptor, err error) {
	client, stop, err := driverrpc.Dial(to)
	if err != nil {
		return d, fmt.Errorf("attach to driver %s at %s: %w", to.Name, to.Address, err)
	}
	defer func() { err = errors.Join(err, stop()) }()
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if d, err = client.Describe(ctx); err != nil {
		return d, fmt.Errorf("attach to driver %s at %s: %w (does it still run?)", to.Name, to.Address, err)
	}
	return d, nil
}

// orDefault replaces zero.
func orDefault(d, def time.Duration) time.Duration {
	if d == 0 {
		return def
	}
	return d
}
