package driverhost

import (
	"maps"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/kairos-mcp/kairos/core/driverhost/sandbox"
)

// reach is what a driver that was started could have written.
type reach struct {
	all     bool // whatever the server's user may
	folders []string
}

// reached records that a driver is started.
func (h *Host) reached(s *slot) {
	free := s.isolation() == LevelNone
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.reaches == nil {
		h.reaches = map[string]reach{}
	}
	r := h.reaches[s.entry.Name]
	r.all = r.all || free
	r.folders = slices.Concat(r.folders, s.use().write)
	slices.Sort(r.folders)
	r.folders = slices.Compact(r.folders)
	h.reaches[s.entry.Name] = r
}

// Writers lists the drivers that could have written a file, or put another in its place:
// those that were started without isolation, or with a folder that contains it. A cover
// over a file ends when somebody replaces the file.
func (h *Host) Writers(path string) []string {
	path = sandbox.Real(path)
	if !writable(filepath.Dir(path)) && syscall.Access(path, writeAccess) != nil {
		return nil // this account cannot
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	var names []string
	for _, name := range slices.Sorted(maps.Keys(h.reaches)) {
		r := h.reaches[name]
		if r.all || slices.ContainsFunc(r.folders, func(dir string) bool { return sandbox.In(sandbox.Real(dir), path) }) {
			names = append(names, name)
		}
	}
	return names
}
