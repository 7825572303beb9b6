package driverhost

import (
	"errors"
	"fmt"
	"math"
	"os"
	"syscall"

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

// closeOnExec keeps drivers from inheriting files that this process itself has
// inherited; what it opens has the flag anyway. Kernels before 5.11 lack the call.
func closeOnExec() {
	const afterStreams = 3
	_ = unix.CloseRange(afterStreams, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
}

// limits of a driver process. The programs of a launcher may need more files, and
// larger ones: it limits that itself.
func limits(launcher bool) map[int]uint64 {
	if launcher {
		return map[int]uint64{unix.RLIMIT_CORE: 0}
	}
	return map[int]uint64{unix.RLIMIT_CORE: 0, unix.RLIMIT_NOFILE: maxOpenFiles, unix.RLIMIT_FSIZE: maxFileSize}
}

// ProtectMemory keeps other processes of this user from reading the memory and
// the environment of this one, unless this user has to start drivers in user
// namespaces: the kernel lets no process make one that is not dumpable.
func (h *Host) ProtectMemory() {
	if os.Geteuid() != 0 && (h.confinement.find().level == LevelNamespace || h.starter.network() == byNamespace) {
		return // drivers are in another user namespace, from where they cannot read it
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		h.log.Warn("this process stays readable for others of its user", "error", err)
	}
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
