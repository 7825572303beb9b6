package runs

import (
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/kairos-mcp/kairos/core/run"
)

const (
	// absentFor is how long what was absent when a call read its run counts as absent.
	// Another call may store it meanwhile, and drivers and people may take much longer.
	absentFor = 100 * time.Millisecond
	// presumedFor is how long it counts for the calls that come later. Other processes
	// may store it meanwhile; this one forgets what it knew.
	presumedFor = 20 * time.Millisecond
	maxAbsences = 1024
	// freshFor is how long a run counts as this process knows it. Drivers and models are
	// asked about it before the store can say that it has changed.
	freshFor = time.Minute
)

// absence is what the store held nothing of at a time.
type absence struct {
	Absent
	at time.Time // right before it was read
}

// within is what was absent no longer ago.
func (a absence) within(d time.Duration) Absent {
	if time.Since(a.at) > d {
		return Absent{}
	}
	return a.Absent
}

// whose is what an absence depends on, see Absent.
type whose struct{ principal, space, protocolSpace string }

// absences are what was absent a moment ago. It is safe for concurrent use.
type absences struct {
	mu    sync.Mutex // guards the fields below
	known *lru.Cache[whose, absence]
	// forgotten is how often all was forgotten: what was read before does not count.
	forgotten int
}

func newAbsences() *absences {
	a := &absences{}
	a.known, _ = lru.New[whose, absence](maxAbsences) // it fails for a size below 1 only
	return a
}

// reading returns what keep takes, for what is read from now on.
func (a *absences) reading() (forgotten int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.forgotten
}

func (a *absences) keep(w whose, read absence, forgotten int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if forgotten == a.forgotten {
		a.known.Add(w, read)
	}
}

func (a *absences) get(w whose) absence {
	a.mu.Lock()
	defer a.mu.Unlock()
	read, _ := a.known.Get(w)
	return read
}

func (a *absences) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.known.Purge()
	a.forgotten++
}

// Stored makes the calls that begin from now on look for grants and declines: some were
// stored.
func (k *Keeper) Stored() { k.absences.forget() }

// whose returns false for a run whose protocol is not in memory.
func (k *Keeper) whose(r run.Run) (whose, bool) {
	chain, ok := k.pinned.Get(r.Pin)
	return whose{r.Principal, r.Space, chain.Space}, ok
}

// presume is a change of a run as this process knows it. It returns false if the run may
// well have changed, or if that would take more reads than to ask the store for it.
func (k *Keeper) presume(id run.ID) (*Change, bool) {
	r := k.live.get(id)
	w, ok := k.whose(r.Run)
	if !ok || time.Since(r.at) > freshFor {
		return nil, false
	}
	a := k.absences.get(w)
	return &Change{Run: r.Run, keeper: k, absent: a}, a.within(presumedFor) != Absent{}
}
