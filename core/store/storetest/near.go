package storetest

import (
	"testing"

	"github.com/google/uuid"

	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/protocol"
)

// nearCases: an index beside the store compares the vectors, and the store makes
// of its answer what it makes of its own.
var nearCases = map[string]func(*testing.T, Protocols){
	"what an index found counts like a vector":     nearCounts,
	"what an index found and is not so is ignored": nearIsChecked,
	"an index replaces the vectors of the store":   nearReplaces,
}

// random are cosines that give a background of 0.1.
var random = []float64{0.09, 0.1, 0.11, 0.1, 0.09, 0.11, 0.1, 0.1, 0.1}

func nearStep(c protocol.Chain, step int, cosine float64) library.NearStep {
	return library.NearStep{Space: c.Space, UUID: c.Steps[step].UUID, Passage: protocol.PassageHash(c.Passage(step)), Cosine: cosine}
}

func searchNear(t *testing.T, s Protocols, text string, spaces []string, steps ...library.NearStep) []library.Hit {
	t.Helper()
	return mustFind(t, s, library.Query{
		Text: text, Spaces: spaces, Limit: 20, Explain: true, Embedding: &library.Embedding{Model: model, Vector: direction(8, 0)},
		Near: &library.Near{Steps: steps, Random: random},
	})
}

func nearCounts(t *testing.T, s Protocols) {
	chains := embeddedChains()
	mustSave(t, s, chains...)
	walrus, seal := chains[0], chains[2]
	hits := searchNear(t, s, "tusks and whiskers", []string{mine}, nearStep(walrus, 1, 0.8), nearStep(walrus, 0, 0.7), nearStep(seal, 0, 0.5), nearStep(chains[3], 0, 0.1))
	if got := titles(hits); len(got) != 2 || got[0] != "Walrus" || got[1] != "Seal" || hits[0].Step != 1 || hits[0].Score >= 0.9 {
		t.Fatalf("Search = %s, want the second step of the walrus and then the seal", describe(hits))
	}
	if why := hits[0].Why; len(why) != 1 || why[0].Ranker != "vector" || why[0].Step != 1 {
		t.Errorf("why = %+v, want the vector", why)
	}
	words := scoreOf(mustSearch(t, s, "walrus habits", mine), "Walrus")
	if hits := searchNear(t, s, "walrus habits", []string{mine}, nearStep(walrus, 0, 0.8)); len(hits) == 0 || hits[0].Score <= words {
		t.Errorf("Search = %s, want the walrus above %.3f, which its words are worth", describe(hits), words)
	}
}

func nearIsChecked(t *testing.T, s Protocols) {
	chains := embeddedChains()
	chains[1].Space = theirs
	mustSave(t, s, chains...)
	walrus, narwhal, seal := chains[0], chains[1], chains[2]
	stale, foreign, gone := nearStep(walrus, 0, 0.9), nearStep(walrus, 0, 0.9), nearStep(walrus, 0, 0.9)
	stale.Passage, foreign.Space, gone.UUID = nearStep(walrus, 1, 0).Passage, theirs, uuid.NewString()
	mustDelete(t, s, seal, 1)
	if hits := searchNear(t, s, "whiskers", []string{mine}, stale, foreign, gone, nearStep(narwhal, 0, 0.9), nearStep(seal, 0, 0.9)); len(hits) != 0 {
		t.Errorf("Search = %s, want none of what is not stored like that", describe(hits))
	}
}

func nearReplaces(t *testing.T, s Protocols) {
	vectors := embeddedLibrary(t, s, embeddedChains()...)
	hits := mustFind(t, s, library.Query{
		Text: "whiskers", Spaces: []string{mine}, Limit: 20, Embedding: &library.Embedding{Model: model, Vector: vectors["Walrus"]}, Near: &library.Near{},
	})
	if len(hits) != 0 {
		t.Errorf("Search with an index that found nothing = %s, want nothing", describe(hits))
	}
}
