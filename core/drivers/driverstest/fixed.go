// Package driverstest helps tests of packages that drive runs.
package driverstest

import "github.com/kairos-mcp/kairos/core/drivers"

// Fixed is a setup that never changes.
type Fixed drivers.Setup

// Hold implements drivers.Setups.
func (f Fixed) Hold() (drivers.Setup, func()) { return drivers.Setup(f), func() {} }
