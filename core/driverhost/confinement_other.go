//go:build unix && !linux

package driverhost

import "os/exec"

func (c *confinement) tryThread(*starter) error { return errNotHere }

func (c *confinement) tryLauncher(*starter) error { return errNotHere }

func tryLandlock() error { return errNotHere }

func (g *guard) confine(*exec.Cmd, []string) (*starter, func() error, error) {
	return g.starter, func() error { return nil }, g.confined.refused
}

// ProtectMemory does nothing here.
func (h *Host) ProtectMemory() {}
