package search

import "math"

// fewSamples is how many cosines give a background; fewer give none.
const fewSamples = 8

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
