package driverhost

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"sync"
)

// held is a driver's binary, open for as long as somebody may start it: a
// restart, or a rollback, runs the very file that was verified, even when
// another one has taken its name meanwhile.
type held struct {
	path  string
	entry LockedEntry
	dev   bool // any bytes will do

	mu     sync.Mutex // guards the fields below
	open   *binary    // nil: not there, or let go
	seen   seenFile   // when it was last hashed
	pinned bool       // in dev mode too, no other bytes will do
	gone   bool       // closed for good
}

// hold opens the binary of an entry without hashing it. One that cannot be
// opened now is looked for again when it is needed.
func hold(dir string, e LockedEntry, dev bool) *held {
	h := &held{path: filepath.Join(dir, e.File), entry: e, dev: dev, seen: e.seen}
	h.open, _ = openBinary(h.path)
	return h
}

// verified returns the binary, whose bytes are the locked ones, open for the
// caller, who closes it.
func (h *held) verified() (*binary, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.gone {
		return nil, errStopped
	}
	if h.open != nil && h.matches(h.open) {
		return h.open.again()
	}
	fresh, err := verifyBinary(h.path, h.entry, h.dev)
	if err != nil {
		return nil, err
	}
	if err := h.letGo(); err != nil {
		return nil, errors.Join(fmt.Errorf("close the earlier binary: %w", err), fresh.close())
	}
	h.open = fresh
	return fresh.again()
}

// matches reports whether the open file still has the locked bytes. Needs the lock.
func (h *held) matches(b *binary) bool {
	want, locked := h.entry.SHA256[Platform()]
	if h.dev {
		return h.pinned
	}
	if !locked {
		return false
	}
	if h.seen.holds(b.file, want) {
		b.sum = want
		return true
	}
	seen, err := b.hash()
	if err != nil || b.sum != want {
		return false
	}
	h.seen = seen
	return true
}

// inPlace reports what is wrong with what has the binary's name now: nothing
// when it is the open file or has the same bytes. What runs is not affected.
func (h *held) inPlace() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.dev {
		return nil
	}
	e := h.entry
	e.seen = h.seen
	b, err := verifyBinary(h.path, e, false)
	if err != nil {
		return err
	}
	return b.close()
}

// copyTo writes the locked bytes.
func (h *held) copyTo(w io.Writer) error {
	b, err := h.verified()
	if err != nil {
		return err
	}
	_, err = io.Copy(w, io.NewSectionReader(b.file, 0, math.MaxInt64))
	if err = errors.Join(err, b.close()); err != nil {
		return fmt.Errorf("copy %s: %w", b.path, err)
	}
	return nil
}

// again is the same binary for another slot, open on its own.
func (h *held) again() *held {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := &held{path: h.path, entry: h.entry, dev: h.dev, seen: h.seen, pinned: true}
	if h.open != nil {
		out.open, _ = h.open.again() // else it is looked for by its name
	}
	return out
}

// close lets the file go for good.
func (h *held) close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.gone = true
	return h.letGo()
}

// letGo needs the lock.
func (h *held) letGo() error {
	if h.open == nil {
		return nil
	}
	err := h.open.close()
	h.open = nil
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}
