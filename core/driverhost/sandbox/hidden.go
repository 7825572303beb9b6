package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Hidden lists the files that a process must not see. Files are named by patterns of
// path/filepath, because files beside a database come and go.
type Hidden struct {
	// Secret matches files that nothing but this program opens. Only the last
	// element of a path may have wildcards; where it is * the folder is covered.
	Secret []string
	// Shielded matches files that are hidden like those of Secret, but may stay
	// readable in a folder of the system, such as /usr, where Landlock is used.
	Shielded []string
	// Own matches files that are not secret but belong to this program, like those
	// of Secret.
	Own []string
	// ReadOnly lists folders in which nothing may be changed.
	ReadOnly []string
	// Open lists folders in which the processes themselves make files, such as
	// sockets. A folder that is or contains one is not covered as a whole.
	Open []string
}

// Cover is one mount that hides something.
type Cover struct {
	Path     string
	ReadOnly bool // the folder stays readable
	// Private: each process sees another part of the folder, so that it is covered
	// anew for each.
	Private bool
	// Except is a folder in a private one that stays as it is; empty: none.
	Except string
}

// Covers lists what has to be covered at present. A folder in which everything
// belongs to this program, an empty one too, is covered as a whole: so files that are made or
// replaced later are hidden too. In any other folder each file is covered by
// itself, and one that is made later is not hidden from a process that runs.
func (h Hidden) Covers() []Cover {
	var out []Cover
	done := map[string]bool{}
	add := func(path string, readOnly bool) {
		real, err := filepath.EvalSymlinks(path)
		if err != nil || done[real] {
			return
		}
		done[real] = true
		out = append(out, Cover{Path: real, ReadOnly: readOnly})
	}
	for _, dir := range h.ReadOnly {
		if h.ownFolder(dir) && !h.open(dir) {
			add(dir, true)
		}
	}
	for _, pattern := range h.all() {
		dir := unescape(filepath.Dir(pattern))
		if !h.readOnly(dir) && !h.open(dir) && (filepath.Base(pattern) == "*" || h.ownFolder(dir)) {
			add(dir, false)
			continue
		}
		found, _ := filepath.Glob(pattern)
		for _, path := range found {
			add(path, false)
		}
	}
	return out
}

func (h Hidden) all() []string { return slices.Concat(h.Secret, h.Shielded) }

func (h Hidden) readOnly(dir string) bool {
	for _, d := range h.ReadOnly {
		if filepath.Clean(d) == dir {
			return true
		}
	}
	return false
}

// open reports whether a folder is or contains one that has to stay open.
func (h Hidden) open(dir string) bool {
	return slices.ContainsFunc(h.Open, func(o string) bool { return real(o) == real(dir) || inside(real(dir), real(o)) })
}

// ownFolder reports whether everything in a folder belongs to this program.
func (h Hidden) ownFolder(dir string) bool {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if !matches(h.all(), path) && !matches(h.Own, path) {
			return false
		}
	}
	return true
}

func matches(patterns []string, path string) bool {
	for _, p := range patterns {
		if ok, _ := filepath.Match(p, path); ok {
			return true
		}
	}
	return false
}

// within returns a file that one of the patterns matches and that lies in a
// folder, or is the path itself; empty: there is none. It need not exist yet.
func within(path string, patterns []string) string {
	path = real(path)
	for _, pattern := range patterns {
		dir := real(unescape(filepath.Dir(pattern)))
		name := filepath.Base(pattern)
		ok, _ := filepath.Match(name, filepath.Base(path))
		if ok && filepath.Dir(path) == dir || path == dir || inside(path, dir) {
			return filepath.Join(dir, unescape(name))
		}
	}
	return ""
}

// unescape is the path that a pattern without wildcards names.
func unescape(pattern string) string {
	var out strings.Builder
	for i := 0; i < len(pattern); i++ {
		if pattern[i] == '\\' && i+1 < len(pattern) {
			i++
		}
		out.WriteByte(pattern[i])
	}
	return out.String()
}

// real follows links as far as the path exists.
func real(path string) string {
	if r, err := filepath.EvalSymlinks(path); err == nil {
		return r
	}
	return filepath.Clean(path)
}

func inside(dir, path string) bool {
	return strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}
