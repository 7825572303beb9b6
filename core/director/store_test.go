package director_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/clock"
	"github.com/kairos-mcp/kairos/core/director"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/core/usecases"
)

// fullDisk refuses the next saves of runs.
type fullDisk struct {
	runs.Runs
	refuses int
}

func (d *fullDisk) SaveRun(ctx context.Context, s runs.Save) error {
	if d.refuses == 0 {
		return d.Runs.SaveRun(ctx, s)
	}
	d.refuses--
	return fault.New(fault.StoreFailed, "the disk is full")
}

// A step that could not be stored is open, whatever was known of it in memory: the last
// one, too, after which there is none.
func TestAStepThatIsNotStoredIsNotSolved(t *testing.T) {
	w := newWorld(t, nil)
	uris := w.mint("# Two\n\n## One\n\nDo it.\n\n```json\n{\"challenge\":{\"type\":\"shell\",\"shell\":{\"cmd\":\"true\"}}}\n```\n\n" +
		"## Two\n\nDo it.\n\n```json\n{\"challenge\":{\"type\":\"shell\",\"shell\":{\"cmd\":\"true\"}}}\n```\n")
	disk, store := &fullDisk{Runs: w.store}, engineStore(w.store)
	store.Runs = disk
	w.Engine = newEngine(store, w.setups, usecases.Options{Options: director.Options{SolutionFields: []string{"shell"}, Clock: clock.New(w.machine)}}, slog.New(slog.DiscardHandler))
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	r := w.begin(uris[0])
	for i, uri := range uris {
		for _, refuses := range []int{1, 2} {
			disk.refuses = refuses
			_, err := w.Next(t.Context(), w.caller, api.NextRequest{URI: uri, Solution: []byte(solve(r, works))})
			if fault.CodeOf(err) != fault.StoreFailed {
				t.Fatalf("step %d: Next = %v, want %s", i+1, err, fault.StoreFailed)
			}
			disk.refuses = 0
			if n := len(w.state(runOf(r)).Proofs); n != i {
				t.Errorf("step %d: %d proofs are stored, want %d", i+1, n, i)
			}
		}
		r = w.next(uri, solve(r, works))
		w.code(r, "")
	}
	if !strings.Contains(r.Message, "All steps are complete") {
		t.Errorf("the run is not complete: %+v", r)
	}
}
