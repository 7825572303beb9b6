package search_test

import (
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
		d := search.Analyse(chains[i%len(chains)])
		if len(d.Terms()) == 0 {
			b.Fatal("no terms")
		}
	}
}

func BenchmarkScore(b *testing.B) {
	var documents [][]byte
	for c := range storetest.Library(64, 1) {
		document, _ := search.Analyse(c).AppendBinary(nil)
		documents = append(documents, document)
	}
	q := search.Ask("how do I prepare a database backup of dabar kebam")
	stats := search.Stats{Chains: 64, With: make([]int, len(q.Words()))}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		d, err := search.ParseDocument(documents[i%len(documents)])
		if err != nil {
			b.Fatal(err)
		}
		q.Score(d, stats)
	}
}
