package setup_test

import (
	"context"
	"strings"
	"testing"
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
	// The same again is no news, however it was written.
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
	const looked = "files are as they were"
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
