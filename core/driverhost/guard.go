package driverhost

import (
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"sync"
	"syscall"
)

// What a driver process may have at most. RLIMIT_AS is not among it: a Go
// program reserves far more addresses than it uses memory.
const (
	maxOpenFiles = 256
	maxFileSize  = 64 << 20 // bytes
	maxProcesses = 256      // of one driver, where it has a cgroup

	// DefaultMemoryMiB is the memory of a driver of which the configuration does
	// not say how much it may have.
	DefaultMemoryMiB = 256
)

// driverPath is the PATH of every driver, so that `#!/usr/bin/env python3` works.
const driverPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// isolation is how a process is kept from the network.
type isolation string

const (
	byNothing       isolation = ""
	byNamespace     isolation = "namespace"
	byUserNamespace isolation = "user and network namespace"
	byLandlock      isolation = "Landlock"
)

// guardConfig says what one driver may do.
type guardConfig struct {
	memoryMiB int  // 0: DefaultMemoryMiB
	offline   bool // it may not use the network
}

// guard holds the processes of one driver down: limits, no new privileges,
// memory and network. It is safe for concurrent use. It is not a sandbox: a
// driver reads and writes what its user may. Decision record 0018 says more.
type guard struct {
	log     *slog.Logger
	name    string
	config  guardConfig
	starter *starter

	mu      sync.Mutex // guards the fields below
	ready   bool       // the rest is found out
	closed  bool
	thread  *starter // which starts the processes
	network isolation
	group   *cgroup // nil: there is none
	noGroup error   // why
	limits  error   // why the limits were not set; nil: they were
}

func newGuard(name string, c guardConfig, s *starter, log *slog.Logger) *guard {
	if c.memoryMiB <= 0 {
		c.memoryMiB = DefaultMemoryMiB
	}
	return &guard{log: log, name: name, config: c, starter: s}
}

// start starts a process that is held down. The command's attributes are those
// of processAttributes; its environment is complete but for PATH and the memory
// limit, which an entry of the same name overrides.
func (g *guard) start(cmd *exec.Cmd) error {
	thread, err := g.prepare(cmd)
	if err != nil {
		return err
	}
	if err := thread.do(cmd.Start); err != nil {
		return err
	}
	g.started(cmd.Process.Pid)
	return nil
}

// prepare adds to a command what has to be there before it runs, and returns
// the thread that has to start it.
func (g *guard) prepare(cmd *exec.Cmd) (*starter, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, errors.New("its guard is closed")
	}
	g.findOut()
	cmd.Env = append(g.environment(), cmd.Env...) // the last one of a name counts
	g.network.apply(cmd.SysProcAttr)
	if g.group != nil {
		g.group.apply(cmd.SysProcAttr)
	}
	return g.thread, nil
}

// environment needs the lock.
func (g *guard) environment() []string {
	mib := g.config.memoryMiB
	if g.group != nil {
		mib -= mib / 10 // so that the collector works hard before the kernel kills
	}
	return []string{"PATH=" + driverPath, fmt.Sprintf("GOMEMLIMIT=%dMiB", mib)}
}

// findOut looks once for what this machine offers. It needs the lock.
func (g *guard) findOut() {
	if g.ready {
		return
	}
	g.ready, g.thread = true, g.starter
	if g.starter.setUp != nil {
		g.log.Warn("driver may gain privileges", "driver", g.name, "error", g.starter.setUp)
	}
	if g.config.offline {
		g.findIsolation()
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
	network, thread := g.starter.network()
	g.network = network
	if thread != nil {
		g.thread = thread
	}
	if network == byNothing {
		g.log.Warn("driver is to have no network, but "+noIsolation, "driver", g.name)
	}
}

// tryGroup asks the kernel whether processes can be born in the group. It needs the lock.
func (g *guard) tryGroup() error {
	attr := processAttributes()
	g.group.apply(attr)
	return g.thread.try(attr)
}

// started limits a process that was just started. The limits come a moment
// after its first instruction, because limits belong to a whole process and the
// host must not lower its own. What the process opens or forks within these
// microseconds escapes them; so does a driver that runs as root, which may
// raise them again.
func (g *guard) started(pid int) {
	err := limitProcess(pid)
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

// protection says in words what is in force. It is empty until the first start.
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
	if g.limits == nil {
		words = append(words, fmt.Sprintf("%d open files", maxOpenFiles), "no core dumps",
			fmt.Sprintf("files up to %d MiB", maxFileSize>>20))
	} else {
		words = append(words, fmt.Sprintf("open files, core dumps, file size: NOT limited: %v", g.limits))
	}
	return append(words, g.memoryWords(), g.networkWords())
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

// close ends what is left of the driver's processes, if they have a cgroup, and
// removes it. It may be called twice. No process can be started any more.
func (g *guard) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	if g.group == nil {
		return
	}
	if err := g.group.remove(); err != nil {
		g.log.Warn("cgroup of a driver not removed", "driver", g.name, "error", err)
	}
	g.group, g.noGroup = nil, errors.New("it is removed")
}
