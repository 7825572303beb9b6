package driverhost

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

const canWatch = true

// mostDescendants bounds how many processes are looked at.
const mostDescendants = 4 * maxProcesses

// descendants is a process and everything below it, with the orphans that have the mark.
func descendants(pid int, owner string) []int {
	all := []int{pid}
	for _, orphan := range orphans() {
		if ownerOf(orphan) == owner {
			all = append(all, orphan)
		}
	}
	for i := 0; i < len(all) && len(all) < mostDescendants; i++ {
		lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", all[i]))
		if err != nil {
			continue // only a malformed pattern is an error
		}
		for _, list := range lists {
			children, err := os.ReadFile(list)
			if err != nil {
				continue // the thread has ended
			}
			for _, word := range strings.Fields(string(children)) {
				if child, err := strconv.Atoi(word); err == nil {
					all = append(all, child)
				}
			}
		}
	}
	return all
}

func kill(pid int) error { return syscall.Kill(pid, syscall.SIGKILL) }
