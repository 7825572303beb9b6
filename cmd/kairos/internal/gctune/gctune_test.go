package gctune_test

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/gctune"
)

func TestCollectionsAreRareWhileTheProgramIsSmall(t *testing.T) {
	for mb, want := range map[uint64]int{0: 400, 5: 400, 12: 400, 13: 360, 20: 240, 30: 160, 40: 120, 48: 100, 400: 100} {
		if got := gctune.Percent(mb << 20); got != want {
			t.Errorf("Percent(%d MiB) = %d, want %d", mb, got, want)
		}
	}
}

// TestTheProgramFollowsWhatItUses: in this test too, the package has the collector.
func TestTheProgramFollowsWhatItUses(t *testing.T) {
	if gctune.Before != 100 {
		t.Skip("the environment has a GOGC")
	}
	await(t, gctune.Most)
	kept := make([][]byte, 64)
	for i := range kept {
		kept[i] = fmt.Appendf(nil, "%1048576d", i)
	}
	await(t, gctune.Least)
	runtime.KeepAlive(kept)
	clear(kept)
	await(t, gctune.Most)
}

// await collects garbage until the percentage is as wanted.
func await(t *testing.T, want int) {
	t.Helper()
	got := 0
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		runtime.GC()
		got = debug.SetGCPercent(0) // returns the present one
		debug.SetGCPercent(got)
		if got == want {
			return
		}
	}
	t.Fatalf("GOGC is %d, want %d", got, want)
}
