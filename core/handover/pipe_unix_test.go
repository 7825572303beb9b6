//go:build unix

package handover_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/handover"
)

func TestAPipeInTheFilesPlaceHoldsNobodyUp(t *testing.T) {
	dir := t.TempDir()
	path, plain, pipe := filepath.Join(dir, handover.Name), filepath.Join(dir, "plain"), filepath.Join(dir, "pipe")
	if err := errors.Join(os.WriteFile(plain, nil, 0o600), syscall.Mkfifo(pipe, 0o600)); err != nil {
		t.Skipf("NOT TESTED: a pipe in the place of the file: %v", err)
	}
	done := make(chan error, 1)
	go func() { // exchanges one for the other as fast as it can
		for i := range 4000 {
			from, next := []string{plain, pipe}[i%2], filepath.Join(dir, "next")
			if err := errors.Join(os.Link(from, next), os.Rename(next, path)); err != nil {
				done <- err
				return
			}
			_ = os.Remove(next) // renaming a name to its own file leaves both
		}
		done <- nil
	}()
	deadline := time.After(time.Minute)
	for {
		checked := make(chan error, 1)
		go func() { checked <- handover.CheckFolder(dir) }()
		select {
		case <-checked: // whatever it saw
		case <-deadline:
			t.Fatal("CheckFolder waits for somebody to write into the pipe")
		}
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			return
		default:
		}
	}
}
