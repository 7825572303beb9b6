package driverhost

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

func onMainThread() bool { return unix.Gettid() == unix.Getpid() }

// forbidPrivileges keeps the calling thread, and every process that it starts,
// from gaining privileges by executing anything (setuid, file capabilities).
func forbidPrivileges() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("forbid new privileges: %w", err)
	}
	return nil
}

// limitProcess sets the limits of a running process.
func limitProcess(pid int) error {
	for _, l := range []struct {
		name     string
		resource int
		max      uint64
	}{
		{"open files", unix.RLIMIT_NOFILE, maxOpenFiles},
		{"core dumps", unix.RLIMIT_CORE, 0},
		{"file size", unix.RLIMIT_FSIZE, maxFileSize},
	} {
		var now unix.Rlimit
		if err := unix.Prlimit(pid, l.resource, nil, &now); err != nil {
			return fmt.Errorf("read the limit of %s: %w", l.name, err)
		}
		limit := &unix.Rlimit{Cur: min(l.max, now.Max), Max: min(l.max, now.Max)} // never raise it
		if err := unix.Prlimit(pid, l.resource, limit, nil); err != nil {
			return fmt.Errorf("limit %s: %w", l.name, err)
		}
	}
	return nil
}

// apply lets a process be born where there is no network. Landlock is not among
// the attributes of a process: it comes with the thread that starts it.
func (i isolation) apply(attr *syscall.SysProcAttr) {
	switch i {
	case byNamespace:
		attr.Cloneflags |= unix.CLONE_NEWNET
	case byUserNamespace:
		// Who may not make a network namespace may in a user namespace of its own,
		// in which it stays who it is.
		attr.Cloneflags |= unix.CLONE_NEWNET | unix.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
	}
}

// findIsolation asks the kernel, best first, how it can keep a process from the
// network. The thread is not nil if only that one's processes are kept from it.
func (s *starter) findIsolation() (isolation, *starter) {
	for _, i := range []isolation{byNamespace, byUserNamespace} {
		attr := processAttributes()
		i.apply(attr)
		if s.try(attr) == nil {
			return i, nil
		}
	}
	return s.findLandlock()
}

func (s *starter) findLandlock() (isolation, *starter) {
	thread := startThread(func() error { return errors.Join(forbidPrivileges(), denyTCP()) })
	if thread.setUp != nil {
		thread.close()
		return byNothing, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.offline = thread
	return byLandlock, thread
}

// landlockForTCP is the first version of Landlock that knows TCP.
const landlockForTCP = 4

// denyTCP keeps the calling thread, and every process that it starts, from
// connecting to and listening on any TCP port.
func denyTCP() error {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return fmt.Errorf("ask for Landlock: %w", errno)
	}
	if version < landlockForTCP {
		return fmt.Errorf("version %d of Landlock does not know TCP", version)
	}
	attr := struct{ files, network uint64 }{
		network: unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP,
	}
	rules, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET,
		uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if errno != 0 {
		return fmt.Errorf("make Landlock rules: %w", errno)
	}
	_, _, errno = unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, rules, 0, 0)
	err := unix.Close(int(rules))
	if errno != 0 {
		return errors.Join(fmt.Errorf("apply Landlock rules: %w", errno), err)
	}
	return err
}

// try reports whether a process can be started with the attributes. It executes
// a program that is not there: that is the last step and the only one that fails.
func (s *starter) try(attr *syscall.SysProcAttr) error {
	err := s.do(func() error {
		_, err := syscall.ForkExec("/proc/self/no-such-program", []string{"probe"}, &syscall.ProcAttr{Env: []string{}, Sys: attr})
		return err
	})
	if errors.Is(err, syscall.ENOENT) {
		return nil
	}
	return fmt.Errorf("start a process: %w", err)
}
