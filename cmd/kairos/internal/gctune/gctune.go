// Package gctune makes the garbage collector rarer from the first moment on.
// Hosts start servers only to probe them, and collections of a heap that is all
// in use were a seventh of the start. It works by being imported: Go initialises
// packages that need nothing first, in the order of their paths.
package gctune

import (
	"math"
	"runtime/debug"
)

// Percent is the GOGC of this program where the environment names none: about
// 30 MB more memory for 5 ms less start and fewer pauses.
const Percent = 400

// Limit is the memory in bytes from which on collections are as frequent as
// ever, where the environment names none (GOMEMLIMIT): large messages must not
// make five times as much of what they need.
const Limit = 512 << 20

// Before is what the environment said; 100 is Go's own default.
var Before = tune()

func tune() int {
	before := debug.SetGCPercent(Percent)
	if before != 100 {
		debug.SetGCPercent(before)
	}
	if debug.SetMemoryLimit(-1) == math.MaxInt64 {
		debug.SetMemoryLimit(Limit)
	}
	return before
}
