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

// pinnedBinary is a driver's binary, open for as long as somebody may start it: a
// restart, or a rollback, runs the very file that was verified, even when
// another one has taken its name meanwhile.
type pinnedBinary struct {
	path  string
	entry LockedEntry
	dev   bool // any bytes will do

	mu     sync.Mutex // guards the fields below
	open   *binary    // nil: not there, or let go
	hashed hashedFile // when it was last hashed
	exact  bool       // in dev mode too, no other bytes will do
	closed bool       // closed for good
}

// pin opens the binary of an entry without hashing it. One that cannot be
// opened now is looked for again when it is needed.
func pin(dir string, e LockedEntry, dev bool) *pinnedBinary {
	p := &pinnedBinary{path: filepath.Join(dir, e.File), entry: e, dev: dev, hashed: e.hashed}
	p.open, _ = openBinary(p.path)
	return p
}

// verified returns the binary, whose bytes are the locked ones, open for the
// caller, who closes it.
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

// inPlace reports what is wrong with what has the binary's name now: nothing
// when it is the open file or has the same bytes. What runs is not affected.
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

// again is the same binary for another slot, open on its own.
func (p *pinnedBinary) again() *pinnedBinary {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := &pinnedBinary{path: p.path, entry: p.entry, dev: p.dev, hashed: p.hashed, exact: true}
	if p.open != nil {
		out.open, _ = p.open.again() // else it is looked for by its name
	}
	return out
}

// close lets the file go for good.
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
