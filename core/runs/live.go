package runs

import (
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/kairos-mcp/kairos/core/run"
)

const (
	maxLiveRuns  = 4096
	maxLiveBytes = 32 << 20 // of what was proved, of all of them
)

// liveRuns are the runs that were read or changed last, with their past, so that a
// call does not read what earlier steps proved. Another process may have changed a
// run since: its revision tells. It is safe for concurrent use.
type liveRuns struct {
	mu    sync.Mutex // guards the fields below
	runs  *lru.Cache[run.ID, run.Run]
	bytes int
}

func newLiveRuns() *liveRuns {
	l := &liveRuns{}
	// It fails for a size below 1 only.
	l.runs, _ = lru.NewWithEvict(maxLiveRuns, func(_ run.ID, r run.Run) { l.bytes -= size(r) })
	return l
}

// get returns the run as this process knows it; the zero value if it does not.
func (l *liveRuns) get(id run.ID) run.Run {
	l.mu.Lock()
	defer l.mu.Unlock()
	r, _ := l.runs.Get(id)
	return r
}

// put keeps a run as it is stored, unless it has ended.
func (l *liveRuns) put(r run.Run) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.runs.Remove(r.ID)
	if !r.State.Live() {
		return
	}
	l.runs.Add(r.ID, r)
	// A larger run stays until another one is used: to read it at each of its steps
	// would take longer with each.
	for l.bytes += size(r); l.bytes > maxLiveBytes && l.runs.Len() > 1; {
		l.runs.RemoveOldest()
	}
}

func (l *liveRuns) drop(id run.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.runs.Remove(id)
}

// size is about how many bytes a run takes in memory.
func size(r run.Run) int {
	n := 4096 + len(r.Input)
	for _, ev := range r.Evidence {
		n += 1024 + len(ev.Proof) + len(ev.Output)
		for _, a := range ev.Answers {
			n += len(a.Value)
		}
	}
	return n
}
