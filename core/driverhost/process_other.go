//go:build unix && !linux

package driverhost

import (
	"os"
	"os/exec"
	"syscall"
)

// runBy executes the path: without /proc the file may be exchanged between
// hashing and starting, by anybody who may write to the folder.
func (b *binary) runBy(cmd *exec.Cmd) { cmd.Path = b.path }

// processAttributes put the child into its own process group. When the host
// dies, the closed lifeline ends the driver.
func processAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// waitFor reaps the process and calls ended right after.
func waitFor(cmd *exec.Cmd, ended func()) error {
	defer ended()
	return cmd.Wait()
}

// identityOf is not available here, so every start hashes the binary.
func identityOf(*os.File) (identity, bool) { return identity{}, false }

func residentBytes(int) int64 { return 0 }
