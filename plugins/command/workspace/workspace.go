// Package workspace takes snapshots of a folder that other programs can change:
// it names each file with its content, puts exactly that into a private folder,
// compares it with a commit, and writes changes back. It starts no program but
// git, and git none of those that the repository names.
package workspace

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Options say what belongs to a snapshot, and how large it may be.
type Options struct {
	// Include lists files and folders that git ignores and the snapshot has
	// nevertheless, relative to the workspace, such as node_modules. They may be
	// missing.
	Include []string
	// Repositories are folders outside of the workspace that git may read: the
	// repository of a linked work tree, or one whose objects are shared.
	Repositories []string
	// MaxFiles bounds the number of files. The default is 50,000.
	MaxFiles int
	// MaxBytes bounds the size of all files together. The default is 2 GiB.
	MaxBytes int64
}

// Bounds of a snapshot that its options do not set.
const (
	defaultFiles = 50_000
	defaultBytes = 2 << 30
	maxDepth     = 64 // folders in one another
	maxSkipped   = 16 // names of special files that are kept for the reader
)

func (o Options) withDefaults() Options {
	if o.MaxFiles == 0 {
		o.MaxFiles = defaultFiles
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = defaultBytes
	}
	return o
}

// roots lists the folders that git may read.
func (o Options) roots(top string) []string {
	roots := []string{top}
	for _, path := range o.Repositories {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			roots = append(roots, real)
		}
	}
	return roots
}

// Snapshot is what a workspace held when it was taken: names, contents, targets
// of links, and which files are executable. It keeps digests and no content. In
// a git work tree it has what git does not ignore, the commit that is checked out,
// its branch and all tags; elsewhere, everything.
type Snapshot struct {
	// Digest is of all of it, as "sha256:" and 64 hexadecimal digits.
	Digest string
	// Files is the number of files and links, Bytes the size of all contents.
	Files int
	Bytes int64
	// Skipped names special files, such as sockets, which no snapshot has. It is
	// cut after 16 names.
	Skipped []string
	// History says how much of the history of the repository a copy has; empty without
	// a repository.
	History string

	dir     string // without links
	options Options
	entries []entry // sorted by path
	history history // of the repository, if there is one
	stamp   uint64  // sizes and times; 0: they say nothing
}

// kind is what stands at a path. Its value is part of the digest.
type kind byte

const (
	file       kind = 'f'
	executable kind = 'x'
	link       kind = 'l'
	// empty is a folder with nothing in it that belongs to the snapshot.
	empty kind = 'd'
)

// entry is one file, link or empty folder.
type entry struct {
	path string // relative, with slashes
	kind kind
	size int64
	// content is the SHA-256 of a file in lower-case hex, or the target of a link.
	content string
}

// errChanged is wrapped by errors about a file that is not as it was.
var errChanged = errors.New("was changed meanwhile; try again when nothing writes to the workspace")

// changed names the file that is not as it was.
func changed(name string) error { return fmt.Errorf("%q %w", name, errChanged) }

// Take takes a snapshot of a folder: the top of a git work tree, or a folder
// without .git. It reads only. Links are kept as links and never followed.
func Take(ctx context.Context, dir string, o Options) (Snapshot, error) {
	s, err := take(ctx, dir, o)
	if err != nil {
		return Snapshot{}, fmt.Errorf("take a snapshot of the workspace %s: %w", dir, err)
	}
	return s, nil
}

func take(ctx context.Context, dir string, o Options) (Snapshot, error) {
	top, err := realFolder(dir)
	if err != nil {
		return Snapshot{}, err
	}
	repo, err := repositoryOf(top, o.roots(top))
	if err != nil {
		return Snapshot{}, err
	}
	return takeFrom(ctx, top, repo, o.withDefaults())
}

// takeFrom takes a snapshot of a folder. The repository says what is ignored in it;
// without one, nothing is.
func takeFrom(ctx context.Context, top string, repo repository, o Options) (_ Snapshot, err error) {
	t, err := openTree(top)
	if err != nil {
		return Snapshot{}, err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	began := time.Now()
	l := listing{tree: t, options: o, seen: make(map[string]bool)}
	if repo.exists() {
		if err := noIgnoredFIFO(top); err != nil {
			return Snapshot{}, err
		}
		err = l.known(ctx, repo, "")
	} else {
		err = l.below(ctx, "")
	}
	if err != nil {
		return Snapshot{}, err
	}
	for _, name := range o.Include {
		if err := l.include(ctx, name); err != nil {
			return Snapshot{}, err
		}
	}
	s := l.snapshot(top)
	if repo.exists() {
		if s.history, err = repo.history(ctx); err != nil {
			return Snapshot{}, err
		}
		s.History = s.history.extent()
	}
	s.Digest = s.digest()
	if stamp, ok := s.stampSince(began); ok {
		s.stamp = stamp
	}
	return s, nil
}

func (l *listing) snapshot(top string) Snapshot {
	slices.SortFunc(l.entries, func(a, b entry) int { return strings.Compare(a.path, b.path) })
	return Snapshot{Files: len(l.entries), Bytes: l.bytes, Skipped: l.skipped, dir: top, options: l.options, entries: l.entries}
}

// digest is of every entry and the history. No path and no target has a NUL, so
// that no two different snapshots write the same.
func (s Snapshot) digest() string {
	sum := sha256.New()
	fmt.Fprintf(sum, "kairos workspace 2\x00")
	for _, e := range s.entries {
		fmt.Fprintf(sum, "%c %d %s\x00%s\x00", e.kind, e.size, e.path, e.content)
	}
	fmt.Fprintf(sum, "%s\x00", s.history.lines())
	return "sha256:" + hex.EncodeToString(sum.Sum(nil))
}

// realFolder is the absolute path of a folder, without links.
func realFolder(dir string) (string, error) {
	if !filepath.IsAbs(dir) {
		return "", fmt.Errorf("%q is not an absolute path", dir)
	}
	top, err := filepath.EvalSymlinks(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return "", errors.New("there is no such folder; create it, or correct the setting")
	}
	if err != nil {
		return "", err
	}
	info, err := os.Stat(top)
	if err != nil {
		return "", err
	}
	if !info.IsDir() {
		return "", errors.New("it is not a folder; the setting must name a folder")
	}
	return top, nil
}
