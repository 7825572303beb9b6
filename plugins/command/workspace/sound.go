package workspace

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Bounds of what is looked at before git is started.
const (
	maxPointer    = 16 << 10 // bytes of a file that names a folder
	maxRepository = 1 << 20  // files and folders
	maxAlternates = 5        // folders of objects that lead to one another, as for git
)

// errNoRepository is wrapped where .git is not what git makes of it.
var errNoRepository = errors.New("not a git repository")

// repositoryOf finds the repository whose work tree has its top in the folder, and
// looks at the files that git reads before git is started: a link could lead it to a
// repository of somebody else, a FIFO could keep it waiting. All of them must lie in
// the roots, whose paths have no links. Somebody can still change them afterwards. So
// nothing relies on this alone: calls of git have a deadline, and what comes from the
// repository is checked against the ids of its objects.
func repositoryOf(dir string, roots []string) (repository, error) {
	r := repository{git: filepath.Join(dir, dotGit), tree: dir, roots: roots}
	if _, err := os.Lstat(r.git); errors.Is(err, fs.ErrNotExist) {
		return repository{}, nil
	}
	if err := r.examine(); err != nil {
		return repository{}, fmt.Errorf("%s: %w", r.git, err)
	}
	return r, nil
}

func (r *repository) examine() error {
	own, err := r.real(r.git)
	if err != nil {
		return err
	}
	if info, err := os.Stat(own); err != nil {
		return err
	} else if !info.IsDir() { // of a linked work tree or a submodule
		named, err := pointer(own, "gitdir: ")
		if err != nil {
			return err
		}
		if own, err = r.real(in(r.tree, named)); err != nil {
			return err
		}
	}
	common := own
	if named, err := pointer(filepath.Join(own, "commondir"), ""); err == nil {
		if common, err = r.real(in(own, named)); err != nil {
			return err
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, folder := range slices.Compact([]string{own, common}) {
		if err := r.plain(folder); err != nil {
			return err
		}
	}
	return r.objectsIn(filepath.Join(common, "objects"), 0)
}

// in is a path that is relative to a folder unless it is absolute.
func in(folder, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(folder, path)
}

// real is a path without links, which must lie in one of the roots.
func (r *repository) real(path string) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%w: %s does not exist", errNoRepository, path)
	}
	if err != nil {
		return "", err
	}
	for _, root := range r.roots {
		if real == root || strings.HasPrefix(real, strings.TrimSuffix(root, "/")+"/") {
			return real, nil
		}
	}
	return "", fmt.Errorf("git would read %s, which lies outside of the workspace; if that is meant, have the operator list its folder in repositories", real)
}

// pointer reads a file that names a folder.
func pointer(path, prefix string) (string, error) {
	content, err := small(path, maxPointer)
	if err != nil {
		return "", err
	}
	named, ok := strings.CutPrefix(strings.TrimRight(content, "\r\n"), prefix)
	if !ok || named == "" {
		return "", fmt.Errorf("%w: %s names no folder", errNoRepository, path)
	}
	return named, nil
}

// small reads a regular file of at most so many bytes.
func small(path string, most int64) (string, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() || info.Size() > most {
		return "", fmt.Errorf("%s is not a file of at most %d bytes", path, most)
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // should it have become a FIFO
	if err != nil {
		return "", err
	}
	content, err := io.ReadAll(io.LimitReader(f, most))
	return string(content), errors.Join(err, f.Close())
}

// plain checks the files of a repository that git reads, except for the objects.
func (r *repository) plain(folder string) error {
	names, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, d := range names {
		switch name := d.Name(); {
		case name == "refs" || name == "info" || name == "reftable":
			err = r.walk(filepath.Join(folder, name), nil)
		case name == "objects":
			err = onlyFiles(filepath.Join(folder, name), d)
		case name == "HEAD" || name == "commondir" || name == "packed-refs" || name == "shallow" ||
			strings.HasPrefix(name, "config") || strings.HasPrefix(name, "index") || strings.HasPrefix(name, "sharedindex."):
			err = onlyFiles(filepath.Join(folder, name), d)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// objectsIn checks a folder of objects and those to which it leads.
func (r *repository) objectsIn(folder string, depth int) error {
	if depth > maxAlternates {
		return fmt.Errorf("more than %d folders of objects lead to one another", maxAlternates)
	}
	if err := r.walk(folder, func(name string, size int64) {
		r.size += size
		r.partial = r.partial || strings.HasSuffix(name, ".promisor")
	}); err != nil {
		return err
	}
	others, err := small(filepath.Join(folder, "info", "alternates"), maxPointer)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for line := range strings.Lines(others) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || line[0] == '#' {
			continue
		}
		other, err := r.real(in(folder, line))
		if err != nil {
			return err
		}
		if err := r.objectsIn(other, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// walk visits the files below a folder, which must be regular ones.
func (r *repository) walk(folder string, visit func(name string, size int64)) error {
	return filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // git deletes files that it has packed
		}
		if err == nil {
			err = onlyFiles(path, d)
		}
		if err != nil || d.IsDir() {
			return err
		}
		if r.files++; r.files > maxRepository {
			return fmt.Errorf("it has more than %d files; run git gc", maxRepository)
		}
		if visit != nil {
			if info, err := d.Info(); err == nil {
				visit(d.Name(), info.Size())
			}
		}
		return nil
	})
}

// onlyFiles refuses what is not a regular file or a folder.
func onlyFiles(path string, d fs.DirEntry) error {
	if d.IsDir() || d.Type().IsRegular() {
		return nil
	}
	return fmt.Errorf("%s is neither a regular file nor a folder; replace it by one", path)
}

// maxLooked bounds the files among which a FIFO is looked for.
const maxLooked = 1 << 20

// noIgnoredFIFO refuses a file .gitignore that git would wait for.
func noIgnoredFIFO(top string) error {
	looked := 0
	return filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil || isGit(filepath.Base(path)) && d.IsDir() {
			return skipped(d)
		}
		if looked++; looked > maxLooked {
			return fs.SkipAll
		}
		if d.Name() == ".gitignore" && d.Type()&fs.ModeSymlink == 0 { // git does not follow links
			return onlyFiles(path, d)
		}
		return nil
	})
}

// skipped continues after a folder that cannot be read: others change the work tree meanwhile.
func skipped(d fs.DirEntry) error {
	if d != nil && d.IsDir() {
		return fs.SkipDir
	}
	return nil
}
