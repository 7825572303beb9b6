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

func limitProcess(int, bool) error { return errNotHere }

func (i isolation) apply(*syscall.SysProcAttr) {}

func (s *starter) findIsolation() isolation { return byNothing }

func (s *starter) findLandlock() isolation { return byNothing }

func (t traits) setUp() error { return errNotHere }

func (s *starter) try(*syscall.SysProcAttr) error { return errNotHere }

type cgroup struct{}

func openCgroup() (string, error) { return "", errNotHere }

func newCgroup(string, string, int) (*cgroup, error) { return nil, errNotHere }

func (c *cgroup) apply(*syscall.SysProcAttr) {}

func (c *cgroup) words(int) string { return "" }

func (c *cgroup) remove() error { return nil }
