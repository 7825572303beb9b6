package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"syscall"

	"github.com/kairos-mcp/kairos/sdk/filecheck"
)

// maxContent bounds a file whose content is judged by more than its digest: it
// is then in memory, and as JSON many times over.
const maxContent = 8 << 20 // bytes

// errChanged: the file is not the one that was looked up, or not as it was.
var errChanged = errors.New("it was changed while the server looked at it")

// read returns the content, if the check needs it, and its digest.
func (l *look) read(root opened, name string, before fs.FileInfo, c filecheck.Check) (content []byte, digest string, err error) {
	size := before.Size()
	switch {
	case size > l.bytesLeft:
		return nil, "", refuse("its content would have to be read, and of all files at most %d bytes are", l.limit.MaxBytes)
	case c.NeedsContent() && size > maxContent:
		return nil, "", refuse("its content has more than %d bytes", maxContent)
	}
	// Should it have become a FIFO meanwhile, opening it must not wait.
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, "", refuse("it cannot be opened")
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if opened, err := f.Stat(); err != nil || !same(before, opened) {
		return nil, "", errChanged
	}
	var kept bytes.Buffer
	sum := sha256.New()
	n, err := io.Copy(l.sink(sum, &kept, c), io.LimitReader(patient{l.ctx, f}, size+1))
	l.bytesLeft -= n
	if l.ctx.Err() != nil {
		return nil, "", refuse("looking took longer than %s", l.limit.Timeout)
	}
	if err != nil {
		return nil, "", refuse("it cannot be read")
	}
	if after, err := f.Stat(); err != nil || n != size || !same(before, after) {
		return nil, "", errChanged
	}
	return kept.Bytes(), hex.EncodeToString(sum.Sum(nil)), nil
}

func (l *look) sink(sum hash.Hash, kept *bytes.Buffer, c filecheck.Check) io.Writer {
	if c.NeedsContent() {
		return io.MultiWriter(sum, kept)
	}
	return sum
}

// same reports whether it is the same regular file, unchanged as far as size and
// time of change tell.
func same(a, b fs.FileInfo) bool {
	return b.Mode().IsRegular() && os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// patient reads until the look's time is over.
type patient struct {
	ctx context.Context //nolint:containedctx // a look is one call
	r   io.Reader
}

func (p patient) Read(b []byte) (int, error) {
	if err := p.ctx.Err(); err != nil {
		return 0, fmt.Errorf("read: %w", err)
	}
	return p.r.Read(b)
}
