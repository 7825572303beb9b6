package qdrant_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/store/qdrant/qdranttest"
	"github.com/kairos-mcp/kairos/core/store/storetest"
)

const (
	benchProtocols = 5000
	benchLength    = 256 // of a vector
)

func randomVector(r *rand.Rand) []float32 {
	v := make([]float32, benchLength)
	for i := range v {
		v[i] = float32(r.NormFloat64())
	}
	return v
}

// BenchmarkIndex measures how long it takes to make an index of 5,000 protocols of
// five steps, to deliver one protocol, and to search in it.
func BenchmarkIndex(b *testing.B) {
	f := feed(b, qdranttest.Start(b))
	r := rand.New(rand.NewPCG(1, 2))
	var changes []library.Change
	vectors := map[string][]float32{}
	var first protocol.Chain
	for c := range storetest.Library(benchProtocols, 1) {
		if first.ID == "" {
			first = c
		}
		changes = append(changes, library.Change{Chain: c})
		for i := range c.Steps {
			vectors[protocol.PassageHash(c.Passage(i))] = randomVector(r)
		}
	}
	if _, err := f.store.SaveChains(b.Context(), changes); err != nil {
		b.Fatal(err)
	}
	if err := f.store.SaveVectors(b.Context(), model, vectors); err != nil {
		b.Fatal(err)
	}
	b.Run("rebuild", func(b *testing.B) {
		before := qdranttest.CPU()
		began := time.Now()
		for b.Loop() {
			if err := f.feeder.Rebuild(b.Context(), func(int) {}); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.N*benchProtocols)/time.Since(began).Seconds(), "protocols/s")
		b.ReportMetric((qdranttest.CPU()-before).Seconds()*1e6/float64(b.N*benchProtocols), "qdrant-cpu-µs/protocol")
	})
	b.Run("deliver", func(b *testing.B) {
		f.deliver()
		for revision := int64(1); b.Loop(); revision++ {
			f.save(first, revision)
			f.deliver()
		}
	})
	b.Run("search", func(b *testing.B) {
		f.deliver()
		for b.Loop() {
			if _, err := f.searcher.Search(b.Context(), library.Query{
				Text: first.Title, Spaces: []string{first.Space}, Limit: 20, Embedding: &library.Embedding{Model: model, Vector: randomVector(r)},
			}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
