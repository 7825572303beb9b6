package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/store/sqlite"
	"github.com/kairos-mcp/kairos/core/store/sqlite/sqlitetest"
	"github.com/kairos-mcp/kairos/core/store/storetest"
	"github.com/kairos-mcp/kairos/core/store/tables"
)

func openLimited(t *testing.T, path string, limits sqlite.Limits) *sqlitetest.Store {
	t.Helper()
	s, err := sqlite.OpenWith(path, limits, tables.Missing{}, nil)
	return opened(t, s, err)
}

// A check that only reads says nothing of a disk that is full.
func TestCheckWriteCommitsAndNotTooOften(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kairos.db")
	s := openLimited(t, path, sqlite.Limits{MinFree: -1})
	if _, err := s.Count(t.Context(), "user:test"); err != nil { // makes the file
		t.Fatal(err)
	}
	db := openRaw(t, path)
	conn, err := db.Conn(t.Context())
	must(t, err)
	defer conn.Close()
	commits := func() (n int) { // changes with every commit of others
		must(t, conn.QueryRowContext(t.Context(), "PRAGMA data_version").Scan(&n))
		return n
	}
	before := commits()
	if err := s.CheckWrite(t.Context()); err != nil {
		t.Fatalf("CheckWrite = %v, want nil", err)
	}
	first := commits()
	if first == before {
		t.Error("CheckWrite has written nothing")
	}
	if err := s.CheckWrite(t.Context()); err != nil || commits() != first {
		t.Errorf("a second CheckWrite soon after = %v, and wrote again: %v", err, commits() != first)
	}
}

// A failed check is repeated at the next probe; otherwise a server would stay unready.
func TestCheckWriteTriesAgainAfterAFailure(t *testing.T) {
	s := openLimited(t, filepath.Join(t.TempDir(), "kairos.db"), sqlite.Limits{})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.CheckWrite(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("CheckWrite with a context that has ended = %v", err)
	}
	if err := s.CheckWrite(t.Context()); err != nil {
		t.Errorf("the next CheckWrite = %v, want nil", err)
	}
}

func TestCheckWriteWantsFreeSpace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kairos.db")
	s := openLimited(t, path, sqlite.Limits{MinFree: 1 << 60})
	wantFailure(t, s.CheckWrite(t.Context()), path, "MiB are required")
}

// bulky is a protocol of about 64 KB.
func bulky(title string) protocol.Chain {
	c := storetest.NewChain("user:full", title, "One")
	c.Steps[0].Text += strings.Repeat("Many words of no great meaning.\n", 500) + string(noise(48<<10)) // which cannot be packed
	return c
}

// wantAll checks that exactly the first n of fillUp are there, whole.
func wantAll(t *testing.T, s *sqlitetest.Store, n int) {
	t.Helper()
	if got, err := s.Count(t.Context(), "user:full"); err != nil || got != n {
		t.Errorf("Count = %d, %v, want %d, nil", got, err, n)
	}
	chains, _, err := s.List(t.Context(), "user:full", "", 2000)
	if err != nil || len(chains) != n {
		t.Errorf("List = %d, %v, want %d, nil", len(chains), err, n)
	}
	for i, c := range chains {
		title := fmt.Sprintf("Protocol %03d", i)
		whole, err := s.Chain(t.Context(), []string{"user:full"}, c.ID)
		if err != nil || c.Title != title || len(whole.Steps[0].Text) < 60_000 {
			t.Errorf("protocol %d is %q, %v, want %q, whole", i, c.Title, err, title)
		}
	}
}
