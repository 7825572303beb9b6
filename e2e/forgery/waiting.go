package forgery

import "slices"

// missing is the driver that waiting waits for. Once it is shipped this file goes,
// and a test says so.
const missing = "command"

// waiting are attacks on commands that KAIROS runs itself, which are not played yet
// because they are about the driver that is missing.
var waiting = []string{
	"change the script after its approval",
	"change the workspace after its approval",
	"swap a file for a link",
	"edit the tests that judge",
	"edit an input that is not protected",
}

// Missing is the driver without which attacks are not played; empty: there is none.
func Missing() string { return missing }

// Waits reports whether an attack on a kind of record is not played yet.
func Waits(attack string, r Record) bool { return r == Observed && slices.Contains(waiting, attack) }
