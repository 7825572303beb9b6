package driverhost

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"slices"

	"github.com/kairos-mcp/kairos/core/driverhost/sandbox"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/filecheck"
)

// An isolated driver sees what it saw when it started. So the host starts a driver with
// the feature roots anew, with the folders that a client or a run has named mounted for
// reading. The folders add up until the driver gets a slot of its own: a client names
// the same few again and again.

// maxRoots is how many folders of clients a driver sees. With more it sees only those
// of the latest call.
const maxRoots = 64

// rootsOf returns the folders of this machine that a call is about and the driver does
// not see by its settings, or why it must not see one.
func rootsOf(s *slot, in driver.Input, c driver.Client, reply json.RawMessage) ([]string, error) {
	level := s.isolation()
	if level == LevelNone || !s.spec.entry.Descriptor.Has(driver.FeatureRoots) {
		return nil, nil
	}
	var roots []string
	named := filecheck.Named(in, c, reply)
	for _, root := range named[:min(len(named), maxRoots)] {
		if info, err := os.Stat(root); err != nil || !info.IsDir() || sandbox.OfSystem(root) {
			continue // the driver says that it is not there
		}
		if _, err := s.host.confinement.view(use{read: []string{root}}, level); err != nil {
			return nil, fmt.Errorf("the driver must not look into the root: %w", err)
		}
		roots = append(roots, root)
	}
	return roots, nil
}

// sees reports whether the generation was started with these roots.
func (g *generation) sees(roots []string) bool {
	return !slices.ContainsFunc(roots, func(root string) bool {
		return !slices.ContainsFunc(g.roots, func(seen string) bool { return sandbox.In(seen, root) })
	})
}

// widen takes a generation out of service that does not see the roots, so that the next
// one does. Its calls end undisturbed.
func widen(s *slot, g *generation, roots []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.Concat(s.roots, roots)
	slices.Sort(all)
	if all = slices.Compact(all); len(all) > maxRoots {
		all = roots
	}
	s.roots = all
	if s.gen != g || s.state != Ready || s.closed {
		return
	}
	s.stopIdleTimer()
	s.gen = nil
	s.move(idled)
	s.journal.note(g.number, slog.LevelInfo, "stopped: it is started again to see the roots of a client")
	s.host.work.Go(func() { g.retire(s.timeouts().call, s.timeouts().stop) })
}
