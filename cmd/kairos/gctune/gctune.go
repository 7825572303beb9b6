// Package gctune makes the garbage collector rarer from the first moment on.
// Hosts start servers only to probe them, and collections of a heap that is all
// in use were a seventh of the start. It works by being imported: Go initialises
// packages that need nothing first, in the order of their paths.
package gctune

import "runtime/debug"

// Percent is the GOGC of this program where the environment names none: about
// 30 MB more memory for 5 ms less start and fewer pauses.
const Percent = 400

// Before is what the environment said; 100 is Go's own default.
var Before = tune()

func tune() int {
	before := debug.SetGCPercent(Percent)
	if before != 100 {
		debug.SetGCPercent(before)
	}
	return before
}
