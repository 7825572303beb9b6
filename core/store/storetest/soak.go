package storetest

import (
	"os"
	"testing"
)

// SoakEnv is an environment variable. If it is set, tests that repeat a random
// event repeat it as often as `make soak` requires.
const SoakEnv = "KAIROS_SOAK"

// Rounds is how often a test repeats an event at a random moment, such as a kill:
// a few times in a short test, 20 normally, 200 in a soak.
func Rounds() int {
	switch {
	case os.Getenv(SoakEnv) != "":
		return 200
	case testing.Short():
		return 5
	}
	return 20
}
