package setup_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/core/driverhost/sandbox"
	"github.com/kairos-mcp/kairos/core/setup"
)

// watch watches until the test ends.
func (r *rig) watch() {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Watch(ctx) }()
	r.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			r.t.Errorf("Watch: %v", err)
		}
	})
}

func TestWatchTakesWhatChanges(t *testing.T) {
	r := newRig(t)
	r.watch()
	r.install("staged", traits{Version: "2.0.0"})
	r.lock()
	eventually(t, "version 2.0.0", func() bool { return r.version() == "2.0.0" })
	r.write("tree.yaml", strings.Replace(tree, "via: agent}", "via: agent, timeout: 9s}", 1))
	eventually(t, "the new tree", func() bool { return strings.Contains(r.log.String(), "tree=changed") })
}

func TestWatchTakesWhatChangesBesideABusyDatabase(t *testing.T) {
	r := newRig(t)
	r.watch()
	ctx, cancel := context.WithCancel(t.Context())
	var busy sync.WaitGroup
	defer busy.Wait()
	defer cancel()
	busy.Go(func() {
		writes := time.NewTicker(100 * time.Microsecond)
		defer writes.Stop()
		for n := 0; ctx.Err() == nil; n++ {
			// Two names, so that no event is merged with the one before it.
			_ = os.WriteFile(filepath.Join(r.dir, fmt.Sprintf("kairos.db-%d", n%2)), []byte("x"), 0o600)
			<-writes.C
		}
	})
	r.write("tree.yaml", strings.Replace(tree, "via: agent}", "via: agent, timeout: 9s}", 1))
	eventually(t, "the new tree", func() bool { return strings.Contains(r.log.String(), "tree=changed") })
	r.write("tree.yaml", "nonsense")
	eventually(t, "the refusal", func() bool { return strings.Contains(r.log.String(), "refused") })
}

func TestWatchTakesWhatChangedBeforeItBegan(t *testing.T) {
	r := newRig(t)
	r.install("staged", traits{Version: "2.0.0"})
	r.lock()
	r.watch()
	eventually(t, "version 2.0.0", func() bool { return r.version() == "2.0.0" })
}

func TestWatchRefusesOnceAndRecovers(t *testing.T) {
	r := newRig(t)
	r.watch()
	r.write("tree.yaml", "nonsense")
	const refused = "the changed files are refused"
	eventually(t, "a refusal", func() bool { return strings.Contains(r.log.String(), refused) })
	// The same files are not reported again, however they were written.
	reads := r.readSoFar()
	r.write("tree.yaml", "nonsense")
	r.write("unrelated.txt", "x")
	r.write("tree.yaml", tree+"# better\n")
	eventually(t, "the better tree", func() bool { return strings.Contains(r.log.String(), "tree=changed") })
	if got := strings.Count(r.log.String(), refused); got != 1 {
		t.Errorf("refused %d times in the log, want once", got)
	}
	if got := r.readSoFar() - reads; got > 2 {
		t.Errorf("the files were read %d times for one change", got)
	}
}

func TestWatchLeavesARollbackAlone(t *testing.T) {
	r := newRig(t)
	r.install("staged", traits{Version: "2.0.0"})
	r.lock()
	r.write("tree.yaml", strings.Replace(tree, "via: agent}", "via: agent, timeout: 9s}", 1))
	r.reload()
	r.watch()
	const looked = "files have not changed"
	eventually(t, "a first look", func() bool { return strings.Contains(r.log.String(), looked) })
	looks := strings.Count(r.log.String(), looked)
	// It writes binary and lock back, which the watch sees, and leaves the tree file.
	if _, err := r.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another look", func() bool { return strings.Count(r.log.String(), looked) > looks })
	if got := r.version(); got != "1.0.0" {
		t.Errorf("version = %s, want that of the rollback", got)
	}
	if got := strings.Count(r.log.String(), "tree=changed"); got != 2 {
		t.Errorf("the tree changed %d times, want by the reload and by the rollback", got)
	}
}

