package main

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/sdk/filecheck"
)

// maxDepth is how many folders below a root are looked into.
const maxDepth = 32

// matching looks at all files that match the entry's glob. A folder that
// cannot be read fails the entry: something that matters could be there.
func (l *look) matching(c filecheck.Check) []filecheck.Finding {
	var found []filecheck.Finding
	whole := filecheck.Finding{Path: c.Name(), Check: filecheck.Exists}
	counted := make(map[string]bool) // roots may lie in one another
	for _, root := range l.roots {
		names, err := l.walk(root, ".", c.Glob.Start(), 0)
		if err != nil {
			whole.Reason = err.Error()
			return append(found, whole)
		}
		for _, name := range names {
			real := filepath.Join(root.real, name)
			if counted[real] {
				continue
			}
			counted[real] = true
			if c.Absent {
				continue
			}
			f, err := l.file(root, name, c)
			if err != nil {
				f.Reason = errChanged.Error()
			}
			found = append(found, f)
		}
	}
	if failed, why := c.Count(len(counted)); failed != "" {
		whole.Check, whole.Reason = failed, why
		return append(found, whole)
	}
	if len(found) == 0 {
		whole.Check, whole.Passed = c.Made(), true
		found = append(found, whole)
	}
	return found
}

// walk lists what matches below a folder, links and special files too, sorted.
// It follows no link.
func (l *look) walk(root opened, dir string, w filecheck.Walk, depth int) ([]string, error) {
	if depth > maxDepth {
		return nil, refuse("folders are nested deeper than %d", maxDepth)
	}
	entries, err := l.list(root, dir, w)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		name := path.Join(dir, e.name)
		if !e.folder {
			if w.Takes(e.name) {
				out = append(out, name)
			}
			continue
		}
		if below := w.Enter(e.name); !below.Over() {
			deeper, err := l.walk(root, name, below, depth+1)
			if err != nil {
				return nil, err
			}
			out = append(out, deeper...)
		}
	}
	return out, nil
}

// entry is a name in a folder.
type entry struct {
	name   string
	folder bool
}

// list reads the names in a folder that may matter, sorted.
func (l *look) list(root opened, dir string, w filecheck.Walk) ([]entry, error) {
	if only := w.Only(); only != "" {
		info, err := l.lstat(root, path.Join(dir, only))
		if errors.Is(err, errNothing) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		return []entry{{only, info.IsDir()}}, nil
	}
	f, err := l.openFolder(root, dir)
	if err != nil {
		return nil, err
	}
	out, err := l.names(f)
	if closed := f.Close(); err == nil && closed != nil {
		err = refuse("a folder cannot be read")
	}
	slices.SortFunc(out, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	return out, err
}

// openFolder opens the very folder that stands there, and no link to one.
func (l *look) openFolder(root opened, dir string) (*os.File, error) {
	before, err := root.Lstat(dir)
	if err != nil {
		return nil, refuse("a folder cannot be looked at")
	}
	f, err := root.Open(dir)
	if err != nil {
		return nil, refuse("a folder cannot be opened")
	}
	if after, err := f.Stat(); err != nil || !after.IsDir() || !os.SameFile(before, after) {
		return nil, errors.Join(errChanged, f.Close())
	}
	return f, nil
}

func (l *look) names(f *os.File) ([]entry, error) {
	var out []entry
	for {
		some, err := f.ReadDir(256)
		for _, e := range some {
			if err := l.mayRead(); err != nil {
				return nil, err
			}
			out = append(out, entry{e.Name(), e.Type()&fs.ModeType == fs.ModeDir})
		}
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, refuse("a folder cannot be read")
		}
	}
}
