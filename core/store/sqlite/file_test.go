package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/core/store/sqlite"
	"github.com/kairos-mcp/kairos/core/store/sqlite/sqlitetest"
	"github.com/kairos-mcp/kairos/core/store/storetest"
	"github.com/kairos-mcp/kairos/core/store/tables"
)

func TestOpenTouchesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "not", "there")
	s := open(t, filepath.Join(dir, "kairos.db"))
	must(t, s.Close())
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("Stat(%s) = %v, want it not to exist", dir, err)
	}
	if _, err := sqlitetest.Open("", nil); err == nil {
		t.Error(`Open("") = nil, want an error`)
	}
}

func TestFileIsPrivate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data", "kairos.db")
	s := open(t, path)
	newRuns(t, s, 1)
	for file, want := range map[string]os.FileMode{
		filepath.Dir(path): 0o700 | os.ModeDir,
		path:               0o600,
		path + "-wal":      0o600,
		path + ".lock":     0o600,
	} {
		info, err := os.Stat(file)
		if err != nil {
			t.Errorf("Stat = %v, want nil", err)
			continue
		}
		if info.Mode() != want {
			t.Errorf("mode of %s = %v, want %v", file, info.Mode(), want)
		}
	}
}

func TestCloseEndsEverything(t *testing.T) {
	s, path := fresh(t)
	ids := newRuns(t, s, 1)
	for range 2 {
		must(t, s.Close())
	}
	_, err := s.Run(t.Context(), run.ID(ids[0]))
	wantFailure(t, err, path, "closed")
	c := storetest.NewChain("user:test", "Late", "One")
	wantFailure(t, save(s, c), path, "closed")
	if _, err := os.Stat(path + "-wal"); !os.IsNotExist(err) {
		t.Errorf("Stat(-wal) after Close = %v, want it folded into the database", err)
	}
	again := open(t, path)
	if _, err := again.Run(t.Context(), run.ID(ids[0])); err != nil {
		t.Errorf("Run after reopening = %v, want nil", err)
	}
}

func TestCloseLetsAcceptedWritesFinish(t *testing.T) {
	s, path := fresh(t)
	c := storetest.NewChain("user:test", "Racing", "One")
	var acknowledged sync.Map
	var all sync.WaitGroup
	for range 32 {
		all.Go(func() {
			r := storetest.NewRun("somebody", c)
			err := s.CreateRun(context.Background(), runs.Save{Run: r}, c)
			if err == nil {
				acknowledged.Store(r.ID, true)
			} else if !strings.Contains(err.Error(), "closed") {
				t.Errorf("CreateRun = %v, want nil or closed", err)
			}
		})
	}
	all.Go(func() {
		must(t, s.Close())
	})
	all.Wait()
	again := open(t, path)
	acknowledged.Range(func(id, _ any) bool {
		if _, err := again.Run(t.Context(), id.(run.ID)); err != nil {
			t.Errorf("Run(acknowledged) = %v, want nil", err)
		}
		return true
	})
}

// wantFailure checks that an error is a fault that names the file and says why.
func wantFailure(t *testing.T, err error, path, why string) {
	t.Helper()
	if fault.CodeOf(err) != fault.StoreFailed {
		t.Errorf("error = %v, want code %s", err, fault.StoreFailed)
		return
	}
	if text := err.Error(); !strings.Contains(text, path) || !strings.Contains(text, why) {
		t.Errorf("error = %q, want it to name %s and say %q", text, path, why)
	}
}

