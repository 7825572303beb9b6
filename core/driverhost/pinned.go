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

// pinnedBinary is a driver's binary, which stays open as long as it may be started. A
// restart or a rollback runs the file that was verified, even if another file has its
// name now.
type pinnedBinary struct {
	path  string
	entry LockedEntry
	dev   bool // any bytes are accepted

	mu     sync.Mutex // guards the fields below
	open   *binary    // nil: missing or closed
	hashed hashedFile // when it was last hashed
	exact  bool       // no other bytes are accepted, in dev mode either
	closed bool       // closed for good
}

// pin opens the binary of an entry without hashing it. If it cannot be opened now, it is
// opened when it is needed.
func pin(dir string, e LockedEntry, dev bool) *pinnedBinary {
	p := &pinnedBinary{path: filepath.Join(dir, e.File), entry: e, dev: dev, hashed: e.hashed}
	p.open, _ = openBinary(p.path)
	return p
}

// verified returns the open binary with the locked bytes. The caller closes it.
func (p *pinnedBinary) verified() (*binary, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errStopped
	}
	if p.open != nil && p.matches(p.open) {
		return p.open.again()
	}
	fresh, err := verifyBinary(p.path, p.entry, p.dev)
	if err != nil {
		return nil, err
	}
	if err := p.closeFile(); err != nil {
		return nil, errors.Join(fmt.Errorf("close the earlier binary: %w", err), fresh.close())
	}
	p.open = fresh
	return fresh.again()
}

// matches reports whether the open file still has the locked bytes. Needs the lock.
func (p *pinnedBinary) matches(b *binary) bool {
	want, locked := p.entry.SHA256[Platform()]
	if p.dev {
		return p.exact
	}
	if !locked {
		return false
	}
	if p.hashed.matches(b.file, want) {
		b.sum = want
		return true
	}
	hashed, err := b.hash()
	if err != nil || b.sum != want {
		return false
	}
	p.hashed = hashed
	return true
}

// inPlace returns an error unless the file that has the binary's name now has the locked
// bytes. A running process is not affected.
func (p *pinnedBinary) inPlace() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dev {
		return nil
	}
	e := p.entry
	e.hashed = p.hashed
	b, err := verifyBinary(p.path, e, false)
	if err != nil {
		return err
	}
	return b.close()
}

// copyTo writes the locked bytes.
func (p *pinnedBinary) copyTo(w io.Writer) error {
	b, err := p.verified()
	if err != nil {
		return err
	}
	_, err = io.Copy(w, io.NewSectionReader(b.file, 0, math.MaxInt64))
	if err = errors.Join(err, b.close()); err != nil {
		return fmt.Errorf("copy %s: %w", b.path, err)
	}
	return nil
}

// again returns the same binary for another slot, opened separately.
func (p *pinnedBinary) again() *pinnedBinary {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := &pinnedBinary{path: p.path, entry: p.entry, dev: p.dev, hashed: p.hashed, exact: true}
	if p.open != nil {
		out.open, _ = p.open.again() // else it is opened by its name
	}
	return out
}

// close closes the file; verified fails afterwards.
func (p *pinnedBinary) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	return p.closeFile()
}

// closeFile needs the lock.
func (p *pinnedBinary) closeFile() error {
	if p.open == nil {
		return nil
	}
	err := p.open.close()
	p.open = nil
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}
