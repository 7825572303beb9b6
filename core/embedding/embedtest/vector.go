package embedtest

import (
	_ "embed"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

//go:embed synonyms.txt
var synonyms string

// groups maps the stem of a word to the numbers of its synonym groups.
var groups = sync.OnceValue(func() map[string][]int {
	out := make(map[string][]int)
	for i, line := range strings.Split(synonyms, "\n") {
		if strings.HasPrefix(line, "#") {
			continue
		}
		for _, word := range strings.Fields(line) {
			stem := stemOf(plain(word))
			out[stem] = append(out[stem], i)
		}
	}
	return out
})

// The weights of the features of a word. A word of a synonym group counts mostly
// as its group; parts of words bring compounds and typing errors near.
const (
	weightGroup  = 1.0
	weightStem   = 1.0
	weightInBoth = 0.4 // of the stem of a word that is in a group
	weightParts  = 0.35
	weightFiller = 0.1 // factor for stop words
)

var fillers = func() map[string]bool {
	out := make(map[string]bool)
	for _, w := range strings.Fields("a an the and or of to in on at for with by from is are was were be it this that as how do does what i you we my your our " +
		"der die das den dem des ein eine einen einem einer und oder von zu im in am an auf mit bei aus ist sind war wie was ich du wir mein dein unser fur zum zur") {
		out[w] = true
	}
	return out
}()

// Vector is the vector of a text: deterministic for text and dimension, of unit
// length, near to those of texts that share words, stems, parts of words or
// synonyms. A text without letters or digits has a vector, too.
func Vector(text string, dimension int) []float32 {
	features := make(map[string]float64)
	for _, word := range strings.FieldsFunc(plain(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		addWord(features, word)
	}
	if len(features) == 0 {
		features["text "+text] = 1
	}
	sum := make([]float64, dimension)
	for name, weight := range features {
		// Repetition adds little.
		spread(sum, name, math.Log1p(weight))
	}
	var length float64
	for _, x := range sum {
		length += x * x
	}
	length = math.Sqrt(length)
	out := make([]float32, dimension)
	for i, x := range sum {
		out[i] = float32(x / length)
	}
	return out
}

func addWord(features map[string]float64, word string) {
	scale := 1.0
	if fillers[word] {
		scale = weightFiller
	}
	stem := stemOf(word)
	of := groups()[stem]
	own := weightStem
	if len(of) > 0 {
		own = weightInBoth
	}
	features["stem "+stem] += scale * own
	for _, g := range of {
		features["group "+string(rune('A'+g))] += scale * weightGroup / float64(len(of))
	}
	parts := partsOf(word)
	for _, p := range parts {
		features["part "+p] += scale * weightParts / math.Sqrt(float64(len(parts)))
	}
}

// spread adds a feature in a direction that is derived from its name.
func spread(sum []float64, name string, weight float64) {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // never fails
	r := rand.New(rand.NewPCG(h.Sum64(), 1))
	const entries = 16
	for range entries {
		at, sign := r.IntN(len(sum)), float64(1-2*r.IntN(2))
		sum[at] += sign * weight / 4 // 4: the square root of entries
	}
}

// plain is a text in small letters without diacritics.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Mn, r) {
			return -1
		}
		return unicode.ToLower(r)
	}, norm.NFKD.String(strings.ReplaceAll(text, "ß", "ss")))
}

// endings that English and German words lose, longest first.
var endings = []string{
	"ierungen", "ierung", "izations", "ization", "ations", "ation", "ungen", "ments", "ment", "ieren", "iert", "ings", "ing", "ung",
	"ions", "ion", "ies", "ern", "est", "ers", "ed", "er", "en", "em", "es", "ly", "e", "s", "n", "y",
}

// stemOf is a crude stem of a word.
func stemOf(word string) string {
	for cut := true; cut; {
		cut = false
		for _, end := range endings {
			if rest, ok := strings.CutSuffix(word, end); ok && utf8.RuneCountInString(rest) >= 3 {
				word, cut = rest, true
				break
			}
		}
	}
	return word
}

// partsOf are the runs of three letters of a word with its two ends.
func partsOf(word string) []string {
	r := []rune("^" + word + "$")
	var out []string
	for i := 0; i+3 <= len(r); i++ {
		out = append(out, string(r[i:i+3]))
	}
	return out
}
