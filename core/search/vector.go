package search

import (
	"math"
	"slices"
)

// Background is how similar a query is to unrelated texts. It depends on the
// embedding model: with some, no similarity is below 0.7.
type Background struct {
	Mean      float64 // cosine
	Deviation float64
}

const (
	fewSamples = 8 // fewer give no background
	minShare   = 0.35
)

// BackgroundOf estimates the background from the cosines of the query with a
// random sample of all stored vectors. A few related ones in the sample do no
// harm.
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
	const ofMedian = 1.4826 // converts the median deviation of a normal distribution to its standard deviation
	return Background{Mean: median, Deviation: ofMedian * sorted[len(sorted)/2]}
}

// The conversion of a cosine to a score. Questions are short and passages long, so
// that with most models the right passage is only 0.3 to 0.5 above the background:
// the exponent gives that distance a score above the default threshold. A cosine
// below the largest of a few hundred random ones does not count as a match.
const (
	cosineExponent   = 0.48
	cosineDeviations = 3.5
)

// Score is the calibrated cosine, 0..MaxUnsure: its position between the
// background and an identical text. Zero: the vector alone does not match.
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

// Fuse combines the scores of a chain by words and by vectors, each 0 if that
// ranker did not find it; vector is at most MaxUnsure. The result is at least the
// better of the two, and more if both agree. A match by name keeps its score, and
// vectors alone never make a match sure.
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

// Fused is the result fused with the score of the vector of a step, or 0. The step
// is that of the vector if it scores better than the words.
func (r Result) Fused(vector float64, step int) Result {
	if vector > r.Score {
		r.Step = step
	}
	r.Score = Fuse(r.Score, vector)
	return r
}

// Cosine of two vectors; 0 if their lengths differ or one has no direction.
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
