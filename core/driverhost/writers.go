package driverhost

import (
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"github.com/kairos-mcp/kairos/core/driverhost/sandbox"
)

// reaches are those of the drivers of a host, by name. It is safe for concurrent use.
type reaches struct {
	mu sync.Mutex // guards the field below
	of map[string]reach
}

// reach is what a driver that was started could have written.
type reach struct {
	all     bool // whatever the server's user may
	folders []string
}

// started records that a driver is started.
func (r *reaches) started(s *slot) {
	free := s.isolation() == LevelNone
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of == nil {
		r.of = map[string]reach{}
	}
	before := r.of[s.spec.entry.Name]
	folders := slices.Concat(before.folders, useOf(s.spec).write)
	slices.Sort(folders)
	r.of[s.spec.entry.Name] = reach{before.all || free, slices.Compact(folders)}
}

// Writers lists the drivers that could have written a file, or put another in its place:
// those that were started without isolation, or with a folder that contains it. A cover
// over a file ends when somebody replaces the file.
func (h *Host) Writers(path string) []string {
	path = sandbox.Real(path)
	if !writable(filepath.Dir(path)) && syscall.Access(path, writeAccess) != nil {
		return nil // this account cannot
	}
	h.reaches.mu.Lock()
	defer h.reaches.mu.Unlock()
	var names []string
	for _, name := range slices.Sorted(maps.Keys(h.reaches.of)) {
		r := h.reaches.of[name]
		if r.all || slices.ContainsFunc(r.folders, func(dir string) bool { return sandbox.In(sandbox.Real(dir), path) }) {
			names = append(names, name)
		}
	}
	return names
}
