package search

import "github.com/kairos-mcp/kairos/core/meaning"

// Meant is what a table of word vectors knows about a text. Words that every text has do
// not count.
type Meant struct {
	Vector []float32 // the sum of those of the known words
	Words  int
	Known  int // of the words, those that the table has
}

// maxCompared is how many bytes of a text Mean reads.
const maxCompared = 32 << 10

// Mean reads a text with a table.
func Mean(table *meaning.Table, text string) Meant {
	m := Meant{Vector: make([]float32, table.Dimensions())}
	s := splitter{found: func(word []byte, primary bool) {
		if !primary || common[string(word)] {
			return
		}
		m.Words++
		if row, ok := table.Row(string(word)); ok {
			m.Known++
			table.Add(m.Vector, row, 1)
		}
	}}
	s.read(text[:min(len(text), maxCompared)])
	return m
}

// WordOf is the form in which texts have a word, which a table must have it in, too: in
// lower case, without accents. It is "" for a text that is not one word.
func WordOf(text string) string {
	word, n := "", 0
	s := splitter{found: func(w []byte, primary bool) {
		if primary {
			word = string(w)
			n++
		}
	}}
	s.read(text)
	if n != 1 {
		return ""
	}
	return word
}
