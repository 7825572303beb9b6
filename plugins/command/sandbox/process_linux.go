package sandbox

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// Nobody is the account under which a server that runs as root runs commands, unless
// its operator names another.
const Nobody = 65534

// account is that of the command.
func (s Sandbox) account() int {
	switch {
	case os.Geteuid() != 0 || len(s.Wrapper) > 0:
		return os.Geteuid()
	case s.UID > 0:
		return s.UID
	}
	return Nobody
}

// confine sets the account, and makes the end of the program that of everything
// that it started.
func (s Sandbox) confine(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if uid := s.account(); uid != os.Geteuid() {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)} //nolint:gosec // ids are small
	}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}

// inOwnThread starts the command and waits for it. The thread has a keyring of its
// own, so that the command gets none of the server's keys, and lives as long as the
// command, which ends with it.
func inOwnThread(cmd *exec.Cmd) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlock: the thread ends with the goroutine
		_, _ = unix.KeyctlJoinSessionKeyring("")
		err := cmd.Start()
		if err == nil {
			err = cmd.Wait()
		}
		done <- err
	}()
	return <-done
}

// readOnly reports whether nothing in a folder can be replaced, by anybody.
func readOnly(folder string) bool {
	var fs unix.Statfs_t
	return unix.Statfs(folder, &fs) == nil && fs.Flags&unix.ST_RDONLY != 0
}

// owns reports whether a file is this account's, also where its owner is not shown:
// only the owner may read without leaving a time.
func owns(path string) bool {
	f, err := os.OpenFile(path, unix.O_RDONLY|unix.O_NOATIME|unix.O_CLOEXEC, 0)
	if err != nil {
		return !errors.Is(err, unix.EPERM)
	}
	_ = f.Close() // it was only opened
	return true
}
