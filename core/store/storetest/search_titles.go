package storetest

import (
	"testing"

	"github.com/kairos-mcp/kairos/core/library"
)

func searchSameTitle(t *testing.T, s Protocols) {
	mustSave(t, s, written("Onboarding", "Mine | text"), inTheirs(written("Onboarding", "Theirs | text")))
	hits := mustSearch(t, s, "onboarding", mine, theirs)
	if len(hits) != 2 || hits[0].Score < 0.9 || hits[1].Score != hits[0].Score || hits[0].Chain.Space == hits[1].Chain.Space {
		t.Errorf("Search = %s, want one exact hit of each space", describe(hits))
	}
	if hits := mustSearch(t, s, "onboarding", theirs); len(hits) != 1 || hits[0].Chain.Steps[0].Label != "Theirs" {
		t.Errorf("Search(theirs) = %s, want theirs", describe(hits))
	}
}

func searchLookAlike(t *testing.T, s Protocols) {
	mustSave(t, s, written("Deploy the shop", "Step | text"), written("D\u0435stroy the shop", "Deploy the shop | text"), inTheirs(written("Copy", "Step | text")))
	for query, want := range map[string]string{
		"De\u200bploy the shop": "Deploy the shop", "Dеploy the shоp": "Deploy the shop", "Deploy the shop": "Deploy the shop",
		"Destroy the shop": "D\u0435stroy the shop", "Deploy": "", "the shop": "", "C\u043epy": "",
	} {
		hits, err := s.Search(t.Context(), library.Query{Text: query, Spaces: []string{mine}, Limit: 5, Named: true})
		if err != nil || len(hits) > 1 || (len(hits) == 0) != (want == "") || len(hits) == 1 && (hits[0].Chain.Title != want || hits[0].Score < 0.9) {
			t.Errorf("Search(%q) by name = %s, %v, want %q", query, describe(hits), err, want)
		}
	}
}
