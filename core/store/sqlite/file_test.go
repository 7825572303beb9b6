package sqlite_test

import (
	"context"
	"database/sql"
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
)

func TestOpenTouchesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "not", "there")
	s := open(t, filepath.Join(dir, "kairos.db"))
	if err := s.Close(); err != nil {
		t.Errorf("Close(never used) = %v, want nil", err)
	}
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
	defer s.Close()
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
	path := filepath.Join(t.TempDir(), "kairos.db")
	s := open(t, path)
	ids := newRuns(t, s, 1)
	for range 2 {
		if err := s.Close(); err != nil {
			t.Errorf("Close = %v, want nil", err)
		}
	}
	_, err := s.Run(t.Context(), run.ID(ids[0]))
	wantFailure(t, err, path, "closed")
	c := storetest.NewChain("user:test", "Late", "One")
	wantFailure(t, save(s, c), path, "closed")
	if _, err := os.Stat(path + "-wal"); !os.IsNotExist(err) {
		t.Errorf("Stat(-wal) after Close = %v, want it folded into the database", err)
	}
	again := open(t, path)
	defer again.Close()
	if _, err := again.Run(t.Context(), run.ID(ids[0])); err != nil {
		t.Errorf("Run after reopening = %v, want nil", err)
	}
}

func TestCloseLetsAcceptedWritesFinish(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kairos.db")
	s := open(t, path)
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
		if err := s.Close(); err != nil {
			t.Errorf("Close = %v, want nil", err)
		}
	})
	all.Wait()
	again := open(t, path)
	defer again.Close()
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
	for name, tc := range map[string]struct {
		prepare func(t *testing.T, dir string) (path string)
		why     string
	}{
		"below a file": {func(t *testing.T, dir string) string {
			return filepath.Join(write(t, filepath.Join(dir, "file"), "content"), "kairos.db")
		}, "a part of its directory is a file"},
		"not a database": {func(t *testing.T, dir string) string {
			return write(t, filepath.Join(dir, "kairos.db"), strings.Repeat("no database, just text ", 1000))
		}, "it is not a database"},
		"a directory": {func(t *testing.T, dir string) string {
			path := filepath.Join(dir, "kairos.db")
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
			return path
		}, "it cannot be opened"},
		"another program's database": {func(t *testing.T, dir string) string {
			return script(t, filepath.Join(dir, "kairos.db"), `CREATE TABLE songs (name TEXT)`)
		}, "a database of another program"},
		"newer schema": {func(t *testing.T, dir string) string {
			path := filepath.Join(dir, "kairos.db")
			s := open(t, path)
			newRuns(t, s, 1)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			return script(t, path, `PRAGMA user_version = 9999`)
		}, "newer version of this program"},
		"a database of an earlier build": {func(t *testing.T, dir string) string {
			return script(t, filepath.Join(dir, "kairos.db"), predate)
		}, "an earlier build of KAIROS made it"},
		"damaged": {func(t *testing.T, dir string) string {
			path := filepath.Join(dir, "kairos.db")
			s := open(t, path)
			newRuns(t, s, 1)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			return write(t, path, "SQLite format 3\x00"+strings.Repeat("\xff", 8000))
		}, "it "},
	} {
		t.Run(name, func(t *testing.T) {
			path := tc.prepare(t, t.TempDir())
			before, _ := os.ReadFile(path)
			s := open(t, path)
			for range 2 { // a failed opening is tried again, not remembered as done
				_, err := s.Count(t.Context(), "user:test")
				wantFailure(t, err, path, tc.why)
				wantFailure(t, save(s, storetest.NewChain("user:test", "T", "S")), path, tc.why)
			}
			if err := s.Close(); err != nil {
				t.Errorf("Close = %v, want nil", err)
			}
			if after, _ := os.ReadFile(path); string(after) != string(before) {
				t.Error("the file was changed")
			}
		})
	}
}

