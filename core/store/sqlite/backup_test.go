package sqlite_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/core/store/storetest"
)

// What was stored before a backup began is in it, whoever writes meanwhile.
func TestABackupHasWhatWasStored(t *testing.T) {
	dir := t.TempDir()
	s := open(t, filepath.Join(dir, "kairos.db"))
	before := newRuns(t, s, 50)
	var writing sync.WaitGroup
	stop := make(chan struct{})
	for range 4 {
		writing.Go(func() {
			c := storetest.NewChain("user:test", "Meanwhile", "One")
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := s.CreateRun(t.Context(), runs.Save{Run: storetest.NewRun("somebody", c)}, c); err != nil {
					t.Errorf("CreateRun = %v, want nil", err)
					return
				}
			}
		})
	}
	path := filepath.Join(dir, "copy.db")
	size, err := s.Backup(t.Context(), path)
	close(stop)
	writing.Wait()
	info, found := os.Stat(path)
	if err != nil || found != nil || info.Size() != size || info.Mode() != 0o600 {
		t.Fatalf("Backup = %d, %v; Stat = %v, %v, want a private file of that size", size, err, info, found)
	}
	copied := open(t, path)
	for _, id := range before {
		if _, err := copied.Run(t.Context(), run.ID(id)); err != nil {
			t.Errorf("Run(%s) of the copy = %v, want nil", id, err)
		}
	}
	newRuns(t, copied, 1)
	original, err := s.DatabaseID(t.Context())
	must(t, err)
	if id, err := copied.DatabaseID(t.Context()); err != nil || id == original || len(id) != len(original) {
		t.Errorf("DatabaseID of the copy = %q, %v, want another one than %q", id, err, original)
	}
	if left, _ := filepath.Glob(path + ".partial*"); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// A backup replaces no file, and two do not write the same one.
func TestABackupOverwritesNothing(t *testing.T) {
	for _, name := range []string{"copy.db", "copy.db.partial"} {
		dir := t.TempDir()
		s := open(t, filepath.Join(dir, "kairos.db"))
		newRuns(t, s, 1)
		there := write(t, filepath.Join(dir, name), "precious")
		if _, err := s.Backup(t.Context(), filepath.Join(dir, "copy.db")); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("Backup beside %s = %v, want an error that names it", name, err)
		}
		if content, _ := os.ReadFile(there); string(content) != "precious" {
			t.Errorf("%s was overwritten", name)
		}
	}
}

func TestADamagedDatabaseMakesNoBackup(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "kairos.db")
	s := open(t, path)
	newRuns(t, s, 3)
	must(t, s.Close())
	script(t, path, `UPDATE runs SET document = json_set(document, '$.revision', 2) WHERE number = 2`)
	s = open(t, path)
	before, _ := os.ReadFile(path)
	if _, err := s.Backup(t.Context(), filepath.Join(dir, "copy.db")); err == nil || !strings.Contains(err.Error(), "kairos doctor --deep") {
		t.Errorf("Backup = %v, want that the copy is damaged", err)
	}
	if made, _ := filepath.Glob(filepath.Join(dir, "copy.db*")); len(made) > 0 {
		t.Errorf("a damaged copy was kept: %q", made)
	}
	if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
		t.Error("Backup changed the database")
	}
}

// VACUUM INTO makes copies whose file says nothing of a write-ahead log. Without it
// readers and the writer block each other.
func TestACopyOfSQLiteUsesTheLogAgain(t *testing.T) {
	dir := t.TempDir()
	s := open(t, filepath.Join(dir, "kairos.db"))
	newRuns(t, s, 1)
	path := filepath.Join(dir, "copy.db")
	script(t, filepath.Join(dir, "kairos.db"), `VACUUM INTO '`+path+`'`)
	must(t, s.Close())
	s = open(t, path)
	newRuns(t, s, 1)
	db := openRaw(t, path)
	var mode string
	if err := db.QueryRow(`PRAGMA journal_mode`).Scan(&mode); err != nil || mode != "wal" {
		t.Errorf("the journal mode of the copy in use is %q, %v, want wal", mode, err)
	}
}
