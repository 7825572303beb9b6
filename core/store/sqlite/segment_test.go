package sqlite_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/store/storetest"
)

func TestTheIndexFollowsEveryChange(t *testing.T) {
	storetest.IndexFollowsChanges(t, func(t *testing.T) storetest.Protocols {
		return open(t, filepath.Join(t.TempDir(), "kairos.db"))
	})
}

// Merging is what a mint into a large library could wait for.
func TestAMintRarelyMergesALargeSegment(t *testing.T) {
	s, path := fresh(t)
	var changes []library.Change
	for i := range 400 {
		changes = append(changes, library.Change{Chain: storetest.NewChain("user:a", fmt.Sprintf("Imported %d", i), "Step")})
	}
	if _, err := s.SaveChains(t.Context(), changes); err != nil {
		t.Fatal(err)
	}
	const mints, most = 100, 12
	larger, size := 0, int64(len(changes))
	for i := range mints {
		must(t, save(s, storetest.NewChain("user:a", fmt.Sprintf("Minted %d", i), "Step")))
		row := raw(t, path, `SELECT count(*), max(documents), sum(documents) FROM search_segments`)[0]
		if row[0].(int64) > most || row[2].(int64) != int64(len(changes)+i+1) {
			t.Fatalf("%d segments with %d protocols after %d mints, want at most %d with all %d", row[0], row[2], i+1, most, len(changes)+i+1)
		}
		if row[1].(int64) > size {
			larger, size = larger+1, row[1].(int64)
		}
	}
	if larger > 1 {
		t.Errorf("%d of %d mints merged the segment of %d protocols, want at most one", larger, mints, len(changes))
	}
}
