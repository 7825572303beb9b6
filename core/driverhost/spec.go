package driverhost

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/driverrpc"
)

// spec identifies a driver: equal specs share a slot.
type spec struct {
	entry  LockedEntry
	config DriverConfig
	env    []string // name=value, as the host's environment was
	dir    string
	dev    bool
	attach *driverrpc.Attachment
	roots  []string // that clients have named, of a start; no part of what the driver is
}

func (s spec) equal(o spec) bool {
	return s.entry.sameAs(o.entry) && s.config.equal(o.config) && slices.Equal(s.env, o.env) && s.dir == o.dir && s.dev == o.dev &&
		(s.attach == nil) == (o.attach == nil) && (s.attach == nil || *s.attach == *o.attach)
}

// sameAs compares the entries on this platform; sums of other platforms do not matter.
func (e LockedEntry) sameAs(o LockedEntry) bool {
	return e.Name == o.Name && e.Version == o.Version && e.File == o.File &&
		e.SHA256[Platform()] == o.SHA256[Platform()] && sameDescriptor(e.Descriptor, o.Descriptor)
}

func (c DriverConfig) equal(o DriverConfig) bool {
	return sameDocument(c.Config, o.Config) && slices.Equal(c.EnvFrom, o.EnvFrom) && c.May.Has(MayChange) == o.May.Has(MayChange) &&
		c.May.Has(MayUseNetwork) == o.May.Has(MayUseNetwork) && c.MemoryMiB == o.MemoryMiB && slices.Equal(c.Folders, o.Folders) && slices.Equal(c.ReadOnly, o.ReadOnly)
}

func sameDocument(a, b json.RawMessage) bool {
	var x, y any
	if (len(a) > 0 && json.Unmarshal(a, &x) != nil) || (len(b) > 0 && json.Unmarshal(b, &y) != nil) {
		return string(a) == string(b)
	}
	p, _ := json.Marshal(x)
	q, _ := json.Marshal(y)
	return string(p) == string(q)
}

func (s spec) version() Version {
	return Version{Version: s.entry.Version, SHA256: s.entry.SHA256[Platform()]}
}

// differences lists in words what differs.
func (s spec) differences(o spec) []string {
	var why []string
	note := func(same bool, what string) {
		if !same {
			why = append(why, what)
		}
	}
	note(s.entry.sameAs(o.entry), "binary")
	note(sameDocument(s.config.Config, o.config.Config), "configuration")
	a, b := s.config, o.config
	a.Config, b.Config = nil, nil
	note(a.equal(b), "settings")
	note(slices.Equal(s.env, o.env), "environment")
	note(s.dir == o.dir && s.dev == o.dev, "folder")
	return why
}

// environment returns the variables that a driver sees.
func environment(names []string) []string {
	var env []string
	for _, name := range names {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// secret returns the redactor of the driver's secrets.
func (s spec) secret() *redactor {
	return newRedactor(s.env, s.config.Config, s.entry.Descriptor.ConfigSchema)
}

// transport returns the transport for the driver's transport.
func (s spec) transport(h *Host, pinned *pinnedBinary, log *slog.Logger, says *outputLog, within time.Duration) (transport, error) {
	if s.attach != nil {
		return &attachTransport{to: *s.attach}, nil
	}
	guard := newGuard(s.entry.Name, guardConfig{
		memoryMiB: s.config.MemoryMiB, offline: !s.config.May.Has(MayUseNetwork),
		launcher: s.entry.Descriptor.Has(driver.FeatureLauncher), use: useOf(s),
	}, h.starter, h.confinement, log)
	guard.exceeded = says.journal.exceeded
	if s.entry.Descriptor.Transport == driver.TransportExec {
		return &execTransport{pinned: pinned, descriptor: s.entry.Descriptor, options: execOptions{
			guard: guard, env: slices.Clone(s.env), config: s.config.Config, says: says, secret: s.secret(),
		}}, nil
	}
	return newGRPCTransport(log, h, guard, pinned, slices.Clone(s.env), says, within)
}

// memoKey returns the key under which the answer may be kept. Drivers that an
// author debugs get every call, and of drivers that run one process a call the
// bytes are checked each time.
func (s spec) memoKey(in invocation) (memoryKey, bool) {
	d := s.entry.Descriptor
	if d.Effect != driver.EffectPure || d.Transport != driver.TransportGRPC || s.attach != nil {
		return memoryKey{}, false
	}
	return keyOf(in.method, in.memo)
}

// plan describes the set of the drivers to run.
func (c Config) plan(ctx context.Context, hide *confinement) (plan, error) {
	p := plan{
		lock: c.Lock, specs: map[string]spec{}, times: map[string]times{}, limits: map[string]Limits{}, drainTimeout: orDefault(c.Drain, DefaultDrain),
	}
	if len(c.Lock.Drivers) > 0 {
		if err := c.Lock.Validate(); err != nil {
			return plan{}, fmt.Errorf("driver lock: %w", err)
		}
		if !c.Dev {
			if err := CheckPermissions(c.Dir); err != nil {
				return plan{}, err
			}
		}
	}
	for _, e := range c.Lock.Drivers {
		p.specs[e.Name] = c.spec(e)
	}
	if err := c.attach(ctx, &p); err != nil {
		return plan{}, err
	}
	for name, sp := range p.specs {
		if err := hide.check(sp); err != nil {
			return plan{}, fmt.Errorf("driver %q: %w", name, err)
		}
		p.times[name], p.limits[name] = c.timesOf(name), sp.config.May.Limits(sp.entry.Descriptor)
	}
	for name := range c.Drivers {
		if _, ok := p.specs[name]; !ok {
			return plan{}, fmt.Errorf("driver %q is configured but not in the lock: "+
				"put its binary into %s and run `kairos driver lock`", name, c.Dir)
		}
	}
	return p, nil
}

func (c Config) spec(e LockedEntry) spec {
	own := c.Drivers[e.Name]
	return spec{entry: e, config: own, env: environment(own.EnvFrom), dir: c.Dir, dev: c.Dev}
}

// attach replaces locked drivers by those that run already.
func (c Config) attach(ctx context.Context, p *plan) error {
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
		p.specs[d.Name] = sp
		p.lock.Drivers = append(slices.DeleteFunc(slices.Clone(p.lock.Drivers), func(o LockedEntry) bool { return o.Name == e.Name }), e)
	}
	return nil
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

// changesUnasked reports whether a driver changes the world on its own authority. One
// with the feature preview does only what a person accepted and approved.
func changesUnasked(d driver.Descriptor) bool {
	return d.Effect == driver.EffectChanges && !d.Has(driver.FeaturePreview)
}
