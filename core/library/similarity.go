package library

import (
	"context"
	"math"
	"strings"
	"unicode"

	"github.com/kairos-mcp/kairos/core/search"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// The methods of comparison, as in SimilarityValue.Method.
const (
	methodEmbedding = "embedding"
	methodVectors   = "word-vectors"
	MethodLexical   = "lexical"
)

// comparedByWords is recorded with a comparison that the endpoint should have made. The log
// has the error, which may name what is not for everybody who reads a run.
const comparedByWords = "the embedding endpoint did not answer, so the texts were compared by words"

// fewKnown is recorded with a comparison of texts that the table hardly knows.
const fewKnown = "the table of word vectors has fewer than 80 % of the words of a text, so the texts were compared by words"

// similarity compares two texts by the endpoint, or by the table without one. They are
// compared by words if the endpoint fails or the table knows too little of them.
func (m *meanings) similarity(ctx context.Context, in driver.Similarity) driver.SimilarityValue {
	if m.embedder == nil {
		return m.tableSimilarity(in)
	}
	within, cancel := context.WithTimeout(ctx, m.budget)
	defer cancel()
	out, err := m.embedder.Embed(within, []string{in.Text, in.Reference})
	if err != nil {
		m.log.DebugContext(ctx, "two texts are compared by words", "error", err)
		return driver.SimilarityValue{Score: lexicalSimilarity(in.Text, in.Reference), Method: MethodLexical, Reason: comparedByWords}
	}
	// Opposite vectors count as unrelated.
	return driver.SimilarityValue{Score: max(0, search.Cosine(out.Vectors[0], out.Vectors[1])), Method: methodEmbedding}
}

// tableSimilarity compares two texts by the table, or by words if there is none or it
// knows too few words of one of them.
func (m *meanings) tableSimilarity(in driver.Similarity) driver.SimilarityValue {
	v := driver.SimilarityValue{Method: MethodLexical}
	if m.table != nil {
		if table := m.table(); table != nil {
			a, b := search.Mean(table, in.Text), search.Mean(table, in.Reference)
			if wellKnown(a) && wellKnown(b) {
				return driver.SimilarityValue{Score: max(0, search.Cosine(a.Vector, b.Vector)), Method: methodVectors}
			}
			v.Reason = fewKnown
		}
	}
	v.Score = lexicalSimilarity(in.Text, in.Reference)
	return v
}

// wellKnown reports whether a table has enough words of a text to compare it.
func wellKnown(m search.Meant) bool { return m.Known > 0 && 10*m.Known >= 8*m.Words }

// lexicalSimilarity is the cosine of the word counts of both texts, 0 to 1. Words
// are cut to their first six letters, a crude stem that works for most alphabetic
// languages.
func lexicalSimilarity(a, b string) float64 {
	x, y := wordCounts(a), wordCounts(b)
	var dot float64
	for w, n := range x {
		dot += n * y[w]
	}
	if dot == 0 {
		return 0
	}
	return math.Min(1, dot/(norm(x)*norm(y)))
}

func wordCounts(text string) map[string]float64 {
	const stem = 6
	counts := make(map[string]float64)
	for _, w := range strings.FieldsFunc(strings.ToLower(text), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}) {
		r := []rune(w)
		if len(r) < 3 {
			continue
		}
		if len(r) > stem {
			r = r[:stem]
		}
		counts[string(r)]++
	}
	return counts
}

func norm(v map[string]float64) float64 {
	var sum float64
	for _, n := range v {
		sum += n * n
	}
	return math.Sqrt(sum)
}
