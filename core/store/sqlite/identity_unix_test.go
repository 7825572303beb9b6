//go:build unix

package sqlite_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/core/store/storetest"
)

// replace puts another file with the same content under the name, as a
// restored backup or an editor does.
func replace(t *testing.T, path string) {
	t.Helper()
	content, err := os.ReadFile(path)
	must(t, err)
	must(t, os.WriteFile(path+".new", content, 0o600))
	must(t, os.Rename(path+".new", path))
}

func TestNothingIsStoredInAFileThatIsGone(t *testing.T) {
	for name, tc := range map[string]struct {
		harm func(t *testing.T, path string)
		why  string
		// restore makes it possible to open the file again; nil: it is lost.
		restore func(t *testing.T, path string)
	}{
		"the database deleted": {
			func(t *testing.T, path string) { must(t, os.Remove(path)) }, "the database file PATH was deleted", nil,
		},
		"the database replaced": {replace, "the database file PATH was replaced", nil},
		"the database renamed": {
			func(t *testing.T, path string) { must(t, os.Rename(path, path+".old")) }, "the database file PATH was deleted or moved",
			func(t *testing.T, path string) { must(t, os.Rename(path+".old", path)) },
		},
		"its folder renamed": {
			func(t *testing.T, path string) { must(t, os.Rename(filepath.Dir(path), filepath.Dir(path)+".old")) }, "the database file PATH was deleted or moved",
			func(t *testing.T, path string) { must(t, os.Rename(filepath.Dir(path)+".old", filepath.Dir(path))) },
		},
		"the log deleted": {
			func(t *testing.T, path string) { must(t, os.Remove(path+"-wal")) }, "the write-ahead log PATH-wal was deleted",
			func(*testing.T, string) {},
		},
		"the log replaced": {
			func(t *testing.T, path string) { replace(t, path+"-wal") }, "the write-ahead log PATH-wal was replaced",
			func(*testing.T, string) {},
		},
		"the index of the log deleted": {
			func(t *testing.T, path string) { must(t, os.Remove(path+"-shm")) }, "the index of the write-ahead log PATH-shm was deleted",
			func(*testing.T, string) {},
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "data", "kairos.db")
			s := open(t, path)
			kept := newRuns(t, s, 2)
			tc.harm(t, path)
			why := strings.ReplaceAll(tc.why, "PATH", path)
			c := storetest.NewChain("user:test", "Refused", "One")
			refused := storetest.NewRun("somebody", c)
			for range 2 { // the second call fails, too
				wantGone(t, s.CreateRun(t.Context(), runs.Save{Run: refused}, c), why)
			}
			wantGone(t, save(s, c), why)
			wantGone(t, s.CheckWrite(t.Context()), why)

			if tc.restore == nil {
				return
			}
			if strings.Contains(name, "renamed") {
				tc.restore(t, path)
				kept = append(kept, newRuns(t, s, 1)...) // the same file again
			}
			must(t, s.Close())
			again := open(t, path)
			for _, id := range kept {
				if _, err := again.Run(t.Context(), run.ID(id)); err != nil {
					t.Errorf("Run(acknowledged) after a restart = %v, want nil", err)
				}
			}
			if _, err := again.Run(t.Context(), refused.ID); fault.CodeOf(err) != fault.NotFound {
				t.Errorf("Run(refused) after a restart = %v, want %s", err, fault.NotFound)
			}
		})
	}
}

func wantGone(t *testing.T, err error, why string) {
	t.Helper()
	var f *fault.Error
	if !errors.As(err, &f) || f.Code != fault.StoreUnavailable || !strings.Contains(f.Message, why) || !strings.Contains(f.NextAction, "backup") {
		t.Errorf("error = %v, want code %s, %q and what to do", err, fault.StoreUnavailable, why)
	}
}

// A file that disappears while a transaction runs takes the transaction with it.
func TestACommitToAFileThatIsGoneIsNotAcknowledged(t *testing.T) {
	s, path := fresh(t)
	newRuns(t, s, 1)
	other := openRaw(t, path+"?_txlock=immediate")
	tx, err := other.BeginTx(t.Context(), nil) // so that the transaction of the store has to wait
	must(t, err)
	saved := make(chan error, 1)
	go func() { saved <- save(s, storetest.NewChain("user:test", "Late", "One")) }()
	awaitLocked(t, path+".lock")
	must(t, os.Remove(path))
	must(t, tx.Rollback())
	wantGone(t, <-saved, "the database file "+path+" was deleted")
}

// awaitLocked returns when somebody else has the write lock.
func awaitLocked(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return
		}
		must(t, errors.Join(err, syscall.Flock(int(f.Fd()), syscall.LOCK_UN), t.Context().Err()))
		runtime.Gosched()
	}
}

// A late connection of the readers must not read another database.
func TestAReplacedFileIsNotRead(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "kairos.db")
	s := open(t, path)
	must(t, save(s, storetest.NewChain("user:test", "Ours", "One")))
	script(t, path, `PRAGMA wal_checkpoint(TRUNCATE)`) // a log with pages would cover the other database
	other := open(t, filepath.Join(dir, "other.db"))
	must(t, save(other, storetest.NewChain("user:test", "Theirs", "One"), storetest.NewChain("user:test", "Theirs too", "One")))
	must(t, other.Close())
	must(t, os.Rename(filepath.Join(dir, "other.db"), path))
	var readers sync.WaitGroup
	for range 64 { // so many need every connection there may be
		readers.Go(func() {
			if n, err := s.Count(t.Context(), "user:test"); err != nil {
				wantGone(t, err, "the database file "+path+" was replaced")
			} else if n != 1 {
				t.Errorf("Count = %d, want 1 or an error", n)
			}
		})
	}
	readers.Wait()
}

// Changes to the files by other processes and backup tools are not a loss.
func TestUseByOthersIsNotALoss(t *testing.T) {
	dir := t.TempDir()
	real := filepath.Join(dir, "disk", "kairos.db")
	must(t, os.Mkdir(filepath.Dir(real), 0o700))
	must(t, os.WriteFile(real, nil, 0o600))
	path := filepath.Join(dir, "kairos.db")
	if err := os.Symlink(real, path); err != nil {
		t.Skipf("NOT TESTED: no symbolic links here: %v", err)
	}
	s := open(t, path)
	ids := newRuns(t, s, 1)
	for _, name := range []string{path, real} {
		other := open(t, name)
		ids = append(ids, newRuns(t, other, 1)...)
		must(t, other.Close())
	}
	copied := filepath.Join(dir, "backup.db")
	script(t, real, `VACUUM INTO '`+copied+`'; PRAGMA wal_checkpoint(TRUNCATE); VACUUM`)
	must(t, os.Chtimes(real, time.Now(), time.Now()))
	ids = append(ids, newRuns(t, s, 1)...)
	must(t, s.CheckWrite(t.Context()))
	must(t, s.Close())
	if _, err := os.Stat(real + "-wal"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the log after Close: %v, want it folded into the database", err)
	}

	// Opened again after the log was deleted by the last to close, and from the copy, which has none.
	for name, want := range map[string]int{path: len(ids), copied: len(ids) - 1} {
		again := open(t, name)
		ids := append(append([]string{}, ids[:want]...), newRuns(t, again, 1)...)
		for _, id := range ids {
			if _, err := again.Run(t.Context(), run.ID(id)); err != nil {
				t.Errorf("Run in %s = %v, want nil", name, err)
			}
		}
		must(t, again.Close())
	}
}
