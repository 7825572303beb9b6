package storetest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/store/storetest"
)

func TestLibrariesOfASeedBeginAlike(t *testing.T) {
	var small, large []protocol.Chain
	for c := range storetest.Library(20, 7) {
		small = append(small, c)
	}
	for c := range storetest.Library(40, 7) {
		large = append(large, c)
	}
	if diff := cmp.Diff(small, large[:20]); diff != "" {
		t.Errorf("Library(20) differs from the first of Library(40):\n%s", diff)
	}
}

func TestLibrariesReadLikeOnesOfPeople(t *testing.T) {
	const n = 1000
	chains, titles, steps, documents := 0, map[string]bool{}, map[string]bool{}, map[string]int{}
	for c := range storetest.Library(n, 1) {
		chains++
		titles[protocol.ChainID(c.Title)] = true
		seen := map[string]bool{}
		for _, s := range c.Steps {
			steps[s.UUID] = true
			for _, w := range strings.Fields(s.Text) {
				seen[w] = true
			}
		}
		for w := range seen {
			documents[w]++
		}
	}
	rare, third := 0, 0
	for _, with := range documents {
		if with <= 3 {
			rare++
		}
		if with >= n*3/10 {
			third++
		}
	}
	got := fmt.Sprint(chains, len(titles), len(steps))
	if want := fmt.Sprint(n, n, 5*n); got != want || rare < 5000 || third < 10 {
		t.Errorf("chains, titles, steps = %s, want %s; %d rare words, want 5000; %d common ones, want 10", got, want, rare, third)
	}
}
