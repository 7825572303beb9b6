package search

import (
	"math"
	"slices"
)

// Background is how similar a query is to texts that have nothing to do with
// it. Each embedding model has its own idea of that: with some, nothing is below 0.7.
type Background struct {
	Mean      float64 // cosine
	Deviation float64
}

const (
	fewSamples = 8 // a background cannot be told from fewer
	minShare   = 0.35
)

// BackgroundOf estimates the background from the cosines of the query with a
// random sample of all stored vectors. A few that do have to do with it do no harm.
func BackgroundOf(cosines []float64) Background {
	if len(cosines) < fewSamples {
		return Background{Mean: 0.25, Deviation: 0.05}
	}
	sorted := slices.Sorted(slices.Values(cosines))
	median := sorted[len(sorted)/2]
	for i, c := range sorted {
		sorted[i] = math.Abs(c - median)
	}
	slices.Sort(sorted)
	const ofMedian = 1.4826 // from the median of deviations to the standard deviation, for a normal distribution
	return Background{Mean: median, Deviation: ofMedian * sorted[len(sorted)/2]}
}

// How a cosine becomes a score. Questions are short and passages long, so that
// with most models the right passage is only 0.3 to 0.5 above the background:
// the exponent gives that distance a score that passes the default threshold.
// What is no further than the largest of a few hundred random cosines is none.
const (
	cosineExponent   = 0.48
	cosineDeviations = 3.5
)

// Score is the calibrated form of a cosine, 0..MaxUnsure: how far it is from
// the background towards the same text. Zero: the vector alone is no match.
func (b Background) Score(cosine float64) float64 {
	if math.IsNaN(cosine) || cosine < b.Mean+cosineDeviations*b.Deviation || b.Mean >= 1 {
		return 0
	}
	share := math.Pow(min(1, max(0, cosine-b.Mean)/(1-b.Mean)), cosineExponent)
	if share < minShare {
		return 0
	}
	return MaxUnsure * share
}

// Fuse is the score of a chain from its words and from its vectors, each 0 when
// that ranker did not find it; vector is at most MaxUnsure. It is at least the better of the two, and more
// when both agree. What is asked for by name stays as it is, and vectors alone
// never make a match sure.
func Fuse(words, vector float64) float64 {
	best, other := max(words, vector), min(words, vector)
	most := MaxInexact
	if words <= MaxUnsure {
		most = MaxUnsure
	}
	if best >= most {
		return best
	}
	return best + 0.5*other*(most-best)
}

// Fused is the result with what the vector of a step says, 0: nothing. The step
// is the vector's where that says more than the words.
func (r Result) Fused(vector float64, step int) Result {
	if vector > r.Score {
		r.Step = step
	}
	r.Score = Fuse(r.Score, vector)
	return r
}

// Cosine of two vectors; 0 when their lengths differ or one has no direction.
func Cosine(a, b []float32) float64 {
	if len(a) != len(b) {
		return 0
	}
	var dot, x, y float64
	for i := range a {
		p, q := float64(a[i]), float64(b[i])
		dot, x, y = dot+p*q, x+p*p, y+q*q
	}
	if dot == 0 || math.IsNaN(dot) {
		return 0
	}
	return max(-1, min(1, dot/math.Sqrt(x*y)))
}
