package sqlite

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// wordsAsked bounds the work of one query; nobody types more that matter.
const wordsAsked = 24

// word is one word of a query.
type word struct {
	text string // letters and digits only, lower case
	size int    // in words of the index: characters of a script without blanks count each
}

// exact is the word as an FTS5 expression. Quoted, and without quotes inside,
// so that nothing in it is syntax.
func (w word) exact() string { return `"` + spaced(w.text) + `"` }

// prefix is the expression for words that begin like this one. Many words
// begin like a short one.
func (w word) prefix() (string, bool) {
	if utf8.RuneCountInString(w.text) < 3 && !strings.ContainsFunc(w.text, unspaced) {
		return "", false
	}
	return w.exact() + "*", true
}

// queryWords returns the distinct words of a text, in order, without common
// ones unless it has no others.
func queryWords(text string) []word {
	all := strings.FieldsFunc(strings.ToLower(text), separates)
	telling := slices.DeleteFunc(slices.Clone(all), func(w string) bool { return common[w] })
	if len(telling) > 0 {
		all = telling
	}
	var words []word
	seen := map[string]bool{}
	for _, text := range all {
		if seen[text] {
			continue
		}
		seen[text] = true
		words = append(words, word{text: text, size: len(strings.Fields(spaced(text)))})
		if len(words) == wordsAsked {
			break
		}
	}
	return words
}

// sizeOf is how many words of the index the words are.
func sizeOf(words []word) int {
	size := 0
	for _, w := range words {
		size += w.size
	}
	return size
}

// separates is the rule of FTS5's unicode61 tokenizer: words are letters and
// digits, with the marks that belong to them.
func separates(r rune) bool {
	return r == utf8.RuneError || !unicode.In(r, unicode.L, unicode.N, unicode.M, unicode.Co)
}

// spaced puts blanks around the characters of scripts that write words without
// blanks between them, so that a part of a sentence can be found.
func spaced(text string) string {
	if !strings.ContainsFunc(text, unspaced) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if unspaced(r) {
			b.WriteRune(' ')
			b.WriteRune(r)
			b.WriteRune(' ')
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

func unspaced(r rune) bool {
	return r > unicode.MaxLatin1 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai,
		unicode.Lao, unicode.Khmer, unicode.Myanmar)
}

// normal is how titles are compared: blanks collapsed, case ignored.
func normal(title string) string { return strings.ToLower(strings.Join(strings.Fields(title), " ")) }

// common are words of questions that say little about what is meant.
var common = set(`a an and any are as at be by can could do does for from get give has have how i if in into is it its
	let me my need of on or our please shall should show that the their them then there these they this to us want was
	we what when where which who why will with would you your`)

func set(words string) map[string]bool {
	s := map[string]bool{}
	for _, w := range strings.Fields(words) {
		s[w] = true
	}
	return s
}
