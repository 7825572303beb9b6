package storetest

import (
	"context"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/protocol"
)

// Catching is the contract of a store that programs with different versions of the
// search index share.
type Catching interface {
	Protocols
	CatchUp(ctx context.Context) error
	Integrity(ctx context.Context) ([]string, error)
}

// Shared is a database that programs with different versions of the search index share.
type Shared struct {
	Open func(t *testing.T) Catching
	// Record changes the version that the database says its index has, by how many it is
	// newer than the program. That makes the program an older one, or the newer one again.
	Record func(t *testing.T, newer int)
}

// older makes the program under test older than the index.
func (d Shared) older(t *testing.T) { t.Helper(); d.Record(t, 1) }

// newer makes it the program that made the index.
func (d Shared) newer(t *testing.T) { t.Helper(); d.Record(t, 0) }

// RunVersions checks what programs do whose search index is not of their version. empty
// returns an empty database.
func RunVersions(t *testing.T, empty func(t *testing.T) Shared) {
	for name, check := range map[string]func(*testing.T, Shared){
		"an older program stores, and a newer one finds it":   olderStores,
		"an older program starts, and searches outlines":      olderStarts,
		"an older program sees what others store and delete":  olderFollows,
		"a newer program makes the index of an older one new": newerRenews,
	} {
		t.Run(name, func(t *testing.T) { check(t, empty(t)) })
	}
	t.Run("versions take turns", func(t *testing.T) { versionsTakeTurns(t, empty) })
}

// mustStoreOver stores a chain in place of a revision, and returns it with the new one.
func mustStoreOver(t *testing.T, s Protocols, c protocol.Chain, replaces int64) protocol.Chain {
	t.Helper()
	revisions, err := s.SaveChains(t.Context(), []library.Change{{Chain: c, Replaces: replaces}})
	if err != nil {
		t.Fatalf("SaveChains(%q) = %v, want nil", c.Title, err)
	}
	c.Revision = revisions[0]
	return c
}

func wantTitles(t *testing.T, s Protocols, query string, want ...string) {
	t.Helper()
	got := titles(mustSearch(t, s, query, mine))
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("Search(%q) = %q, want %q", query, got, want)
	}
}

func wantReduced(t *testing.T, s Protocols, want bool) {
	t.Helper()
	if err := s.Reduced(); (fault.CodeOf(err) == fault.StoreFailed) != want {
		t.Errorf("Reduced = %v, want a reason: %t", err, want)
	}
}

func wantSound(t *testing.T, s Catching) {
	t.Helper()
	if damages, err := s.Integrity(t.Context()); err != nil || len(damages) > 0 {
		t.Errorf("Integrity = %q, %v, want no damage", damages, err)
	}
}

func olderStores(t *testing.T, d Shared) {
	s := d.Open(t)
	defer mustClose(t, s)
	kept := mustStoreOver(t, s, written("Feeding herons", "Catch | Take an anchovy."), 0)
	replaced := mustStoreOver(t, s, written("Feeding otters", "Catch | Take a herring."), 0)
	deleted := mustStoreOver(t, s, written("Feeding walruses", "Catch | Take a clam."), 0)
	wantTitles(t, s, "clam", deleted.Title)

	d.older(t)
	replaced.Steps[0].Text = "Take an urchin."
	replaced = mustStoreOver(t, s, replaced, replaced.Revision)
	if err := s.DeleteChain(t.Context(), mine, deleted.ID, deleted.Revision); err != nil {
		t.Fatalf("DeleteChain = %v, want nil", err)
	}
	minted := mustStoreOver(t, s, written("Feeding pelicans", "Catch | Take a mackerel."), 0)
	wantTitles(t, s, "pelicans", minted.Title)
	wantTitles(t, s, "feeding", kept.Title, replaced.Title, minted.Title)
	wantTitles(t, s, "mackerel") // the text of a step
	wantReduced(t, s, true)
	wantSound(t, s)
	if err := s.CatchUp(t.Context()); err != nil {
		t.Errorf("CatchUp of an older program = %v, want nil", err)
	}

	d.newer(t)
	wantSound(t, s)
	wantTitles(t, s, "mackerel", minted.Title) // a search catches up
	wantTitles(t, s, "urchin", replaced.Title)
	wantTitles(t, s, "anchovy", kept.Title)
	wantTitles(t, s, "herring")
	wantTitles(t, s, "clam")
	wantReduced(t, s, false)
	wantSound(t, s)
}

