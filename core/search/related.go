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

// dotBytes is the dot product of two vectors of signed bytes. It is the inner loop of a
// search, so it takes eight numbers at a time.
func dotBytes(a, b string) int {
	sum := int32(0)
	for len(a) >= 8 && len(b) >= 8 {
		sum += int32(int8(a[0]))*int32(int8(b[0])) +
			int32(int8(a[1]))*int32(int8(b[1])) +
			int32(int8(a[2]))*int32(int8(b[2])) +
			int32(int8(a[3]))*int32(int8(b[3])) +
			int32(int8(a[4]))*int32(int8(b[4])) +
			int32(int8(a[5]))*int32(int8(b[5])) +
			int32(int8(a[6]))*int32(int8(b[6])) +
			int32(int8(a[7]))*int32(int8(b[7]))
		a, b = a[8:], b[8:]
	}
	for i := range min(len(a), len(b)) {
		sum += int32(int8(a[i])) * int32(int8(b[i]))
	}
	return int(sum)
}

// differing is the number of signs in which related words may differ. The angle between
// them is at most 60 degrees, so on average they differ in a third of the signs; more than 26 are rare.
const differing = 26

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
