package sqlite_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/archive"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/store/sqlite"
)

var everyRun = archive.Query{Principal: "local", Spaces: []string{operator}, Limit: 10}

func content(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func backups(t *testing.T, path string) []string {
	t.Helper()
	found, err := filepath.Glob(path + ".*.backup*")
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestAProgramThatOnlyReadsKeepsTheSchema(t *testing.T) {
	path := unpackVersion1(t)
	before := content(t, path)
	s, err := sqlite.OpenWith(path, sqlite.Options{KeepSchema: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = s.AllRuns(t.Context(), everyRun)
	if fault.CodeOf(err) != fault.StoreFailed || !strings.Contains(err.Error(), "its schema is version 1, this program needs version") {
		t.Errorf("AllRuns = %v, want that the schema is older", err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("Close = %v, want nil", err)
	}
	if !bytes.Equal(before, content(t, path)) || len(backups(t, path)) > 0 {
		t.Errorf("the file was changed, or a backup was made: %q", backups(t, path))
	}
}

func TestAProgramThatOnlyReadsMakesAMissingFile(t *testing.T) {
	s, err := sqlite.OpenWith(filepath.Join(t.TempDir(), "kairos.db"), sqlite.Options{KeepSchema: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if runs, _, err := s.AllRuns(t.Context(), everyRun); err != nil || len(runs) > 0 {
		t.Errorf("AllRuns = %v, %v, want none", runs, err)
	}
}

func TestAnUpdateOfTheSchemaLeavesABackup(t *testing.T) {
	path := unpackVersion1(t)
	for range 2 { // the second time there is nothing to update
		s := open(t, path)
		if runs, _, err := s.AllRuns(t.Context(), everyRun); err != nil || len(runs) != 3 {
			t.Errorf("AllRuns = %d runs, %v, want 3", len(runs), err)
		}
		if err := s.Close(); err != nil {
			t.Errorf("Close = %v, want nil", err)
		}
	}
	made := backups(t, path)
	if len(made) != 1 {
		t.Fatalf("backups %q, want one", made)
	}
	if info, err := os.Stat(made[0]); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the backup is %v, %v, want it readable by its owner alone", info, err)
	}
	if rows := raw(t, made[0], `SELECT max(version), (SELECT count(*) FROM runs) FROM schema_version`); rows[0][0].(int64) != 1 || rows[0][1].(int64) != 3 {
		t.Errorf("the backup has version and runs %v, want 1 and 3", rows)
	}
}

func TestADamagedDatabaseIsNotUpdated(t *testing.T) {
	path := unpackVersion1(t)
	damaged := content(t, path)
	for i := 4096 * 4; i < len(damaged); i++ {
		damaged[i] = 0xff
	}
	write(t, path, string(damaged))
	s := open(t, path)
	defer s.Close()
	if _, _, err := s.AllRuns(t.Context(), everyRun); err == nil || !strings.Contains(err.Error(), "has to be updated, but the backup before that failed") {
		t.Errorf("AllRuns = %v, want that the backup failed", err)
	}
	if made := backups(t, path); len(made) > 0 {
		t.Errorf("left are %q", made)
	}
	if !bytes.Equal(damaged, content(t, path)) {
		t.Error("the damaged file was changed")
	}
}
