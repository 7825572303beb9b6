package workspace

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// WriteBack makes the workspace what a copy of the snapshot has become, and
// returns the paths that it wrote or deleted, sorted. Files that git ignores and
// the snapshot does not have are left out. It fails, and leaves the workspace as
// it is, if the workspace is not as it was when the snapshot was taken. If the
// process is killed, a folder .kairos-* remains that has what was replaced.
func (s Snapshot) WriteBack(ctx context.Context, from string) ([]string, error) {
	written, err := s.writeBack(ctx, from)
	if err != nil {
		return nil, fmt.Errorf("write changes back to the workspace %s: %w", s.dir, err)
	}
	return written, nil
}

func (s Snapshot) writeBack(ctx context.Context, from string) (_ []string, err error) {
	copied, err := realFolder(from)
	if err != nil {
		return nil, err
	}
	after, err := s.entriesOf(ctx, copied)
	if err != nil {
		return nil, fmt.Errorf("read what was changed: %w", err)
	}
	now, err := Take(ctx, s.dir, s.options)
	if err != nil {
		return nil, err
	}
	if now.Digest != s.Digest {
		return nil, fmt.Errorf("the workspace %w", errChanged)
	}
	gone, made := difference(s.entries, after)
	for _, e := range made {
		if e.kind == link && leaves(e) {
			return nil, fmt.Errorf("the link %q leads to %q, outside of the workspace; such a link is not written back", e.path, e.content)
		}
	}
	source, err := openTree(copied)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, source.close()) }()
	target, err := openTree(s.dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, target.close()) }()
	if err := replace(ctx, source, target, gone, made); err != nil {
		return nil, err
	}
	return pathsOf(gone, made), nil
}

func pathsOf(lists ...[]entry) []string {
	var out []string
	for _, list := range lists {
		for _, e := range list {
			out = append(out, e.path)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// noIndex is a name that only root could give to a file.
const noIndex = "/dev/no-index"

// entriesOf lists a copy of the snapshot: what the snapshot has, and what git does
// not ignore. Git reads the settings and the index of the workspace, and nothing
// that a command may have written to the .git of the copy.
func (s Snapshot) entriesOf(ctx context.Context, copied string) (_ []entry, err error) {
	t, err := openTree(copied)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	l := listing{tree: t, options: s.options, seen: make(map[string]bool)}
	repo, err := repositoryOf(s.dir, s.options.roots(s.dir))
	if err != nil {
		return nil, err
	}
	if !repo.exists() {
		if err := l.below(ctx, ""); err != nil {
			return nil, err
		}
		return l.snapshot(copied).entries, nil
	}
	names := pathsOf(s.entries)
	// Without an index, submodules are folders like others.
	repo = repository{git: repo.git, tree: copied, index: noIndex}
	if err := repo.known(ctx, func(name string) error {
		if names = append(names, name); len(names) > 4*s.options.MaxFiles {
			return l.tooMany()
		}
		return nil
	}); err != nil {
		return nil, err
	}
	for _, name := range s.options.Include {
		names = append(names, path.Clean(name))
	}
	for _, name := range names {
		if err := l.add(ctx, name, l.below); err != nil {
			return nil, err
		}
	}
	return l.snapshot(copied).entries, nil
}

// difference lists what must be deleted, and what must be made after that. An
// entry that changed is in both. An empty folder in which there is something now
// is in neither.
func difference(before, after []entry) (gone, made []entry) {
	was, is := make(map[entry]bool), make(map[entry]bool)
	for _, e := range before {
		was[e] = true
	}
	for _, e := range after {
		is[e] = true
	}
	for _, e := range before {
		if !is[e] {
			gone = append(gone, e)
		}
	}
	for _, e := range after {
		if !was[e] {
			made = append(made, e)
		}
	}
	return gone, made
}

// leaves reports whether a link may lead out of the workspace. It may climb at
// its beginning only: behind another link, a .. can lead anywhere.
func leaves(e entry) bool {
	return path.IsAbs(e.content) || path.Clean(e.content) != e.content || !filepath.IsLocal(path.Join(path.Dir(e.path), e.content))
}

// replacement replaces entries of a folder and can undo it. What is replaced is
// moved to a folder beside, and nothing that is in the way is overwritten.
type replacement struct {
	from, to *tree
	aside    *os.Root // holds what is moved, and contents before they are placed
	name     string   // of the folder aside, in the top
	count    int
	undoing  []func() error
}

// replace moves the ones aside and makes the others in their place.
func replace(ctx context.Context, from, to *tree, gone, made []entry) (err error) {
	r := replacement{from: from, to: to, name: ".kairos-" + rand.Text()}
	top := to.open[0]
	if err := top.Mkdir(r.name, 0o700); err != nil {
		return err
	}
	if r.aside, err = top.OpenRoot(r.name); err != nil {
		return errors.Join(err, top.Remove(r.name))
	}
	defer func() { err = errors.Join(err, r.aside.Close()) }()
	if err := r.all(ctx, gone, made); err != nil {
		slices.Reverse(r.undoing)
		for _, undo := range r.undoing {
			if failed := undo(); failed != nil {
				return fmt.Errorf("%w; and it cannot be undone: %w; what was replaced is in the folder %s of the workspace", err, failed, r.name)
			}
		}
		return errors.Join(err, top.RemoveAll(r.name))
	}
	return top.RemoveAll(r.name)
}

func (r *replacement) all(ctx context.Context, gone, made []entry) error {
	modes := make(map[string]fs.FileMode)
	for _, e := range gone {
		if e.kind == empty {
			continue
		}
		mode, err := r.moveAside(ctx, e)
		if err != nil {
			return err
		}
		modes[e.path] = mode
	}
	for _, e := range gone {
		dir := path.Dir(e.path)
		if e.kind == empty {
			dir = e.path
		}
		if err := r.removeFolder(dir); err != nil {
			return err
		}
	}
	for _, e := range made {
		err := r.place(ctx, e, modes[e.path])
		if errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("write %q: something that the snapshot does not have is in the way; move it, or have the snapshot include it", e.path)
		}
		if err != nil {
			return fmt.Errorf("write %q: %w", e.path, err)
		}
	}
	return nil
}

// moveAside moves a file or link away and looks whether it is still what the
// snapshot has. It returns its permissions.
func (r *replacement) moveAside(ctx context.Context, e entry) (fs.FileMode, error) {
	in, base, err := r.to.parent(e.path)
	if err != nil {
		return 0, errors.Join(changed(e.path), err)
	}
	old := r.next()
	if err := between(in, base, r.aside, old, unix.Renameat); err != nil {
		return 0, errors.Join(changed(e.path), err)
	}
	r.undoing = append(r.undoing, func() error {
		in, base, err := r.to.parent(e.path)
		if err != nil {
			return err
		}
		return between(r.aside, old, in, base, unix.Renameat)
	})
	info, err := r.aside.Lstat(old)
	if err != nil {
		return 0, err
	}
	if !info.Mode().IsRegular() && info.Mode().Type() != fs.ModeSymlink {
		return 0, changed(e.path)
	}
	now, err := readEntry(ctx, r.aside, old, info, e.size, io.Discard)
	if now.path = e.path; err != nil || now != e {
		return 0, errors.Join(changed(e.path), err)
	}
	return info.Mode().Perm(), nil
}

func (r *replacement) next() string {
	r.count++
	return fmt.Sprint(r.count)
}

// between calls a function with the descriptors of two folders, so that no name
// on the way to them is looked up again.
func between(in *os.Root, name string, to *os.Root, as string, call func(int, string, int, string) error) (err error) {
	from, err := in.Open(".")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	into, err := to.Open(".")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, into.Close()) }()
	return call(int(from.Fd()), name, int(into.Fd()), as)
}