func olderStarts(t *testing.T, d Shared) {
	s := d.Open(t)
	c := mustStoreOver(t, s, written("Feeding herons", "Catch | Take an anchovy."), 0)
	mustClose(t, s)

	d.older(t)
	s = d.Open(t)
	wantTitles(t, s, "herons", c.Title)
	wantReduced(t, s, true)
	if got, err := s.Chain(t.Context(), []string{mine}, c.ID); err != nil || got.Title != c.Title {
		t.Errorf("Chain = %q, %v, want it", got.Title, err)
	}
	hits, err := s.Search(t.Context(), library.Query{
		Text: "herons", Spaces: []string{mine}, Limit: 3, Explain: true, Embedding: &library.Embedding{Model: "m", Vector: []float32{1}},
	})
	if err != nil || len(hits) != 1 || len(hits[0].Why) == 0 {
		t.Errorf("Search with a vector = %v, %v, want the match by words with its reason", hits, err)
	}
	if hits := mustSearch(t, s, "herons", theirs); len(hits) > 0 {
		t.Errorf("Search in another space = %q, want nothing", titles(hits))
	}
	minted := mustStoreOver(t, s, written("Feeding pelicans", "Catch | Take a mackerel."), 0)
	mustClose(t, s)

	d.newer(t)
	s = d.Open(t)
	defer mustClose(t, s)
	wantTitles(t, s, "mackerel", minted.Title)
	wantTitles(t, s, "anchovy", c.Title)
	wantSound(t, s)
}

// A newer program stores and deletes while an older one searches.
func olderFollows(t *testing.T, d Shared) {
	s, other := d.Open(t), d.Open(t)
	defer mustClose(t, s)
	defer mustClose(t, other)
	c := mustStoreOver(t, s, written("Feeding herons", "Catch | Take an anchovy."), 0)
	d.older(t)
	wantTitles(t, s, "herons", c.Title)
	d.newer(t)
	pelicans := mustStoreOver(t, other, written("Feeding pelicans", "Catch | Take a mackerel."), 0)
	d.older(t)
	wantTitles(t, s, "pelicans", pelicans.Title)
	d.newer(t)
	if err := other.DeleteChain(t.Context(), mine, pelicans.ID, pelicans.Revision); err != nil {
		t.Fatalf("DeleteChain = %v, want nil", err)
	}
	d.older(t)
	wantTitles(t, s, "pelicans")
	again := mustStoreOver(t, other, written("Feeding puffins", "Catch | Take a sprat."), 0)
	wantTitles(t, s, "feeding", c.Title, again.Title)
}

func newerRenews(t *testing.T, d Shared) {
	s := d.Open(t)
	c := mustStoreOver(t, s, written("Feeding herons", "Catch | Take an anchovy."), 0)
	d.Record(t, -1)
	wantTitles(t, s, "herons", c.Title) // it has been running since before
	wantReduced(t, s, true)
	mustClose(t, s)
	s = d.Open(t)
	defer mustClose(t, s)
	wantTitles(t, s, "anchovy", c.Title)
	wantReduced(t, s, false)
	wantSound(t, s)
}

func versionsTakeTurns(t *testing.T, empty func(t *testing.T) Shared) {
	rapid.Check(t, func(r *rapid.T) {
		d := empty(t)
		s := d.Open(t)
		defer mustClose(t, s)
		if _, err := s.Count(t.Context(), mine); err != nil { // makes the database
			t.Fatal(err)
		}
		stored := spaces{"user:a": {}, "user:b": {}}
		for range rapid.IntRange(1, 4).Draw(r, "turns") {
			older := rapid.Bool().Draw(r, "older")
			if older {
				d.older(t)
			} else {
				d.newer(t)
			}
			for range rapid.IntRange(1, 3).Draw(r, "changes") {
				stored.change(t, r, s)
			}
			if older {
				stored.wantFound(t, s)
			}
		}
		d.newer(t)
		if err := s.CatchUp(t.Context()); err != nil {
			t.Fatalf("CatchUp = %v, want nil", err)
		}
		stored.wantFound(t, s)
		wantSound(t, s)
	})
}
