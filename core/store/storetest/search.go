package storetest

import (
	"testing"

	"github.com/kairos-mcp/kairos/core/engine"
)

var searchCases = map[string]func(*testing.T, Store){}

func mustSearch(t *testing.T, s Store, query string, spaces ...string) []engine.Hit {
	t.Helper()
	hits, err := s.Search(t.Context(), spaces, query, 100)
	if err != nil {
		t.Fatalf("Search(%q) = %v, want nil", query, err)
	}
	return hits
}
