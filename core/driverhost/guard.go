package driverhost

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"strings"
	"sync"
	"syscall"
)

// Limits of a driver process. RLIMIT_AS is not one of them: a Go program reserves far more
// addresses than it uses memory.
const (
	maxOpenFiles = 256
	maxFileSize  = 64 << 20 // bytes
	maxProcesses = 256      // of one driver, where it has a cgroup

	// DefaultMemoryMiB is the memory of a driver whose configuration sets none.
	DefaultMemoryMiB = 256
)

// driverPath is the PATH of every driver, so that `#!/usr/bin/env python3` works.
const driverPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// isolation is the means by which a process is denied the network.
type isolation string

const (
	byNothing       isolation = ""
	byNamespace     isolation = "namespace"
	byUserNamespace isolation = "user and network namespace"
	byLandlock      isolation = "Landlock"
)

// guardConfig lists the permissions of one driver.
type guardConfig struct {
	memoryMiB int      // 0: DefaultMemoryMiB
	offline   bool     // it may not use the network
	launcher  bool     // it isolates what it starts, for which it needs capabilities and no Landlock
	use       []string // files and folders that its settings name
	brief     bool     // it runs once and gets no cgroup
}

// guard isolates the processes of one driver: limits, no new privileges,
// memory, network and the server's own files. It is safe for concurrent use.
// Decision records 0018 and 0055 describe its limits.
type guard struct {
	log         *slog.Logger
	name        string
	config      guardConfig
	starter     *starter
	confinement *confinement

	mu        sync.Mutex // guards the fields below
	ready     bool       // the rest is set
	closed    bool
	network   isolation
	confined  confined
	threads   []*starter // restricted by Landlock for this driver alone; the last one is in use
	grantedTo identity   // the binary that the last one may execute
	group     *cgroup    // nil: there is none
	noGroup   error      // why
	owners    map[int]string
	limits    error // why the limits were not set; nil: they were
}

func newGuard(name string, c guardConfig, s *starter, hide *confinement, log *slog.Logger) *guard {
	if c.memoryMiB <= 0 {
		c.memoryMiB = DefaultMemoryMiB
	}
	return &guard{log: log, name: name, config: c, starter: s, confinement: hide, owners: map[int]string{}}
}

// start starts an isolated process, which may use the folders of its own. The
// command's attributes are those of processAttributes; its environment is
// complete but for PATH and the memory limit, which an entry of the same name
// overrides.
func (g *guard) start(cmd *exec.Cmd, own ...string) error {
	thread, before, err := g.prepare(cmd, own)
	if err != nil {
		return err
	}
	owner := newOwner()
	cmd.Env = append(cmd.Env, ownerEnv+"="+owner)
	if err := thread.do(func() error {
		if err := before(); err != nil {
			return err
		}
		return cmd.Start()
	}); err != nil {
		endOrphans(owner)
		return err
	}
	g.mu.Lock()
	g.owners[cmd.Process.Pid] = owner
	g.mu.Unlock()
	g.started(cmd.Process.Pid)
	return nil
}

// ended ends processes that a process of the driver has left outside of its process
// group. The process itself has ended and is reaped.
func (g *guard) ended(pid int) {
	g.mu.Lock()
	owner := g.owners[pid]
	delete(g.owners, pid)
	g.mu.Unlock()
	endOrphans(owner)
}

// prepare completes a command and returns the thread that must start it, and what that
// thread does before.
func (g *guard) prepare(cmd *exec.Cmd, own []string) (*starter, func() error, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, nil, errors.New("its guard is closed")
	}
	g.findOut()
	cmd.Env = append(g.environment(), cmd.Env...) // the last one of a name counts
	g.network.apply(cmd.SysProcAttr)
	if g.group != nil {
		g.group.apply(cmd.SysProcAttr)
	}
	return g.confine(cmd, own)
}

// environment needs the lock.
func (g *guard) environment() []string {
	mib := g.config.memoryMiB
	if g.group != nil {
		mib -= mib / 10 // so that the garbage collector works before the kernel kills
	}
	return []string{"PATH=" + driverPath, fmt.Sprintf("GOMEMLIMIT=%dMiB", mib)}
}

