package driverhost

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A process that leaves its driver's process group with setsid becomes a child
// of init when its parent ends. As subreaper this process gets it instead, and
// ends it together with the driver.

// ownerEnv marks the processes of one driver process.
const ownerEnv = "KAIROS_DRIVER_PROCESS"

// owners are the marks of the driver processes that run. It belongs to the
// process and not to a host, because all hosts adopt the same orphans.
var owners sync.Map

// adoptOrphans makes this process the subreaper of everything below it.
func adoptOrphans() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) } // the kernel has it since 3.4

// newOwner returns the mark of a driver process that is about to start.
func newOwner() string {
	owner := rand.Text()
	owners.Store(owner, nil)
	for _, pid := range orphans() { // reap those that have ended
		_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
	}
	return owner
}

// endOrphans ends the orphans of a driver process that has ended, and those
// without the mark of one that runs: they have removed theirs. A child of an orphan
// becomes an orphan in turn. It waits a bounded time.
func endOrphans(owner string) {
	owners.Delete(owner)
	deadline := time.Now().Add(groupEnd)
	for time.Now().Before(deadline) {
		left := 0
		for _, pid := range orphans() {
			if _, runs := owners.Load(ownerOf(pid)); runs {
				continue
			}
			left++
			_ = unix.Kill(pid, unix.SIGKILL)
			_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
		}
		if left == 0 {
			return
		}
		time.Sleep(time.Millisecond) // the kernel ends a killed process a moment later
	}
}

// orphans lists the processes below drivers that this one has adopted. They
// are children of its main thread, which starts no driver.
func orphans() []int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/children", os.Getpid()))
	if err != nil {
		return nil // a kernel without this file
	}
	var out []int
	for _, field := range bytes.Fields(b) {
		if pid, err := strconv.Atoi(string(field)); err == nil && belowDriver(pid) {
			out = append(out, pid)
		}
	}
	return out
}

// belowDriver tells an orphan from a process that this program has started by
// other means: nothing below a driver can get rid of no_new_privs. Where this
// program has it as well, its own children are in its process group.
func belowDriver(pid int) bool {
	if !noNewPrivileges("self") {
		return noNewPrivileges(strconv.Itoa(pid))
	}
	group, err := unix.Getpgid(pid)
	return err == nil && group != unix.Getpgrp()
}

func noNewPrivileges(pid string) bool {
	b, err := os.ReadFile("/proc/" + pid + "/status")
	return err == nil && bytes.Contains(b, []byte("\nNoNewPrivs:\t1"))
}

// ownerOf returns the mark of a process, or "" if it has none or hides it.
func ownerOf(pid int) string {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	for entry := range bytes.SplitSeq(b, []byte{0}) {
		if mark, ok := strings.CutPrefix(string(entry), ownerEnv+"="); ok {
			return mark
		}
	}
	return ""
}
