package driverhost

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"github.com/kairos-mcp/kairos/core/driverhost/sandbox"
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
	byNothing   isolation = ""
	byNamespace isolation = "a network namespace"
	byLandlock  isolation = "Landlock"
)

// guardConfig lists the permissions of one driver.
type guardConfig struct {
	memoryMiB int  // 0: DefaultMemoryMiB
	offline   bool // it may not use the network
	launcher  bool // it isolates what it starts, for which it needs capabilities and no Landlock
	brief     bool // it runs once and gets no cgroup
	use            // besides the system's files
}

// guard isolates the processes of one driver: limits, no new privileges,
// memory, network and files. It is safe for concurrent use.
type guard struct {
	log         *slog.Logger
	name        string
	config      guardConfig
	starter     *starter
	confinement *confinement
	exceeded    func(error) // is called with the reason if a process was ended for its memory; may be nil

	mu       sync.Mutex // guards the fields below
	ready    bool       // the rest is set
	closed   bool
	network  isolation
	confined confined
	temp     string  // its folder for temporary files; empty before it is made
	group    *cgroup // nil without one
	noGroup  error   // why
	owners   map[int]string
	watched  map[int]*excess // by process number
}

func newGuard(name string, c guardConfig, s *starter, hide *confinement, log *slog.Logger) *guard {
	if c.memoryMiB <= 0 {
		c.memoryMiB = DefaultMemoryMiB
	}
	return &guard{log: log, name: name, config: c, starter: s, confinement: hide, owners: map[int]string{}, watched: map[int]*excess{}}
}

// start starts an isolated process, which may change the folders of its own. The
// command's attributes are those of processAttributes; its environment is
// complete but for PATH, the memory limit and the folder for temporary files.
func (g *guard) start(cmd *exec.Cmd, own ...string) error {
	launch, err := g.prepare(cmd, own)
	if err != nil {
		return err
	}
	owner := newOwner()
	cmd.Env = append(cmd.Env, ownerEnv+"="+owner)
	if err := launch.Start(cmd, func() error { return g.starter.do(cmd.Start) }); err != nil {
		endOrphans(owner)
		return err
	}
	g.mu.Lock()
	g.owners[cmd.Process.Pid] = owner
	g.watched[cmd.Process.Pid] = g.watchExcess(cmd.Process.Pid, owner)
	g.mu.Unlock()
	return nil
}

// ended ends processes that a process of the driver has left outside of its process
// group. The process itself has ended and is reaped. It returns why the guard has ended
// it; nil: it has not.
func (g *guard) ended(pid int) error {
	g.mu.Lock()
	owner, watched := g.owners[pid], g.watched[pid]
	delete(g.owners, pid)
	delete(g.watched, pid)
	g.mu.Unlock()
	endOrphans(owner)
	return watched.end()
}

// prepare completes a command and says how it is launched.
func (g *guard) prepare(cmd *exec.Cmd, own []string) (sandbox.Launch, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	launch, err := g.launch(cmd.Env, own)
	if err != nil {
		return launch, err
	}
	cmd.Env = append(g.environment(), cmd.Env...) // the last one of a name counts
	if temp := launch.TempSeen(); temp != "" {
		cmd.Env = append(cmd.Env, "TMPDIR="+temp)
	}
	if g.group != nil {
		g.group.apply(cmd.SysProcAttr)
	}
	return launch, nil
}

// launch says how a process is started with the environment and with folders of its
// own. It needs the lock.
func (g *guard) launch(env, own []string) (sandbox.Launch, error) {
	if g.closed {
		return sandbox.Launch{}, errors.New("its guard is closed")
	}
	g.findOut()
	level := g.level()
	launch := sandbox.Launch{
		Namespaces: level == LevelNamespace, Landlock: g.confined.landlock && !g.config.launcher,
		NoNetwork: g.network == byNamespace, NoTCP: g.network == byLandlock,
		Capabilities: g.config.launcher, Limits: limits(g.config.launcher),
	}
	if g.confined.refused != nil || level == LevelNone {
		return launch, g.confined.refused
	}
	if err := g.makeTemp(); err != nil {
		return launch, err
	}
	var err error
	if launch.View, err = g.confinement.view(g.config.use, level); err != nil {
		return launch, err
	}
	launch.View.Own, launch.View.Temp = own, g.temp
	for _, entry := range env {
		if home, ok := strings.CutPrefix(entry, "HOME="); ok && filepath.IsAbs(home) && !sandbox.OfSystem(home) && !sandbox.In(home, os.TempDir()) {
			launch.View.Home = filepath.Clean(home)
		}
	}
	return launch, nil
}

