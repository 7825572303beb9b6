package search

import (
	"math"
	"math/bits"
)

func normOf(v string) float32 {
	sum := 0
	for i := range len(v) {
		n := int(int8(v[i])) //nolint:gosec // it is a signed byte
		sum += n * n
	}
	return float32(math.Sqrt(float64(sum)))
}

// signsOf has the signs of the first 64 numbers of a vector.
func signsOf(v string) uint64 {
	signs := uint64(0)
	for i := range min(len(v), 64) {
		signs |= uint64(v[i]>>7) << i
	}
	return signs
}

func dotBytes(a, b string) int {
	sum := 0
	for i := range min(len(a), len(b)) {
		sum += int(int8(a[i])) * int(int8(b[i])) //nolint:gosec // they are signed bytes
	}
	return sum
}

// differing is the number of signs in which related words may differ: the angle between
// them is at most 60 degrees, a third of the signs on average.
const differing = 30

// related calls found with the known words that mean nearly the same as a word.
func (x *Index) related(text string, found func(number uint32, cosine float64)) {
	word := x.knownWord(text)
	if word.row < 0 || word.norm == 0 {
		return
	}
	v := x.table.Row8(int(word.row))
	for number, other := range x.known {
		if other.row < 0 || bits.OnesCount64(other.signs^word.signs) > differing {
			continue
		}
		cosine := float64(dotBytes(v, x.table.Row8(int(other.row)))) / float64(word.norm*other.norm)
		if cosine >= leastRelated && other.row != word.row {
			found(uint32(number), cosine) //nolint:gosec // numbers fit
		}
	}
}
