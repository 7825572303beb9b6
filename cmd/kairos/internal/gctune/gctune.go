// Package gctune decides how often the garbage collector runs: rarely while the
// program is small, because hosts start servers only to probe them and collections
// of a heap that is all in use were a seventh of the start; and no less often than Go
// does once much is in use. It works by being imported: Go initialises packages that
// need nothing first, in the order of their paths.
package gctune

import (
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// The program allocates Most percent of what is in use until the next collection, but
// at most Headroom bytes, unless that is less than Least percent. A GOGC in the
// environment replaces this.
const (
	Most     = 400
	Least    = 100
	Headroom = 48 << 20
)

// Limit is the memory in bytes from which on collections are still more frequent,
// where the environment names no GOMEMLIMIT: large messages must not take several
// times what they need before the first collection after them. The resident memory
// stays below 512 MiB then, which holds more than the heap.
const Limit = 400 << 20

// Before is what the environment said; 100 is Go's own default.
var Before = tune()

func tune() int {
	if debug.SetMemoryLimit(-1) == math.MaxInt64 {
		debug.SetMemoryLimit(Limit)
	}
	before := debug.SetGCPercent(Most)
	if before != 100 {
		debug.SetGCPercent(before)
		return before
	}
	follow(&tuner{percent: Most, inUse: []metrics.Sample{
		{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"},
	}})
	return before
}

// tuner adapts the frequency to what the last collection has found.
type tuner struct {
	percent int
	inUse   []metrics.Sample // what GOGC is a percentage of
}

// follow adapts once after each collection.
func follow(t *tuner) {
	// Nothing refers to it, so that the next collection finds it. A smaller one would
	// share its memory with others that live longer.
	garbage := new([32]byte)
	runtime.AddCleanup(garbage, func(t *tuner) {
		t.adapt()
		follow(t)
	}, t)
}

func (t *tuner) adapt() {
	metrics.Read(t.inUse)
	var bytes uint64
	for _, part := range t.inUse {
		bytes += part.Value.Uint64()
	}
	if p := Percent(bytes); p != t.percent {
		t.percent = p
		debug.SetGCPercent(p)
	}
}

// Percent is the GOGC for a program that uses this many bytes. It has steps, because to
// change it stops the program for a moment.
func Percent(inUse uint64) int {
	const step = 20
	exact := Headroom * 100 / max(inUse, 1)
	return int(min(max(exact/step*step, Least), Most))
}
