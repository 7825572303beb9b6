package sqlite_test

import (
	"testing"

	"github.com/kairos-mcp/kairos/core/library"
)

func TestADamagedProtocolIsAnErrorAtEverySearch(t *testing.T) {
	s := open(t, indexedFile(t, `UPDATE chains SET outline = x'00' WHERE title = 'Protocol walrus333'`))
	for i := range 2 {
		hits, err := s.Search(t.Context(), library.Query{Text: "walrus333", Spaces: []string{"user:a"}, Limit: 1})
		if err == nil {
			t.Errorf("search %d = %+v, nil, want that the protocol is damaged", i+1, hits)
		}
	}
}
