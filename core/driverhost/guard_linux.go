package driverhost

import (
	"errors"
	"fmt"
	"math"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/kairos-mcp/kairos/core/driverhost/sandbox"
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

// closeOnExec keeps drivers from inheriting files that this process itself has
// inherited; what it opens has the flag anyway. Kernels before 5.11 lack the call.
func closeOnExec() {
	const afterStreams = 3
	_ = unix.CloseRange(afterStreams, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
}

// limitProcess sets the limits of a running process. The programs of a launcher may need
// more files, and larger ones: it limits that itself.
func limitProcess(pid int, launcher bool) error {
	for _, l := range []struct {
		name     string
		resource int
		max      uint64
	}{
		{"open files", unix.RLIMIT_NOFILE, maxOpenFiles},
		{"core dumps", unix.RLIMIT_CORE, 0},
		{"file size", unix.RLIMIT_FSIZE, maxFileSize},
	} {
		if launcher && l.max > 0 {
			continue
		}
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
		// A user who may not make a network namespace may in a user namespace.
		sandbox.InUserNamespace(attr, unix.CLONE_NEWNET)
	}
}

// findIsolation asks the kernel, best first, how it can keep a process from the network.
func (s *starter) findIsolation() isolation {
	for _, i := range []isolation{byNamespace, byUserNamespace} {
		attr := processAttributes()
		i.apply(attr)
		if s.try(attr) == nil {
			return i
		}
	}
	return s.findLandlock()
}

func (s *starter) findLandlock() isolation {
	if _, err := s.thread(traits{noTCP: true}); err != nil {
		return byNothing
	}
	return byLandlock
}

// setUp gives the calling thread its traits.
func (t traits) setUp() error {
	if err := forbidPrivileges(); err != nil {
		return err
	}
	if t.hidden {
		if err := sandbox.EnterNamespace(); err != nil {
			return err
		}
	}
	if t.bounded {
		if err := sandbox.DropCapabilities(); err != nil {
			return err
		}
	}
	if t.noTCP {
		return sandbox.DenyTCP()
	}
	return nil
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
