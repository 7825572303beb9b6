// Package play has clients that run protocols against the real program, a ledger of
// what it acknowledged to them, and the check of that ledger against what it has
// stored. Tests that kill or disturb the program share it.
package play

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/e2e/programs"
)

// Main runs the tests of a package, with the folder of the programs in bin, and returns
// the exit code. When the test binary is started as a tool
// server, a proxy or a client, Main is that.
func Main(m *testing.M, bin *string) int {
	switch args := os.Args[1:]; {
	case len(args) == 2 && args[0] == counterArg:
		return fail(serveCounter(args[1]))
	case len(args) == 3 && args[0] == proxyArg:
		return fail(serveProxy(args[1], args[2]))
	case len(args) == 5 && args[0] == clientArg:
		return fail(serveClient(args[1], args[2], args[3], args[4]))
	}
	dir, isNew, err := programs.Find(context.Background())
	if err != nil {
		return fail(err)
	}
	if isNew {
		defer func() { _ = os.RemoveAll(dir) }() // temporary in any case
	}
	*bin = dir
	return m.Run()
}

// Pause waits for a while that is a part of the test, such as how long a fault lasts, or
// until the test ends.
func Pause(t *testing.T, d time.Duration) {
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
}

func fail(err error) int {
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}
