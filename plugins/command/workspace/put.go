package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"time"
)

// Modes of what is put: the snapshot knows which files are executable, and no
// more of the modes.
const (
	modeFile       = 0o644
	modeExecutable = 0o755
	modeFolder     = 0o755
)

func (e entry) mode() fs.FileMode {
	if e.kind == executable {
		return modeExecutable
	}
	return modeFile
}

// Put copies what the snapshot holds into an empty folder that nobody else can
// write to. It reads the workspace again and fails if a file is not as it was, so
// that what lies in the folder afterwards has the digest of the snapshot.
// All files get the same time of change.
//
// Of a git work tree the folder gets a .git of its own, which has the commit that
// is checked out, its branch, all tags and an index, so that git describe and git
// status work. It has none of the settings, hooks and filters of the repository.
// The commits are copied, each under the id to which it hashes; of a repository that
// is large or a partial clone, only the commit that is checked out.
func (s Snapshot) Put(ctx context.Context, into string) error {
	if err := s.put(ctx, into); err != nil {
		return fmt.Errorf("copy the workspace %s into a private folder: %w", s.dir, err)
	}
	return nil
}

func (s Snapshot) put(ctx context.Context, into string) (err error) {
	from, err := openTree(s.dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.close()) }()
	to, err := os.OpenRoot(into)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	if err := mustBeEmpty(to); err != nil {
		return err
	}
	c := copying{from: from, to: to, made: map[string]bool{".": true}, at: time.Now()}
	for _, e := range s.entries {
		if err := c.entry(ctx, e); err != nil {
			return err
		}
	}
	if s.history.format == "" {
		return nil
	}
	repo, err := repositoryOf(s.dir, s.options.roots(s.dir))
	if err != nil {
		return err
	}
	return s.history.put(ctx, repo, into, s.options.MaxBytes)
}

func mustBeEmpty(in *os.Root) error {
	f, err := in.Open(".")
	if err != nil {
		return err
	}
	_, err = f.ReadDir(1)
	if !errors.Is(err, io.EOF) {
		return errors.Join(fmt.Errorf("the folder %s is not empty", in.Name()), err, f.Close())
	}
	return f.Close()
}

// copying copies entries one by one.
type copying struct {
	from *tree
	to   *os.Root
	made map[string]bool // folders
	at   time.Time
}

func (c copying) entry(ctx context.Context, e entry) error {
	dir := path.Dir(e.path)
	if e.kind == empty {
		dir = e.path
	}
	if err := c.folder(dir); err != nil {
		return err
	}
	switch e.kind {
	case empty:
		return nil
	case link:
		return c.to.Symlink(e.content, e.path)
	default:
		return c.file(ctx, e)
	}
}

func (c copying) folder(dir string) error {
	if c.made[dir] {
		return nil
	}
	if err := c.folder(path.Dir(dir)); err != nil {
		return err
	}
	c.made[dir] = true
	if err := c.to.Mkdir(dir, modeFolder); err != nil {
		return err
	}
	return c.to.Chmod(dir, modeFolder) // whatever the umask
}

func (c copying) file(ctx context.Context, e entry) error {
	f, err := c.to.OpenFile(e.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, modeFile)
	if err != nil {
		return err
	}
	copied := copyEntry(ctx, c.from, e, f)
	if err := errors.Join(copied, f.Chmod(e.mode()), f.Close()); err != nil {
		return err
	}
	return c.to.Chtimes(e.path, c.at, c.at)
}

// copyEntry writes the content of a file, which must be that of the entry.
func copyEntry(ctx context.Context, from *tree, e entry, to io.Writer) error {
	in, base, err := from.parent(e.path)
	if err != nil {
		return errors.Join(changed(e.path), err)
	}
	info, err := in.Lstat(base)
	if err != nil {
		return errors.Join(changed(e.path), err)
	}
	if !info.Mode().IsRegular() || info.Size() != e.size {
		return changed(e.path)
	}
	now, err := read(ctx, in, base, info, math.MaxInt64, to)
	if err != nil {
		return fmt.Errorf("read %q: %w", e.path, err)
	}
	if now.path = e.path; now != e {
		return changed(e.path)
	}
	return nil
}