func TestUnusableFileSaysWhichAndWhy(t *testing.T) {
	made := func(statements string) func(*testing.T, string) string {
		return func(t *testing.T, path string) string { return script(t, path, statements) }
	}
	used := func(change func(t *testing.T, path string) string) func(*testing.T, string) string {
		return func(t *testing.T, path string) string {
			s := open(t, path)
			newRuns(t, s, 1)
			must(t, s.Close())
			return change(t, path)
		}
	}
	const ours = `PRAGMA application_id = 0x4b414952; CREATE TABLE t (a); `
	for name, tc := range map[string]struct {
		prepare func(t *testing.T, path string) string
		why     string
		check   string // what Check says; empty: it finds nothing
	}{
		"below a file": {func(t *testing.T, path string) string {
			return filepath.Join(write(t, path, "content"), "kairos.db")
		}, "a part of its directory is a file", "a part of its directory is a file"},
		"a short other file": {func(t *testing.T, path string) string { return write(t, path, "hi") }, "it is not a database", "it is not a database"},
		"not a database": {func(t *testing.T, path string) string {
			return write(t, path, strings.Repeat("no database, just text ", 1000))
		}, "it is not a database", "it is not a database"},
		"a directory": {func(t *testing.T, path string) string {
			must(t, os.Mkdir(path, 0o700))
			return path
		}, "it cannot be opened", "it is a directory"},
		"a device": {func(t *testing.T, path string) string {
			must(t, os.Symlink(os.DevNull, path))
			return path
		}, "it is not a database", "it is not a database"},
		"another program's database":                {made(`CREATE TABLE songs (name TEXT)`), "a database of another program", "a database of another program"},
		"another program's with a version":          {made(`PRAGMA user_version = 7`), "a database of another program", "a database of another program"},
		"ours by its id, of a version below one":    {made(ours + `PRAGMA user_version = -1`), "a database of another program", "a database of another program"},
		"ours by its id, without a version":         {made(ours), "a database of another program", "a database of another program"},
		"ours by its id, without the tables of one": {made(ours + `PRAGMA user_version = 1`), "a database of another program", "a database of another program"},
		"an earlier build's":                        {made(predate), "an earlier build of KAIROS made it", "an earlier build of KAIROS made it"},
		"newer schema":                              {used(made(`PRAGMA user_version = 9999`)), "newer version of this program", ""},
		"damaged": {used(func(t *testing.T, path string) string {
			return write(t, path, "SQLite format 3\x00"+strings.Repeat("\xff", 8000))
		}), "it ", ""},
	} {
		t.Run(name, func(t *testing.T) {
			path := tc.prepare(t, filepath.Join(t.TempDir(), "kairos.db"))
			before, _ := os.ReadFile(path)
			s := open(t, path)
			if err := s.Check(); tc.check != "" {
				wantFailure(t, err, path, tc.check)
			} else if err != nil {
				t.Errorf("Check = %v, want nil", err)
			}
			for range 2 { // a failed opening is tried again, not remembered as done
				_, err := s.Count(t.Context(), "user:test")
				wantFailure(t, err, path, tc.why)
				wantFailure(t, save(s, storetest.NewChain("user:test", "T", "S")), path, tc.why)
			}
			must(t, s.Close())
			if after, _ := os.ReadFile(path); string(after) != string(before) {
				t.Error("the file was changed")
			}
		})
	}
}

func TestCheckMakesNothing(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{filepath.Join(dir, "new", "deep", "kairos.db"), write(t, filepath.Join(dir, "empty"), "")} {
		must(t, open(t, path).Check())
	}
	if found, err := os.ReadDir(dir); err != nil || len(found) != 1 {
		t.Errorf("after Check there are %v, %v, want the empty file", found, err)
	}
}

func TestFailedOpeningIsTriedAgain(t *testing.T) {
	dir := t.TempDir()
	blocker := write(t, filepath.Join(dir, "data"), "in the way")
	path := filepath.Join(blocker, "kairos.db")
	s := open(t, path)
	_, err := s.Count(t.Context(), "user:test")
	wantFailure(t, err, path, "a part of its directory is a file")
	must(t, os.Remove(blocker))
	if _, err := s.Count(t.Context(), "user:test"); err != nil {
		t.Errorf("Count after the cause was removed = %v, want nil", err)
	}
}

func TestEventsAreAppendOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kairos.db")
	r := secretive(t, path, "x")
	for _, when := range []string{"at first", "after a redaction"} {
		db := openRaw(t, path)
		for _, change := range []string{`UPDATE saves SET document = x'00'`, `DELETE FROM saves`} {
			if _, err := db.Exec(change); err == nil || !strings.Contains(err.Error(), "append-only") {
				t.Errorf("%s %s = %v, want a refusal", change, when, err)
			}
		}
		erase(t, open(t, path), r)
		r.Revision++
	}
}

// TestASaveThatFailsHalfWayLeavesNothing: the head was written before the row that
// cannot be.
func TestASaveThatFailsHalfWayLeavesNothing(t *testing.T) {
	s, path := fresh(t)
	ids := newRuns(t, s, 12)
	bad, good := ids[0], ids[1:]
	script(t, path, `INSERT INTO saves SELECT (number << 20) + 2, NULL, x'00' FROM runs WHERE id = '`+bad+`'`)
	save := func(id string) error {
		r, err := s.Run(t.Context(), run.ID(id))
		if err != nil {
			return err
		}
		r.Outcome = "stored"
		return s.SaveRun(t.Context(), runs.Save{Run: r, Events: []run.Event{{Kind: run.Refused, Run: r.ID}}})
	}
	var all sync.WaitGroup
	for _, id := range good { // they share commits with it
		all.Go(func() {
			if err := save(id); err != nil {
				t.Errorf("SaveRun = %v, want nil", err)
			}
		})
	}
	if err := save(bad); err == nil {
		t.Error("SaveRun over a row that exists = nil, want an error")
	}
	all.Wait()
	if r, err := s.Run(t.Context(), run.ID(bad)); err != nil || r.Outcome != "" || r.Revision != 1 {
		t.Errorf("Run = outcome %q, revision %d, %v, want it as it was", r.Outcome, r.Revision, err)
	}
	for _, id := range good {
		if r, err := s.Run(t.Context(), run.ID(id)); err != nil || r.Outcome != "stored" || r.Revision != 2 {
			t.Errorf("Run = outcome %q, revision %d, %v, want the saved one", r.Outcome, r.Revision, err)
		}
	}
	must(t, s.Close())
}

func write(t testing.TB, path, content string) string {
	t.Helper()
	must(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// openRaw opens a file past the store.
func openRaw(t testing.TB, path string) *sql.DB {
	t.Helper()
	must(t, sqlite.RegisterFunctions())
	db, err := sql.Open("sqlite", path)
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func script(t testing.TB, path, statements string) string {
	t.Helper()
	db := openRaw(t, path)
	if _, err := db.Exec(statements); err != nil {
		t.Fatalf("%s: %v", statements, err)
	}
	must(t, db.Close())
	return path
}

// A reader of a misspelt name gets an error, not an empty database.
func TestAMissingFileIsMadeOnlyForWhoMayMakeIt(t *testing.T) {
	path, absent, made := filepath.Join(t.TempDir(), "new", "kairos.db"), errors.New("there is none"), 0
	reader, err := sqlite.OpenWith(path, sqlite.Limits{}, tables.Missing{Refuse: func() error { return absent }}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reader.Close() }()
	if _, err := reader.Runs.OpenRuns(t.Context(), runs.OpenQuery{Limit: 1}); !errors.Is(err, absent) {
		t.Errorf("OpenRuns = %v, want %v", err, absent)
	}
	if _, err := os.Stat(filepath.Dir(path)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder of the database: %v, want none", err)
	}
	for range 2 {
		writer, err := sqlite.OpenWith(path, sqlite.Limits{}, tables.Missing{Made: func() { made++ }}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := writer.Runs.OpenRuns(t.Context(), runs.OpenQuery{Limit: 1}); err != nil {
			t.Error(err)
		}
		if err := writer.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := reader.Runs.OpenRuns(t.Context(), runs.OpenQuery{Limit: 1}); err != nil || made != 1 {
		t.Errorf("OpenRuns of what was made %d times = %v, want once and nil", made, err)
	}
}
