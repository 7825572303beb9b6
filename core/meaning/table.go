package meaning

import (
	_ "embed" // the default table
	"encoding/binary"
	"errors"
	"math"
	"sort"
	"sync"
)

//go:embed words.table
var embedded string

// magic begins a table. It is followed by the number of words and the length of a
// vector, 4 bytes each, little-endian like all numbers; then, in the order of the
// words, the scales as 4-byte floats and the vectors as signed bytes; then the words,
// sorted, each ended by a line feed.
const (
	magic      = "KWV1"
	headerSize = len(magic) + 8
)

// The limits of a table.
const (
	maxWords      = 1 << 20
	maxDimensions = 1024
)

var errTable = errors.New("not a table of word vectors, or cut off")

// Table has a vector for each of its words. It is read-only and safe for
// concurrent use.
type Table struct {
	dimensions int
	scales     string
	vectors    string
	words      string
	starts     []uint32 // of the words, and the end of the last
}

// Default returns the table that is part of the program. Its words are English.
var Default = sync.OnceValue(func() *Table {
	t, err := Read(embedded)
	if err != nil {
		panic("the embedded table of word vectors: " + err.Error())
	}
	return t
})

// Read reads a table as Make writes it.
func Read(data string) (*Table, error) {
	if len(data) < headerSize || data[:len(magic)] != magic {
		return nil, errTable
	}
	count, dimensions := int(number(data[len(magic):])), int(number(data[len(magic)+4:]))
	if count > maxWords || dimensions < 1 || dimensions > maxDimensions || len(data) < headerSize+count*(4+dimensions) {
		return nil, errTable
	}
	data = data[headerSize:]
	t := &Table{dimensions: dimensions, scales: data[:4*count], vectors: data[4*count : (4+dimensions)*count], words: data[(4+dimensions)*count:]}
	t.starts = make([]uint32, 1, count+1)
	for i := range len(t.words) {
		if t.words[i] == '\n' {
			t.starts = append(t.starts, uint32(i+1)) //nolint:gosec // a table is smaller than 4 GB
		}
	}
	if len(t.starts) != count+1 || int(t.starts[count]) != len(t.words) {
		return nil, errTable
	}
	for i := range count {
		if scale := float64(t.scale(i)); math.IsNaN(scale) || math.IsInf(scale, 0) {
			return nil, errTable
		}
	}
	return t, nil
}

func number(s string) uint32 {
	return uint32(s[0]) | uint32(s[1])<<8 | uint32(s[2])<<16 | uint32(s[3])<<24
}

// Dimensions is the length of the vectors.
func (t *Table) Dimensions() int { return t.dimensions }

// Len is the number of words.
func (t *Table) Len() int { return len(t.starts) - 1 }

// Row returns the row of a word, which is in lower case, and whether the table has it.
func (t *Table) Row(word string) (int, bool) {
	i := sort.Search(t.Len(), func(i int) bool { return t.Word(i) >= word })
	return i, i < t.Len() && t.Word(i) == word
}

// Word is the word of a row.
func (t *Table) Word(row int) string { return t.words[t.starts[row] : t.starts[row+1]-1] }

// Add adds the vector of a row, multiplied by weight, to a vector. The vectors of
// rare words are longer than those of common ones, so the sum over the words of a
// text is about what the text means.
func (t *Table) Add(to []float32, row int, weight float32) {
	weight *= t.scale(row)
	v := t.vectors[row*t.dimensions : (row+1)*t.dimensions]
	to = to[:len(v)]
	for i := range to {
		to[i] += weight * float32(int8(v[i])) //nolint:gosec // it is a signed byte
	}
}

func (t *Table) scale(row int) float32 { return math.Float32frombits(number(t.scales[4*row:])) }

// Row8 is the direction of the vector of a row, as signed bytes; its length is arbitrary.
func (t *Table) Row8(row int) string {
	return t.vectors[row*t.dimensions : (row+1)*t.dimensions]
}

// encode is the inverse of Read. The words are sorted; each vector is scaled to bytes.
func encode(words []string, vectors [][]float64) []byte {
	dimensions := len(vectors[0])
	out := append([]byte(magic), make([]byte, 8)...)
	binary.LittleEndian.PutUint32(out[len(magic):], uint32(len(words)))   //nolint:gosec // at most maxWords
	binary.LittleEndian.PutUint32(out[len(magic)+4:], uint32(dimensions)) //nolint:gosec // at most maxDimensions
	rows := make([]byte, 0, len(words)*dimensions)
	for _, v := range vectors {
		largest := 0.0
		for _, x := range v {
			largest = max(largest, math.Abs(x))
		}
		scale := float32(largest / 127)
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(scale))
		for _, x := range v {
			n := 0.0
			if scale > 0 {
				n = math.Round(x / float64(scale))
			}
			rows = append(rows, byte(int8(max(-127, min(127, n)))))
		}
	}
	out = append(out, rows...)
	for _, w := range words {
		out = append(append(out, w...), '\n')
	}
	return out
}
