package driverhost

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// hostGroup is the group that the host moves itself into: a group that gives
	// limits to others may not have processes of its own.
	hostGroup   = "kairos-host"
	groupPrefix = "kairos-driver-"

	groupEnd = time.Second // how long a group may take to be empty
)

// cgroupTree is where cgroups are looked for. The zero value is this machine.
type cgroupTree struct {
	root   string                // of the file system; for tests
	pid    int                   // of the host
	marked func(dir string) bool // whether systemd has delegated a group
}

// cgroupPlan says how the host comes to groups with limits.
type cgroupPlan struct {
	base   string // where the groups are made
	leave  string // the group that the host has to move to before; empty: it need not
	enable bool   // the controllers have to be switched on for the groups in base
}

// openCgroup prepares the place for the groups of this host's drivers.
func openCgroup() (string, error) {
	t := cgroupTree{root: "/", pid: os.Getpid(), marked: delegatedBySystemd}
	plan, err := t.plan()
	if err != nil {
		return "", err
	}
	if err := plan.carryOut(t.pid); err != nil {
		return "", err
	}
	sweepGroups(plan.base)
	return plan.base, nil
}

// plan decides by looking only. A group is used if it was delegated to this
// process: systemd has marked it (or its parent, for DelegateSubgroup=), or it
// is the root of what a container can see.
func (t cgroupTree) plan() (cgroupPlan, error) {
	mount, own, err := t.own()
	if err != nil {
		return cgroupPlan{}, err
	}
	dir := filepath.Join(mount, own)
	top := dir
	switch {
	case own == "/", t.marked(dir):
	case t.marked(filepath.Dir(dir)):
		top = filepath.Dir(dir)
	default:
		return cgroupPlan{}, errors.New("none is delegated to this process; for systemd that is Delegate=yes")
	}
	if !slices.Contains(fieldsOf(top, "cgroup.controllers"), "memory") {
		return cgroupPlan{}, errors.New("its group has no memory controller of version 2")
	}
	if !writable(top) || !writableFile(top, "cgroup.procs") || !writableFile(top, "cgroup.subtree_control") {
		return cgroupPlan{}, errors.New("its group is not writable for this process")
	}
	return t.planIn(top)
}

// planIn decides what has to be done for groups below top.
func (t cgroupTree) planIn(top string) (cgroupPlan, error) {
	if slices.Contains(fieldsOf(top, "cgroup.subtree_control"), "memory") {
		return cgroupPlan{base: top}, nil
	}
	p := cgroupPlan{base: top, enable: true}
	switch procs := fieldsOf(top, "cgroup.procs"); {
	case len(procs) == 0:
		return p, nil
	case len(procs) == 1 && procs[0] == strconv.Itoa(t.pid):
		p.leave = filepath.Join(top, hostGroup)
		return p, nil
	default:
		return cgroupPlan{}, errors.New("other processes are in its group")
	}
}

// own returns where cgroups of version 2 are mounted and which one is ours, as
// seen from there.
func (t cgroupTree) own() (mount, path string, err error) {
	none := errors.New("version 2 is not mounted")
	mounts, err := os.ReadFile(filepath.Join(t.root, "proc/self/mountinfo"))
	if err != nil {
		return "", "", none
	}
	var seen string // the group that is the root of the mount
	for line := range strings.Lines(string(mounts)) {
		before, after, _ := strings.Cut(line, " - ")
		fields := strings.Fields(before)
		if len(fields) >= 5 && strings.HasPrefix(after, "cgroup2 ") {
			seen, mount = fields[3], fields[4]
			break
		}
	}
	groups, err := os.ReadFile(filepath.Join(t.root, "proc/self/cgroup"))
	if err != nil || mount == "" {
		return "", "", none
	}
	for line := range strings.Lines(string(groups)) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			rel, inside := strings.CutPrefix(path, strings.TrimSuffix(seen, "/"))
			if !inside || strings.HasPrefix(path, "/..") {
				return "", "", errors.New("its group is outside of what is mounted")
			}
			return filepath.Join(t.root, mount), "/" + strings.TrimPrefix(rel, "/"), nil
		}
	}
	return "", "", none
}

