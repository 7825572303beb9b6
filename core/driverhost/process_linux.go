package driverhost

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// childFile is the number that the open binary has in the child.
const childFile = "/proc/self/fd/3"

// runBy makes the command execute the open file. The file travels as the first
// extra file: its own number could be overwritten while the child is set up.
func (b *binary) runBy(cmd *exec.Cmd) {
	cmd.Path = childFile
	cmd.ExtraFiles = []*os.File{b.file}
}

// processAttributes put the child into its own session and process group, so that it
// can be ended with all its children and has no terminal, into which it could type for
// the person (TIOCSTI), and let the kernel end it with its parent.
// The signal comes when the forking thread ends: see starter.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

// waitFor reaps the process. It calls ended when the process has ended but is
// not reaped yet, so that its number still is its own.
func waitFor(cmd *exec.Cmd, ended func()) error {
	for {
		err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			break
		}
	}
	ended()
	return cmd.Wait()
}

// identityOf reads the file system's record of the open file.
func identityOf(file *os.File) (identity, bool) {
	var st unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &st); err != nil {
		return identity{}, false
	}
	return identity{
		Device: st.Dev, Inode: st.Ino, Size: st.Size,
		Modified: st.Mtim.Nano(), Changed: st.Ctim.Nano(),
	}, true
}

// residentBytes is the resident memory of the process, or 0 if it is not known.
func residentBytes(pid int) int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil || pid == 0 {
		return 0
	}
	var total, resident int64
	if _, err := fmt.Sscan(string(b), &total, &resident); err != nil {
		return 0
	}
	return resident * int64(os.Getpagesize())
}
