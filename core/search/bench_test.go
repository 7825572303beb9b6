package search_test

import (
	"slices"
	"testing"

	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/search"
	"github.com/kairos-mcp/kairos/core/store/storetest"
)

func BenchmarkAnalyse(b *testing.B) {
	var chains []protocol.Chain
	for c := range storetest.Library(1000, 1) {
		chains = append(chains, c)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		a := search.Analyse(chains[i%len(chains)])
		if len(a.Words()) == 0 {
			b.Fatal("no words")
		}
	}
}

func BenchmarkScore(b *testing.B) {
	l := libraryOf(slices.Collect(storetest.Library(64, 1))...)
	x := l.scorer("how do I prepare a database backup of dabar kebam")
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		x.Score(l.documents[i%len(l.documents)])
	}
}
