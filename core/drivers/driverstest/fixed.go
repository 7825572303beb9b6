// Package driverstest helps tests of packages that drive runs.
package driverstest

import "github.com/kairos-mcp/kairos/core/drivers"

// Fixed is a setup that never changes.
type Fixed drivers.Setup

// Hold implements drivers.Setups.
func (f Fixed) Hold() (drivers.Setup, func()) { return drivers.Setup(f), func() {} }

// ThreeSteps is a protocol of two steps for the shell and a comment.
const ThreeSteps = "# Three Steps\n\n## First\n\nbody one\n\n```json\n{\"challenge\":{\"type\":\"shell\",\"shell\":{\"cmd\":\"a\"}}}\n```\n" +
	"\n## Second\n\nbody two\n\n```json\n{\"challenge\":{\"type\":\"shell\",\"shell\":{\"cmd\":\"b\"}}}\n```\n" +
	"\n## Third\n\nbody three\n\n```json\n{\"challenge\":{\"type\":\"comment\",\"comment\":{}}}\n```\n"
