package search_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/meaning"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/search"
)

// synthetic makes protocols of words that are as frequent as words are, by Zipf's law.
func synthetic(n int) []protocol.Chain {
	table, r := meaning.Default(), rand.New(rand.NewPCG(1, 2)) //nolint:gosec // not a secret
	zipf := rand.NewZipf(r, 1.1, 20, 20_000)
	some := func(n int) string {
		words := make([]string, n)
		for i := range words {
			words[i] = table.Word(int(zipf.Uint64()*2_654_435_761) % table.Len()) //nolint:gosec // any word
		}
		return strings.Join(words, " ")
	}
	chains := make([]protocol.Chain, n)
	for i := range chains {
		title := some(4)
		chains[i] = protocol.Chain{ID: fmt.Sprint(i), Title: title, Description: some(15)}
		for range 4 {
			chains[i].Steps = append(chains[i].Steps, protocol.Step{Label: some(3), Text: some(50)})
		}
	}
	return chains
}

func filled(chains []protocol.Chain) *search.Index {
	x := search.New(meaning.Default())
	for batch := range slices.Chunk(chains, 256) {
		outlines := make([]search.Outline, len(batch))
		for i, c := range batch {
			outlines[i] = search.OutlineOf("a", c, meaning.Default())
		}
		x.Put(outlines...)
	}
	return x
}

// BenchmarkIndex prints the time of a load by one goroutine, the memory of an index, and the
// 95th percentile of searches.
func BenchmarkIndex(b *testing.B) {
	for _, n := range []int{1_000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			chains := synthetic(n)
			before, start := heap(), time.Now()
			x := filled(chains)
			load, size := time.Since(start), heap()-before
			var took []time.Duration
			for b.Loop() {
				c := chains[len(took)%n]
				start := time.Now()
				x.Search(search.Request{Texts: []string{c.Description[:len(c.Description)/2]}, Spaces: []string{"a"}, Threshold: 0.3, Choices: 5, Nearest: 5})
				took = append(took, time.Since(start))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)*95/100].Microseconds())/1000, "ms/p95")
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms/median")
			b.ReportMetric(float64(load.Milliseconds()), "ms/load")
			b.ReportMetric(size/1e6, "MB")
			runtime.KeepAlive(x)
		})
	}
}

func heap() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}