func fieldsOf(dir, file string) []string {
	b, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return nil
	}
	return strings.Fields(string(b))
}

func writableFile(dir, file string) bool {
	return unix.Access(filepath.Join(dir, file), unix.W_OK) == nil
}

// delegatedBySystemd reads the mark that systemd puts on a delegated group.
func delegatedBySystemd(dir string) bool {
	for _, name := range []string{"user.delegate", "trusted.delegate"} {
		value := make([]byte, 8)
		if n, err := unix.Getxattr(dir, name, value); err == nil && string(value[:n]) == "1" {
			return true
		}
	}
	return false
}

func (p cgroupPlan) carryOut(pid int) error {
	if p.leave != "" {
		if err := os.Mkdir(p.leave, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("make a group for the host: %w", err)
		}
		if err := setGroup(p.leave, "cgroup.procs", strconv.Itoa(pid)); err != nil {
			return err
		}
	}
	if !p.enable {
		return nil
	}
	_ = setGroup(p.base, "cgroup.subtree_control", "+pids") // not every container has it
	return setGroup(p.base, "cgroup.subtree_control", "+memory")
}

func setGroup(dir, file, value string) error {
	if err := os.WriteFile(filepath.Join(dir, file), []byte(value), 0); err != nil {
		return fmt.Errorf("set a group's limit: %w", err)
	}
	return nil
}

// sweepGroups removes what hosts that were killed have left behind.
func sweepGroups(base string) {
	left, _ := filepath.Glob(filepath.Join(base, groupPrefix+"*"))
	for _, dir := range left {
		rest := strings.TrimPrefix(filepath.Base(dir), groupPrefix)
		number, _, _ := strings.Cut(rest, "-")
		if pid, err := strconv.Atoi(number); err == nil && errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
			_ = (&cgroup{dir: dir}).remove() // best effort
		}
	}
}

// cgroup is the group of one driver's processes.
type cgroup struct {
	dir      string
	open     *os.File
	counting bool // the number of processes is limited, too
}

var groupNumber atomic.Int64

// newCgroup makes a group with limits.
func newCgroup(base, name string, memoryMiB int) (*cgroup, error) {
	dir := filepath.Join(base, fmt.Sprintf("%s%d-%d-%s", groupPrefix, os.Getpid(), groupNumber.Add(1), name))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make a group: %w", err)
	}
	c := &cgroup{dir: dir}
	err := setGroup(dir, "memory.max", strconv.Itoa(memoryMiB<<20))
	if err == nil {
		c.open, err = os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY, 0)
	}
	if err != nil {
		return nil, errors.Join(err, c.remove())
	}
	c.counting = setGroup(dir, "pids.max", strconv.Itoa(maxProcesses)) == nil
	// Not every kernel has them: no way round by swap; all or none of it is killed.
	_ = setGroup(dir, "memory.swap.max", "0")
	_ = setGroup(dir, "memory.oom.group", "1")
	return c, nil
}

// words say what the group limits.
func (c *cgroup) words(memoryMiB int) string {
	if !c.counting {
		return fmt.Sprintf("memory: cgroup %d MiB", memoryMiB)
	}
	return fmt.Sprintf("memory: cgroup %d MiB, %d processes", memoryMiB, maxProcesses)
}

// apply lets a process be born in the group.
func (c *cgroup) apply(attr *syscall.SysProcAttr) {
	attr.UseCgroupFD = true
	attr.CgroupFD = int(c.open.Fd())
}

// remove ends whatever lives in the group, also what has left its process
// group, and removes it. It waits a bounded time.
func (c *cgroup) remove() error {
	if c.open != nil {
		_ = c.open.Close()
	}
	_ = setGroup(c.dir, "cgroup.kill", "1") // kernels before 5.14 have none
	deadline := time.Now().Add(groupEnd)
	for {
		err := unix.Rmdir(c.dir)
		if err == nil || errors.Is(err, unix.ENOENT) {
			return nil
		}
		if !errors.Is(err, unix.EBUSY) || time.Now().After(deadline) {
			return fmt.Errorf("remove the group %s: %w", c.dir, err)
		}
		time.Sleep(time.Millisecond) // the kernel says nothing when a group is empty of the dead
	}
}
