package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// listing collects what belongs to a snapshot.
type listing struct {
	tree    *tree
	options Options

	seen    map[string]bool // paths that have been looked at
	entries []entry
	skipped []string
	bytes   int64
	nested  int // repositories in the repository
}

// maxNested bounds the repositories in a repository: each costs a start of git.
const maxNested = 256

// known adds the files that the repository knows or does not ignore. The work
// tree of the repository is the folder with that path, or the top.
func (l *listing) known(ctx context.Context, repo repository, dir string) error {
	var names []string
	err := repo.known(ctx, func(name string) error {
		if names = append(names, path.Join(dir, name)); len(names) > 4*l.options.MaxFiles {
			return l.tooMany()
		}
		return nil
	})
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if err := l.add(ctx, name, l.repository); err != nil {
			return err
		}
	}
	return nil
}

// repository adds a folder that a repository names as one thing: another
// repository, or nothing yet.
func (l *listing) repository(ctx context.Context, name string) error {
	in, err := l.tree.folder(name)
	if err != nil {
		return err
	}
	if _, err := in.Lstat(dotGit); err == nil {
		if l.nested++; l.nested > maxNested {
			return fmt.Errorf("it has more than %d repositories in it; name a smaller workspace", maxNested)
		}
		top := filepath.Join(l.tree.open[0].Name(), name)
		repo, err := repositoryOf(top, l.options.roots(l.tree.open[0].Name()))
		if err != nil {
			return err
		}
		return l.known(ctx, repo, name)
	}
	if names, err := namesIn(in); err != nil || len(names) > 0 {
		return err // a file became a folder: git names what is in it
	}
	return l.take(name, entry{kind: empty})
}

// include adds a path although git ignores it. It may be missing: a command can
// still make it.
func (l *listing) include(ctx context.Context, name string) error {
	name = path.Clean(strings.TrimSuffix(name, "/"))
	if !proper(name) {
		return fmt.Errorf("include: %q does not name a file or folder of the workspace; write a relative path without .. and .git", name)
	}
	return l.add(ctx, name, l.below)
}

// below adds everything in a folder but .git.
func (l *listing) below(ctx context.Context, dir string) error {
	in, err := l.tree.folder(dir)
	if err != nil {
		return err
	}
	names, err := namesIn(in)
	if err != nil {
		return fmt.Errorf("list the folder %q: %w", dir, err)
	}
	if len(names) == 0 && dir != "" {
		return l.take(dir, entry{kind: empty})
	}
	for _, name := range names {
		if err := l.add(ctx, path.Join(dir, name), l.below); err != nil {
			return err
		}
	}
	return nil
}

// namesIn lists a folder, sorted and without .git.
func namesIn(in *os.Root) (_ []string, err error) {
	f, err := in.Open(".")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	names, err := f.Readdirnames(-1)
	slices.Sort(names)
	return slices.DeleteFunc(names, isGit), err
}

// add adds what stands at a path, if anything does. Folders are left to the
// function.
func (l *listing) add(ctx context.Context, name string, folder func(context.Context, string) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if l.seen[name] {
		return nil
	}
	l.seen[name] = true
	if strings.Count(name, "/") >= maxDepth {
		return fmt.Errorf("%q lies deeper than %d folders", name, maxDepth)
	}
	in, base, err := l.tree.parent(name)
	var info fs.FileInfo
	if err == nil {
		info, err = in.Lstat(base)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // the repository knows it, the work tree does not have it
	case err != nil:
		return err
	case info.IsDir():
		return folder(ctx, name)
	case info.Mode().IsRegular(), info.Mode().Type() == fs.ModeSymlink:
		e, err := readEntry(ctx, in, base, info, l.options.MaxBytes-l.bytes, io.Discard)
		if errors.Is(err, errTooMuch) {
			return fmt.Errorf("its files have more than %d bytes; name a smaller workspace, or raise the limit", l.options.MaxBytes)
		}
		if err != nil {
			return fmt.Errorf("read %q: %w", name, err)
		}
		return l.take(name, e)
	}
	if len(l.skipped) < maxSkipped {
		l.skipped = append(l.skipped, name)
	}
	return nil
}

// readEntry reads a regular file or a link.
func readEntry(ctx context.Context, in *os.Root, name string, info fs.FileInfo, limit int64, to io.Writer) (entry, error) {
	if info.Mode().IsRegular() {
		return read(ctx, in, name, info, limit, to)
	}
	target, err := in.Readlink(name)
	if err != nil {
		return entry{}, errors.Join(changed(name), err)
	}
	return entry{kind: link, size: int64(len(target)), content: target}, nil
}

func (l *listing) take(name string, e entry) error {
	if len(l.entries) >= l.options.MaxFiles {
		return l.tooMany()
	}
	e.path = name
	l.entries = append(l.entries, e)
	if e.kind == file || e.kind == executable {
		l.bytes += e.size
	}
	return nil
}

func (l *listing) tooMany() error {
	return fmt.Errorf("it has more than %d files; name a smaller workspace, have git ignore what commands do not need, or raise the limit", l.options.MaxFiles)
}

// dotGit is the name of what git keeps in a work tree.
const dotGit = ".git"

// isGit reports whether git could take the name for its own, on any system.
func isGit(name string) bool { return strings.EqualFold(name, dotGit) }

// proper reports whether a path lies in the workspace and is none of git's own.
func proper(name string) bool {
	return filepath.IsLocal(name) && path.Clean(name) == name && name != "." && !slices.ContainsFunc(strings.Split(name, "/"), isGit)
}
