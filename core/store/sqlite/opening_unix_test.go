//go:build unix

package sqlite_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/store/sqlite/sqlitetest"
)

// An update of the schema can take longer than a call waits: the file is opened even if
// nobody calls again.
func TestTheOpeningOutlivesTheCallThatNeededItFirst(t *testing.T) {
	s, path, lock := waiting(t)
	defer s.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.Count(ctx, "space"); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Count while another process holds the lock = %v, want that the deadline passed", err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if info, err := os.Stat(path); err == nil && info.Size() > 0 {
			return
		}
	}
	t.Error("the file was not made")
}

// Closing ends an opening that waits.
func TestCloseEndsAnOpening(t *testing.T) {
	s, _, _ := waiting(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := s.Count(ctx, "space"); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Count while another process holds the lock = %v, want that the deadline passed", err)
	}
	called := make(chan error, 1)
	go func() {
		_, err := s.Count(t.Context(), "space")
		called <- err
	}()
	if err := s.Close(); err != nil {
		t.Errorf("Close = %v", err)
	}
	if err := <-called; err == nil {
		t.Error("Count = nil, want that the store is closed")
	}
}

// waiting returns a store whose file cannot be opened before the lock is closed.
func waiting(t *testing.T) (s *sqlitetest.Store, path string, lock *os.File) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "kairos.db")
	lock, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lock.Close() })
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil { //nolint:gosec // a descriptor fits
		t.Fatal(err)
	}
	if s, err = sqlitetest.Open(path, nil); err != nil {
		t.Fatal(err)
	}
	return s, path, lock
}
