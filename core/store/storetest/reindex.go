package storetest

import (
	"context"
	"testing"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/library"
)

// Indexing is the contract of a store with a search index.
type Indexing interface {
	Protocols
	Integrity(ctx context.Context) ([]string, error)
}

// Reindexed is one database whose search index programs of several versions make.
type Reindexed struct {
	Open func(t *testing.T) Indexing
	// Record changes the version that the database has for its index, by how many it is
	// later than that of the program.
	Record func(t *testing.T, later int)
}

// RunReindex checks what a program does whose search index is of another version. empty
// returns an empty database.
func RunReindex(t *testing.T, empty func(t *testing.T) Reindexed) {
	for name, later := range map[string]int{"an earlier": -1, "a later": 1} {
		t.Run("a program that starts makes an index of "+name+" version again", func(t *testing.T) { startsAnew(t, empty(t), later) })
		t.Run("a program refuses an index of "+name+" version while it runs", func(t *testing.T) { refusesIndex(t, empty(t), later) })
	}
}

func wantSound(t *testing.T, s Indexing) {
	t.Helper()
	if damages, err := s.Integrity(t.Context()); err != nil || len(damages) > 0 {
		t.Errorf("Integrity = %q, %v, want no damage", damages, err)
	}
}

func startsAnew(t *testing.T, d Reindexed, later int) {
	before := d.Open(t)
	defer mustClose(t, before)
	herons, otters := written("Feeding herons", "Catch | Take an anchovy."), written("Feeding otters", "Catch | Take a herring.")
	mustSave(t, before, herons, otters)
	wantTitles(t, before, "anchovy", herons.Title)
	d.Record(t, later)
	s := d.Open(t)
	defer mustClose(t, s)
	wantTitles(t, s, "anchovy", herons.Title)
	wantSound(t, s)
	// Caches of the index before stay valid.
	mustDelete(t, s, otters, 1)
	walruses := written("Feeding walruses", "Catch | Take a clam.")
	mustSave(t, before, walruses)
	for _, s := range []Protocols{before, s} {
		wantTitles(t, s, "herring")
		wantTitles(t, s, "clam", walruses.Title)
		wantTitles(t, s, "anchovy", herons.Title)
	}
	wantSound(t, s)
}

func refusesIndex(t *testing.T, d Reindexed, later int) {
	s := d.Open(t)
	defer mustClose(t, s)
	herons := written("Feeding herons", "Catch | Take an anchovy.")
	mustSave(t, s, herons)
	d.Record(t, later)
	_, searched := s.Search(t.Context(), library.Query{Text: "anchovy", Spaces: []string{mine}, Limit: 1})
	_, stored := s.SaveChains(t.Context(), fresh(written("Feeding otters", "Catch | Take a herring.")))
	for call, err := range map[string]error{
		"Search": searched, "SaveChains": stored, "DeleteChain": s.DeleteChain(t.Context(), mine, herons.ID, 1),
	} {
		wantCode(t, call+" beside another version", err, fault.StoreFailed)
	}
	if _, err := s.Chain(t.Context(), []string{mine}, herons.ID); err != nil {
		t.Errorf("Chain = %v, want nil", err)
	}
	d.Record(t, 0)
	wantTitles(t, s, "anchovy", herons.Title)
	wantSound(t, s)
}
