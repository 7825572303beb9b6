//go:build !linux

package sandbox

import (
	"os"
	"os/exec"
	"syscall"
)

// Nobody is the account under which a server that runs as root runs commands, unless
// its operator names another. Only Linux has bubblewrap.
const Nobody = 65534

func (s Sandbox) account() int { return os.Geteuid() }

func (s Sandbox) confine(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}

func inOwnThread(cmd *exec.Cmd) error { return cmd.Run() }

func owns(string) bool { return true }

func readOnly(string) bool { return false }
