package storetest

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/protocol"
)

// IndexFollowsChanges saves, saves anew and deletes, a few or many at a time, until
// parts of the index have been merged and rewritten many times. open returns an empty
// store.
func IndexFollowsChanges(t *testing.T, open func(t *testing.T) Protocols) {
	rapid.Check(t, func(r *rapid.T) {
		s := open(t)
		defer mustClose(t, s)
		stored := spaces{"user:a": {}, "user:b": {}}
		for range rapid.IntRange(1, 20).Draw(r, "changes") {
			stored.change(t, r, s)
		}
		stored.wantFound(t, s)
	})
}

// spaces are the protocols of each space, by their numbers.
type spaces map[string]map[int]protocol.Chain

// change changes some of the protocols of a space.
func (stored spaces) change(t *testing.T, r *rapid.T, s Protocols) {
	t.Helper()
	space := rapid.SampledFrom([]string{"user:a", "user:b"}).Draw(r, "space")
	first, n := rapid.IntRange(0, 150).Draw(r, "first"), rapid.SampledFrom([]int{1, 1, 2, 9, 70}).Draw(r, "number")
	if rapid.Bool().Draw(r, "delete") {
		deleteSome(t, s, stored[space], first, n)
		return
	}
	word := rapid.SampledFrom([]string{"walrus", "heron", "otter"}).Draw(r, "word")
	saveSome(t, s, space, stored[space], word, first, n)
}

func (stored spaces) wantFound(t *testing.T, s Protocols) {
	t.Helper()
	for space, chains := range stored {
		for _, word := range []string{"walrus", "heron", "otter"} {
			wantExactly(t, s, space, chains, word)
		}
	}
}

func saveSome(t *testing.T, s Protocols, space string, stored map[int]protocol.Chain, word string, first, n int) {
	t.Helper()
	var changes []library.Change
	for i := first; i < first+n; i++ {
		c := NewChain(space, fmt.Sprintf("Number %d", i), "Feed the "+word)
		c.Slug = word
		changes = append(changes, library.Change{Chain: c, Replaces: stored[i].Revision})
	}
	revisions, err := s.SaveChains(t.Context(), changes)
	if err != nil {
		t.Fatalf("SaveChains = %v, want nil", err)
	}
	for i, change := range changes {
		change.Chain.Revision = revisions[i]
		stored[first+i] = change.Chain
	}
}

func deleteSome(t *testing.T, s Protocols, stored map[int]protocol.Chain, first, n int) {
	t.Helper()
	for i := first; i < first+n; i++ {
		c, ok := stored[i]
		if !ok {
			continue
		}
		mustDelete(t, s, c, c.Revision)
		delete(stored, i)
	}
}

// wantExactly wants exactly the chains that have the word.
func wantExactly(t *testing.T, s Protocols, space string, stored map[int]protocol.Chain, word string) {
	t.Helper()
	var want, got []string
	for _, c := range stored {
		if c.Slug == word {
			want = append(want, c.Title)
		}
	}
	got = titles(mustFind(t, s, library.Query{Text: word, Spaces: []string{space}, Limit: 500}))
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Fatalf("Search(%q) in %s found %d chains, want %d:\n%q\n%q", word, space, len(got), len(want), got, want)
	}
}
