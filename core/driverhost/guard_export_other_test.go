//go:build unix && !linux

package driverhost

func (s *starter) findLandlockOnce() func() isolation { return s.findIsolation }
