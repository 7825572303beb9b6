// Package play has clients that run protocols against the real program, a ledger of
// what it acknowledged to them, and the check of that ledger against what it has
// stored. Tests that kill or disturb the program share it.
package play

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/kairos-mcp/kairos/e2e/programs"
)

// Main runs the tests of a package, with the folder of the programs in bin, and returns
// the exit code. When the server starts the test binary as a tool server, Main is that.
func Main(m *testing.M, bin *string) int {
	if len(os.Args) == 3 && os.Args[1] == counterArg {
		return fail(serveCounter(os.Args[2]))
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

func fail(err error) int {
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}