// makeTemp makes the folder for temporary files, and in it the private home folder. Other accounts that a driver uses may write to it; only the driver sees it. It
// needs the lock.
func (g *guard) makeTemp() error {
	if g.temp != "" {
		return nil
	}
	base, err := g.confinement.temps.make()
	if err != nil {
		return err
	}
	temp, err := os.MkdirTemp(base, "t")
	if err != nil {
		return fmt.Errorf("make a folder for temporary files: %w", err)
	}
	g.temp = temp
	err = errors.Join(os.Chmod(temp, os.ModeSticky|0o777), os.Mkdir(filepath.Join(temp, "home"), 0o700)) //nolint:gosec // in a private folder
	if err != nil {
		return fmt.Errorf("make a folder for temporary files: %w", err)
	}
	return nil
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

// findNetwork asks how this machine can keep a process from the network, best first.
func (s *starter) findNetwork() isolation {
	for _, offer := range []struct {
		isolation
		try sandbox.Launch
	}{{byNamespace, sandbox.Launch{NoNetwork: true}}, {byLandlock, sandbox.Launch{NoTCP: true}}} {
		if _, err := s.visible(offer.try, nil); err == nil {
			return offer.isolation
		}
	}
	return byNothing
}

const noIsolation = "this machine offers neither network namespaces nor Landlock rules for it"

// protection describes the isolation and limits in force. It is empty until the first
// start.
func (g *guard) protection() []string {
	g.mu.Lock()
	ready := g.ready && !g.closed
	g.mu.Unlock()
	if !ready {
		return nil
	}
	files := g.fileWords()
	g.mu.Lock()
	defer g.mu.Unlock()
	var words []string
	if g.starter.setUp == nil {
		words = append(words, "no new privileges")
	} else {
		words = append(words, fmt.Sprintf("privileges: NOT restricted: %v", g.starter.setUp))
	}
	switch {
	case len(limits(g.config.launcher)) == 0:
		words = append(words, "open files, core dumps, file size: NOT limited: only Linux can")
	case g.config.launcher:
		words = append(words, "no core dumps")
	default:
		words = append(words, fmt.Sprintf("%d open files", maxOpenFiles), "no core dumps",
			fmt.Sprintf("files up to %d MiB", maxFileSize>>20))
	}
	if g.level() == LevelNamespace {
		words = append(words, "processes: it sees and signals its own only")
	}
	return append(words, g.memoryWords(), g.networkWords(), files)
}

// level is the isolation in force. It needs the lock, and findOut before.
func (g *guard) level() Level {
	return g.confined.of(g.config.launcher)
}

// fileWords says what a process finds that is started now as those of the driver are.
func (g *guard) fileWords() string {
	switch {
	case g.level() != LevelNone:
		words, err := g.describeView()
		if err != nil {
			return "files: NOT known: " + reason(err)
		}
		return "files: " + words
	case g.confined.level == LevelLandlock:
		return "files: NOT restricted: it isolates what it starts itself, which Landlock would prevent"
	}
	return "files: NOT restricted: " + cmp.Or(reason(g.confined.why), "drivers.isolation is none")
}

// memoryWords needs the lock.
func (g *guard) memoryWords() string {
	if g.group != nil {
		return g.group.words(g.config.memoryMiB)
	}
	if canWatch {
		return fmt.Sprintf("memory: %d MiB, looked at every %s, so that more may be used for a moment (no cgroup: %v)",
			g.config.memoryMiB, excessEvery, g.noGroup)
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
	if g.temp != "" {
		defer g.removeTemp()
	}
	if g.group == nil {
		return
	}
	if err := g.group.remove(); err != nil {
		g.log.Warn("cgroup of a driver not removed", "driver", g.name, "error", err)
	}
	g.group, g.noGroup = nil, errors.New("it is removed")
}

// removeTemp needs the lock.
func (g *guard) removeTemp() {
	if err := os.RemoveAll(g.temp); err != nil {
		g.log.Warn("folder for temporary files of a driver not removed", "driver", g.name, "error", err)
	}
	g.temp = ""
}