// Permissions do not bind root, so where the tests run as root this shows that
// the store works there, and elsewhere that it says what is wrong.
func TestUnwritableDirectory(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "kairos.db")
	s := open(t, path)
	defer s.Close()
	_, err := s.Count(t.Context(), "user:test")
	if os.Geteuid() == 0 {
		if err != nil {
			t.Errorf("Count as root = %v, want nil", err)
		}
		return
	}
	wantFailure(t, err, path, "no permission")
}

func TestFailedOpeningIsTriedAgain(t *testing.T) {
	dir := t.TempDir()
	blocker := write(t, filepath.Join(dir, "data"), "in the way")
	path := filepath.Join(blocker, "kairos.db")
	s := open(t, path)
	defer s.Close()
	_, err := s.Count(t.Context(), "user:test")
	wantFailure(t, err, path, "a part of its directory is a file")
	if err := os.Remove(blocker); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Count(t.Context(), "user:test"); err != nil {
		t.Errorf("Count after the cause was removed = %v, want nil", err)
	}
}

func TestEventsAreAppendOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kairos.db")
	s := open(t, path)
	id := newRuns(t, s, 1)[0]
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	script(t, path, `INSERT INTO saves SELECT (number << 20) + 2, NULL, x'00' FROM runs WHERE id = '`+id+`'`)
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, change := range []string{`UPDATE saves SET document = x'00'`, `DELETE FROM saves`} {
		if _, err := db.Exec(change); err == nil || !strings.Contains(err.Error(), "append-only") {
			t.Errorf("%s = %v, want a refusal", change, err)
		}
	}
}

// TestASaveThatFailsHalfWayLeavesNothing: the head was written before the row that
// cannot be.
func TestASaveThatFailsHalfWayLeavesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kairos.db")
	s := open(t, path)
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
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func write(t testing.TB, path, content string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// openRaw opens a file past the store.
func openRaw(t testing.TB, path string) *sql.DB {
	t.Helper()
	if err := sqlite.RegisterFunctions(); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func script(t testing.TB, path, statements string) string {
	t.Helper()
	db := openRaw(t, path)
	if _, err := db.Exec(statements); err != nil {
		t.Fatalf("%s: %v", statements, err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func FuzzSearch(f *testing.F) {
	for _, query := range []string{
		"calendar appointment", `"quoted" NEAR(a b, 2)`, "a* OR -b", "会議 über", "\x00\xff", "words : x", "^(", "''--",
	} {
		f.Add(query)
	}
	s := open(f, filepath.Join(f.TempDir(), "kairos.db"))
	f.Cleanup(func() { _ = s.Close() })
	for _, title := range []string{"Calendar appointment", "会議を予約する", "Quoted near a b", "Überprüfung"} {
		if err := save(s, storetest.NewChain("user:test", title, "One", "Two")); err != nil {
			f.Fatalf("SaveChain = %v, want nil", err)
		}
	}
	f.Fuzz(func(t *testing.T, query string) { storetest.CheckSearch(t, s, []string{"user:test"}, query) })
}

func TestCheckFindsOutWithoutTouchingAnything(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, tc := range map[string]struct{ path, why string }{
		"nothing there yet":  {filepath.Join(dir, "new", "deep", "kairos.db"), ""},
		"an empty file":      {write("empty", ""), ""},
		"a short other file": {write("short", "hi"), "not a database"},
		"another file":       {write("other", strings.Repeat("no database ", 20)), "not a database"},
		"below a file":       {filepath.Join(write("folder", "x"), "kairos.db"), "is a file"},
		"a folder":           {dir, "directory"},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, tc.path)
			err := s.Check()
			if (tc.why == "") != (err == nil) || (err != nil && (!strings.Contains(err.Error(), tc.why) || !strings.Contains(err.Error(), tc.path))) {
				t.Errorf("Check(%s) = %v, want an error with file and %q", tc.path, err, tc.why)
			}
		})
	}
	if _, err := os.Stat(filepath.Join(dir, "new")); !os.IsNotExist(err) {
		t.Errorf("Check made a folder: %v", err)
	}
}
