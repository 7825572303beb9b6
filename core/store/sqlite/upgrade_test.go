package sqlite_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/store/sqlite"
	"github.com/kairos-mcp/kairos/core/store/sqlite/sqlitetest"
	"github.com/kairos-mcp/kairos/core/store/storetest"
)

// raw reads all rows of a query as the file has them, past the store.
func raw(t *testing.T, path, query string) [][]any {
	t.Helper()
	db := openRaw(t, path)
	rows, err := db.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	names, err := rows.Columns()
	must(t, err)
	var all [][]any
	for rows.Next() {
		row, into := make([]any, len(names)), make([]any, len(names))
		for i := range row {
			into[i] = &row[i]
		}
		must(t, rows.Scan(into...))
		all = append(all, row)
	}
	must(t, rows.Err())
	return all
}

func content(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	must(t, err)
	return b
}

func backups(t *testing.T, path string) []string {
	t.Helper()
	found, err := filepath.Glob(path + ".*.backup*")
	must(t, err)
	return found
}

const (
	later   = `CREATE TABLE invented (id TEXT)`
	predate = `PRAGMA application_id = 0; CREATE TABLE schema_version (version INTEGER PRIMARY KEY); INSERT INTO schema_version VALUES (18)`
)

func TestVersionsOfTheSchema(t *testing.T) {
	storetest.RunUpgrade(t, func(t *testing.T) storetest.Versioned {
		path := filepath.Join(t.TempDir(), "kairos.db")
		return storetest.Versioned{
			Open:    func(t *testing.T, more ...string) storetest.Protocols { return openLater(t, path, more...) },
			Predate: func(t *testing.T) { script(t, path, predate) },
		}
	})
}

func openLater(t *testing.T, path string, more ...string) *sqlitetest.Store {
	t.Helper()
	s, err := sqlite.OpenMigrated(path, more...)
	return opened(t, s, err)
}

// storedOnce is a closed database with a run.
func storedOnce(t *testing.T) string {
	t.Helper()
	s, path := fresh(t)
	newRuns(t, s, 1)
	must(t, s.Close())
	return path
}

func TestAnUpdateOfTheSchemaLeavesABackup(t *testing.T) {
	path := storedOnce(t)
	for range 2 { // the second time there is nothing to update
		s := openLater(t, path, later)
		if _, err := s.Count(t.Context(), "user:test"); err != nil {
			t.Errorf("Count = %v, want nil", err)
		}
		must(t, s.Close())
	}
	made := backups(t, path)
	if len(made) != 1 {
		t.Fatalf("backups %q, want one", made)
	}
	if info, err := os.Stat(made[0]); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the backup is %v, %v, want it readable by its owner alone", info, err)
	}
	if row := raw(t, made[0], `SELECT user_version, (SELECT count(*) FROM runs) FROM pragma_user_version`)[0]; row[0].(int64) != 1 || row[1].(int64) != 1 {
		t.Errorf("the backup has version and runs %v, want 1 and 1", row)
	}
}

func TestADamagedDatabaseIsNotUpdated(t *testing.T) {
	path := storedOnce(t)
	damaged := content(t, path)
	page := raw(t, path, `SELECT rootpage FROM sqlite_schema WHERE name = 'runs'`)[0][0].(int64)
	for i := range int64(4096) {
		damaged[(page-1)*4096+i] = 0xff
	}
	write(t, path, string(damaged))
	s := openLater(t, path, later)
	if _, err := s.Count(t.Context(), "user:test"); err == nil || !strings.Contains(err.Error(), "has to be updated, but the backup before that failed") {
		t.Errorf("Count = %v, want that the backup failed", err)
	}
	if made := backups(t, path); len(made) > 0 {
		t.Errorf("left are %q", made)
	}
	if !bytes.Equal(damaged, content(t, path)) {
		t.Error("the damaged file was changed")
	}
}

func TestABackupOfAnEarlierBuildIsRefused(t *testing.T) {
	path := script(t, storedOnce(t), predate)
	s := open(t, path)
	_, err := s.Backup(t.Context(), filepath.Join(t.TempDir(), "copy.db"))
	wantFailure(t, err, "kairos.db", "an earlier build of KAIROS made it")
}

// A killed process leaves a log, which SQLite moves into the database as soon as a
// connection that may write is closed.
func TestWhatAKilledProgramOfAnotherKindLeftIsUnchanged(t *testing.T) {
	for name, tc := range map[string]struct{ made, why string }{
		"an earlier build": {predate, "earlier build"},
		"another program":  {`CREATE TABLE notes (id TEXT)`, "another program"},
	} {
		t.Run(name, func(t *testing.T) {
			running := filepath.Join(t.TempDir(), "running.db")
			db := openRaw(t, running)
			if _, err := db.ExecContext(t.Context(), `PRAGMA journal_mode = WAL; `+tc.made); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(t.TempDir(), "kairos.db")
			left := map[string][]byte{}
			for _, end := range []string{"", "-wal"} {
				left[path+end] = content(t, running+end)
				write(t, path+end, string(left[path+end]))
			}
			if len(left[path+"-wal"]) == 0 {
				t.Fatal("the program left no log")
			}
			s := open(t, path)
			_, err := s.Count(t.Context(), "user:test")
			for _, err := range []error{s.Check(), err, s.Close()} {
				if err != nil && !strings.Contains(err.Error(), tc.why) {
					t.Errorf("error = %v, want that %s made it", err, tc.why)
				}
			}
			if err == nil || s.Check() == nil {
				t.Error("Count and Check accept the database")
			}
			for file, before := range left {
				if !bytes.Equal(before, content(t, file)) {
					t.Errorf("%s was changed", filepath.Base(file))
				}
			}
		})
	}
}