func hardLink(from int, name string, to int, as string) error {
	return unix.Linkat(from, name, to, as, 0)
}

// removeFolder removes a folder that the copy does not have any more, and those
// above it, unless something is left in them.
func (r *replacement) removeFolder(dir string) error {
	if dir == "." {
		return nil
	}
	if _, err := r.from.folder(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	in, base, err := r.to.parent(dir)
	if err == nil {
		err = in.Remove(base)
	}
	switch {
	case err == nil:
		r.undoing = append(r.undoing, func() error {
			in, base, err := r.to.parent(dir)
			if err != nil {
				return err
			}
			return in.Mkdir(base, modeFolder)
		})
	case errors.Is(err, fs.ErrNotExist): // it went with another file
	case errors.Is(err, unix.ENOTEMPTY), errors.Is(err, fs.ErrExist):
		return nil
	default:
		return err
	}
	return r.removeFolder(path.Dir(dir))
}

// place makes an entry where nothing is. The mode is that of the file that it
// replaces, or 0.
func (r *replacement) place(ctx context.Context, e entry, mode fs.FileMode) error {
	if e.kind == empty {
		return r.makeFolder(e.path)
	}
	if err := r.makeFolder(path.Dir(e.path)); err != nil {
		return err
	}
	in, base, err := r.to.parent(e.path)
	if err != nil {
		return err
	}
	if e.kind == link {
		err = in.Symlink(e.content, base)
	} else {
		err = r.file(ctx, e, mode, in, base)
	}
	if err != nil {
		return err
	}
	r.undoing = append(r.undoing, func() error {
		in, base, err := r.to.parent(e.path)
		if err != nil {
			return err
		}
		return in.Remove(base)
	})
	return nil
}

// file writes the content aside and gives it its name when it is complete.
func (r *replacement) file(ctx context.Context, e entry, mode fs.FileMode, in *os.Root, base string) error {
	content := r.next()
	whole := fs.FileMode(0o666) // less the umask
	if e.kind == executable {
		whole = 0o777
	}
	f, err := r.aside.OpenFile(content, os.O_WRONLY|os.O_CREATE|os.O_EXCL, whole)
	if err != nil {
		return err
	}
	copied := copyEntry(ctx, r.from, e, f)
	if mode != 0 {
		mode &^= 0o111
		if e.kind == executable {
			mode |= mode & 0o444 >> 2
		}
		copied = errors.Join(copied, f.Chmod(mode))
	}
	if err := errors.Join(copied, f.Close()); err != nil {
		return err
	}
	return between(r.aside, content, in, base, hardLink)
}

func (r *replacement) makeFolder(dir string) error {
	if dir == "." {
		return nil
	}
	if err := r.makeFolder(path.Dir(dir)); err != nil {
		return err
	}
	in, base, err := r.to.parent(dir)
	if err != nil {
		return err
	}
	if info, err := in.Lstat(base); err == nil && info.IsDir() {
		return nil
	}
	if err := in.Mkdir(base, 0o777); err != nil { // less the umask
		return err
	}
	r.undoing = append(r.undoing, func() error {
		in, base, err := r.to.parent(dir)
		if err != nil {
			return err
		}
		return in.Remove(base)
	})
	return nil
}
