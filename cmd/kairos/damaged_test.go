package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The file in which SQLite has what was stored last is cut off beneath a running server.
func TestAServerWhoseLogIsLostIsNotReady(t *testing.T) {
	t.Parallel()
	s := &served{t: t, dir: t.TempDir()}
	database := filepath.Join(s.dir, "kairos.db")
	s.write("kairos.yaml", "database: "+database+"\nadmin: {socket: run/admin.sock}\ndrivers: {dir: "+buildDrivers(t)+"}\n")
	b := programOf(s.startHTTP())
	uri := b.mint(oneCommand)[0]
	for range 20 {
		b.begin(uri)
	}
	if a := b.do(http.MethodGet, "/readyz", "", nil); a.status != http.StatusOK {
		t.Fatalf("readyz = %d %s, want 200", a.status, a.body)
	}
	if err := os.Truncate(database+"-wal", 0); err != nil {
		t.Fatal(err)
	}
	if out, err := b.program("doctor").CombinedOutput(); err == nil || !strings.Contains(string(out), "BAD  database") {
		t.Errorf("doctor = %s, %v, want the database damaged", out, err)
	}
	eventually(t, "readyz says that the database is damaged", func() bool {
		a := b.do(http.MethodGet, "/readyz", "", nil)
		return a.status == http.StatusServiceUnavailable && strings.Contains(a.body, database)
	})
}