func TestAWriteDuringARollbackDoesNotUndoIt(t *testing.T) {
	r := newRig(t)
	probed := filepath.Join(t.TempDir(), "probed")
	r.install("staged", traits{Version: "1.5.0", Lazy: probed})
	r.lock()
	r.reload()
	r.install("staged", traits{Version: "2.0.0"})
	r.lock()
	later := strings.Replace(tree, "via: agent}", "via: agent, timeout: 9s}", 1)
	r.write("tree.yaml", later)
	r.reload()
	r.watch()
	const looked = "files have not changed"
	eventually(t, "a first look", func() bool { return strings.Contains(r.log.String(), looked) })
	looks := strings.Count(r.log.String(), looked)
	if err := os.Remove(probed); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := r.Rollback(context.Background())
		done <- err
	}()
	eventually(t, "the rollback starts the earlier driver", func() bool { _, err := os.Stat(probed); return err == nil })
	r.write("tree.yaml", later+"# touched\n") // the watch wants to look while the driver is still being probed
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	eventually(t, "another look", func() bool { return strings.Count(r.log.String(), looked) > looks })
	if got := strings.Count(r.log.String(), "tree=changed"); got != 2 {
		t.Errorf("the tree changed %d times, want by the reload and by the rollback", got)
	}
}

func TestAWriteWhileOtherFilesAreReadIsTaken(t *testing.T) {
	r := newRig(t)
	r.change(func(r *rig) {
		r.extra = []string{r.path("more.yaml")}
		r.meantime = func(r *rig) {
			r.write("tree.yaml", strings.Replace(tree, "via: agent}", "via: agent, timeout: 9s}", 1))
		}
	})
	r.reload()
	r.watch()
	eventually(t, "the new tree", func() bool { return strings.Contains(r.log.String(), "tree=changed") })
}

// A driver that could write the files could give itself more rights.
func TestWatchTakesNothingThatADriverCouldHaveWritten(t *testing.T) {
	if _, err := sandbox.LandlockVersion(); err != nil {
		t.Skipf("NOT TESTED: a driver without isolation among isolated ones: %v", err)
	}
	const refused, changed = "changed files are not taken up: a driver could have written them", "tree=changed"
	later := strings.Replace(tree, "via: agent}", "via: agent, timeout: 9s}", 1)
	for name, tc := range map[string]struct {
		level          driverhost.Level
		free           bool
		taken, refused bool
	}{
		"drivers are isolated":    {driverhost.LevelLandlock, false, true, false},
		"one of them is not":      {driverhost.LevelLandlock, true, false, true},
		"there is no isolation":   {driverhost.LevelNone, true, true, false},
		"namespaces isolate each": {driverhost.LevelNamespace, true, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := isolatedRig(t, tc.level)
			r.install("staged", traits{Version: "1.0.1", Reads: []int{1}, Writes: 1, Free: tc.free})
			r.lock()
			r.reload()
			r.said(r.begin(r.mint(document)[0])) // which starts it
			r.watch()
			for _, text := range []string{later, later + "# once more\n"} {
				r.write("tree.yaml", text)
				switch {
				case tc.refused:
					eventually(t, "the refusal", func() bool { return strings.Contains(r.log.String(), refused) })
				default:
					eventually(t, "the new tree", func() bool { return strings.Contains(r.log.String(), changed) })
				}
			}
			if got := strings.Contains(r.log.String(), changed); got != tc.taken {
				t.Errorf("taken up: %t, want %t:\n%s", got, tc.taken, r.log)
			}
			warned := strings.Count(r.log.String(), "changed files are taken up although a driver could have written them")
			if want := map[bool]int{true: 1}[tc.level == driverhost.LevelNone]; warned != want {
				t.Errorf("it warned %d times, want %d", warned, want)
			}
			if !tc.refused {
				return
			}
			if said := r.log.String(); !strings.Contains(said, r.path("tree.yaml")) || !strings.Contains(said, "drivers=[staged]") {
				t.Errorf("neither file nor driver is named:\n%s", said)
			}
			if report := r.reload(); report.Tree != setup.Changed {
				t.Errorf("report = %+v, want that the operator's reload takes it", report)
			}
		})
	}
}
