package postgres_test

import (
	"fmt"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/kairos-mcp/kairos/core/store/storetest"
)

// TestNoChangeIsMissedWhileAnIndexBegins lets two servers store protocols while both
// fill their first index.
func TestNoChangeIsMissedWhileAnIndexBegins(t *testing.T) {
	address := withSchema(t)
	for range 12 {
		empty(t, address)
		beginIndex(t, open(t, address), open(t, address))
	}
}

func beginIndex(t *testing.T, servers ...*store) {
	t.Helper()
	defer closeAll(t, servers...)
	const protocols = 12
	stored := make(chan struct{}, protocols)
	var all errgroup.Group
	for i, s := range servers {
		all.Go(func() error {
			for n := range protocols / len(servers) {
				if err := save(s, storetest.NewChain(mine, fmt.Sprintf("Protocol %d of %d", n, i), "Step")); err != nil {
					return err
				}
				stored <- struct{}{}
			}
			return nil
		})
		all.Go(func() error {
			<-stored
			return s.Fill(t.Context(), "index")
		})
	}
	must(t, all.Wait())
	entries, err := servers[0].Pending(t.Context(), 2*protocols)
	if err != nil || len(entries) != protocols {
		t.Errorf("Pending = %d entries, %v, want all %d protocols", len(entries), err, protocols)
	}
	for i := range max(1, len(entries)) - 1 {
		if entries[i].Revision >= entries[i+1].Revision {
			t.Errorf("entries %d and %d have the revisions %d and %d, want them to grow", i, i+1, entries[i].Revision, entries[i+1].Revision)
		}
	}
}