// findOut detects once what this machine offers. It needs the lock.
func (g *guard) findOut() {
	if g.ready {
		return
	}
	g.ready, g.confined = true, g.confinement.find()
	if g.starter.setUp != nil {
		g.log.Warn("driver may gain privileges", "driver", g.name, "error", g.starter.setUp)
	}
	if g.config.offline {
		g.findIsolation()
	}
	if g.config.brief {
		g.noGroup = errors.New("it runs once")
		return
	}
	base, err := g.starter.groups()
	if err == nil {
		g.group, err = newCgroup(base, g.name, g.config.memoryMiB)
	}
	if err == nil {
		if err = g.tryGroup(); err != nil {
			err = errors.Join(err, g.group.remove())
			g.group = nil
		}
	}
	g.noGroup = err
}

// findIsolation needs the lock.
func (g *guard) findIsolation() {
	g.network = g.starter.network()
	if g.network == byUserNamespace && g.level() == LevelLandlock {
		// Landlock keeps the thread that starts the process from writing the maps
		// of its user namespace.
		g.network = g.starter.findLandlock()
	}
	if g.network == byNothing {
		g.log.Warn("driver is to have no network, but "+noIsolation, "driver", g.name)
	}
}

// tryGroup tests whether processes can be started in the group. It needs the lock.
func (g *guard) tryGroup() error {
	attr := processAttributes()
	g.group.apply(attr)
	return g.starter.try(attr)
}

// started limits a process that was just started. The limits come a moment
// after its first instruction, because limits belong to a whole process and the
// host must not lower its own. They do not apply to files and processes of these
// microseconds, nor to a driver that runs as root, which may raise them again.
func (g *guard) started(pid int) {
	err := limitProcess(pid, g.config.launcher)
	if err == nil || errors.Is(err, syscall.ESRCH) { // it has ended already
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.limits == nil {
		g.log.Warn("driver runs without limits", "driver", g.name, "error", err)
	}
	g.limits = err
}

const noIsolation = "this machine offers neither network namespaces nor Landlock rules for it"

// protection describes the isolation and limits in force. It is empty until the first
// start.
func (g *guard) protection() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.ready {
		return nil
	}
	var words []string
	if g.starter.setUp == nil {
		words = append(words, "no new privileges")
	} else {
		words = append(words, fmt.Sprintf("privileges: NOT restricted: %v", g.starter.setUp))
	}
	switch {
	case g.limits == nil && g.config.launcher:
		words = append(words, "no core dumps")
	case g.limits == nil:
		words = append(words, fmt.Sprintf("%d open files", maxOpenFiles), "no core dumps",
			fmt.Sprintf("files up to %d MiB", maxFileSize>>20))
	default:
		words = append(words, fmt.Sprintf("open files, core dumps, file size: NOT limited: %v", g.limits))
	}
	return append(words, g.memoryWords(), g.networkWords(), g.fileWords())
}

// level is the isolation in force. It needs the lock, and findOut before.
func (g *guard) level() Level {
	return g.confined.of(g.config.launcher)
}

// fileWords needs the lock.
func (g *guard) fileWords() string {
	switch g.level() {
	case LevelNamespace:
		return "files: database, keys, drivers.lock and admin socket are hidden by a mount namespace"
	case LevelLandlock:
		return "files: Landlock grants system folders and " + cmp.Or(strings.Join(g.config.use, ", "), "nothing else")
	}
	if g.confined.level == LevelLandlock {
		return "files: NOT restricted: it isolates what it starts itself, which Landlock would prevent"
	}
	return "files: NOT restricted: " + cmp.Or(reason(g.confined.why), "drivers.isolation is none")
}

// memoryWords needs the lock.
func (g *guard) memoryWords() string {
	if g.group != nil {
		return g.group.words(g.config.memoryMiB)
	}
	return fmt.Sprintf("memory: GOMEMLIMIT %d MiB, which only programs in Go heed (no cgroup: %v)",
		g.config.memoryMiB, g.noGroup)
}

// networkWords needs the lock.
func (g *guard) networkWords() string {
	switch {
	case !g.config.offline:
		return "network: allowed"
	case g.network == byNothing:
		return "network: NOT restricted, " + noIsolation
	case g.network == byLandlock:
		return "network: TCP denied by Landlock, other protocols are not"
	default:
		return "network: denied by " + string(g.network)
	}
}

// close ends the remaining processes of the driver, if they have a cgroup, and removes
// it. It may be called twice. No process can be started afterwards.
func (g *guard) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	for _, t := range g.threads {
		t.close()
	}
	g.threads = nil
	if g.group == nil {
		return
	}
	if err := g.group.remove(); err != nil {
		g.log.Warn("cgroup of a driver not removed", "driver", g.name, "error", err)
	}
	g.group, g.noGroup = nil, errors.New("it is removed")
}
