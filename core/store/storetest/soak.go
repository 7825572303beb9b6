package storetest

import (
	"os"
	"testing"
)

// SoakEnv is an environment variable. Set to anything, it makes tests that repeat
// a random event repeat it as often as `make soak` wants.
const SoakEnv = "KAIROS_SOAK"

// Rounds is how often a test repeats something that happens at a random moment,
// such as a kill: a few times in a short test, 20 in a usual one, 200 in a soak.
func Rounds() int {
	switch {
	case os.Getenv(SoakEnv) != "":
		return 200
	case testing.Short():
		return 5
	}
	return 20
}
