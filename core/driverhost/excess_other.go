//go:build unix && !linux

package driverhost

import "syscall"

const canWatch = false

func descendants(pid int, _ string) []int { return []int{pid} }

func kill(pid int) error { return syscall.Kill(pid, syscall.SIGKILL) }
