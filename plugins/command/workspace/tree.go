package workspace

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
)

// tree opens the folders below a folder, one name at a time and none through a
// link, so that it cannot be led elsewhere while names change. It keeps the
// folders on the way to the last one open. It is not safe for concurrent use.
type tree struct {
	names []string   // of the open folders below the top
	open  []*os.Root // the top, then one for each name
}

func openTree(top string) (*tree, error) {
	root, err := os.OpenRoot(top)
	if err != nil {
		return nil, err
	}
	return &tree{open: []*os.Root{root}}, nil
}

func (t *tree) close() error {
	err := t.closeBelow(0)
	return errors.Join(err, t.open[0].Close())
}

// closeBelow closes the open folders but the top and n below it.
func (t *tree) closeBelow(n int) error {
	var errs []error
	for len(t.names) > n {
		last := len(t.names)
		errs = append(errs, t.open[last].Close())
		t.names, t.open = t.names[:last-1], t.open[:last]
	}
	return errors.Join(errs...)
}

// folder opens the folder of that path; "" is the top. The tree owns it and
// closes it at a later call. fs.ErrNotExist is wrapped if there is none,
// whatever stands there instead.
func (t *tree) folder(name string) (*os.Root, error) {
	var parts []string
	if name != "" {
		parts = strings.Split(name, "/")
	}
	shared := 0
	for shared < len(parts) && shared < len(t.names) && parts[shared] == t.names[shared] {
		shared++
	}
	if err := t.closeBelow(shared); err != nil {
		return nil, err
	}
	for _, part := range parts[shared:] {
		next, err := enter(t.open[len(t.names)], part)
		if err != nil {
			return nil, fmt.Errorf("open the folder %q: %w", name, err)
		}
		t.names, t.open = append(t.names, part), append(t.open, next)
	}
	return t.open[len(parts)], nil
}

// parent opens the folder that holds a path, and returns the last name.
func (t *tree) parent(name string) (*os.Root, string, error) {
	dir, base := path.Split(name)
	in, err := t.folder(strings.TrimSuffix(dir, "/"))
	return in, base, err
}

// enter opens the folder of that name and no link to one.
func enter(in *os.Root, name string) (*os.Root, error) {
	before, err := in.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !before.IsDir() {
		return nil, fmt.Errorf("it is not a folder: %w", fs.ErrNotExist)
	}
	out, err := in.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	if after, err := out.Stat("."); err != nil || !os.SameFile(before, after) {
		return nil, errors.Join(changed(name), out.Close())
	}
	return out, nil
}

// read copies the content of a regular file, at most limit bytes, and returns
// what stands there: its kind, size and digest. The info is what Lstat says.
func read(ctx context.Context, in *os.Root, name string, before fs.FileInfo, limit int64, to io.Writer) (_ entry, err error) {
	if before.Size() > limit {
		return entry{}, errTooMuch
	}
	// Should it have become a FIFO meanwhile, opening it must not wait.
	f, err := in.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return entry{}, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if opened, err := f.Stat(); err != nil || !same(before, opened) {
		return entry{}, changed(name)
	}
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(sum, to), io.LimitReader(patient{ctx, f}, before.Size()+1))
	if err != nil {
		return entry{}, err
	}
	if after, err := f.Stat(); err != nil || n != before.Size() || !same(before, after) {
		return entry{}, changed(name)
	}
	e := entry{kind: file, size: n, content: hex.EncodeToString(sum.Sum(nil))}
	if before.Mode()&0o100 != 0 {
		e.kind = executable
	}
	return e, nil
}

// errTooMuch is returned for a file that is larger than what may still be read.
var errTooMuch = errors.New("the file is too large")

// same reports whether it is the same regular file, unchanged as far as size,
// mode and time of change tell.
func same(a, b fs.FileInfo) bool {
	return b.Mode().IsRegular() && os.SameFile(a, b) && a.Mode() == b.Mode() && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// patient reads until its context is done.
type patient struct {
	ctx context.Context //nolint:containedctx // it lives for one file
	r   io.Reader
}

func (p patient) Read(b []byte) (int, error) {
	if err := p.ctx.Err(); err != nil {
		return 0, err
	}
	return p.r.Read(b)
}
