//go:build unix && !linux

package driverhost

import (
	"errors"
	"syscall"
)

var errNotHere = errors.New("only Linux has it")

func onMainThread() bool { return false }

func forbidPrivileges() error { return errNotHere }

func closeOnExec() {}

func limits(bool) map[int]uint64 { return nil }

// ProtectMemory does nothing here.
func (h *Host) ProtectMemory() {}

func (s *starter) try(*syscall.SysProcAttr) error { return errNotHere }

type cgroup struct{}

func openCgroup() (string, error) { return "", errNotHere }

func newCgroup(string, string, int) (*cgroup, error) { return nil, errNotHere }

func (c *cgroup) apply(*syscall.SysProcAttr) {}

func (c *cgroup) words(int) string { return "" }

func (c *cgroup) remove() error { return nil }
