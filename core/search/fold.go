package search

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// maxWord bounds a word, in bytes; what is longer is cut, in texts and queries
// alike. Nobody asks for more, and lines of a megabyte exist.
const maxWord = 64

// token is one word of a text, folded.
type token struct {
	text string
	// asked: a query that is written like the text asks for this word. The
	// others are further ways to find the same place: the parts of camelCase,
	// a hyphenated word in one piece, single characters of scripts without blanks.
	asked bool
}

// tokens splits a text into its words.
func tokens(text string) []token {
	if !norm.NFKC.IsNormalString(text) {
		text = norm.NFKC.String(text)
	}
	s := splitter{out: make([]token, 0, len(text)/6+1)}
	for _, r := range text {
		s.take(r)
	}
	s.endCompound()
	return s.out
}

// splitter is the state between two characters of a text.
type splitter struct {
	out []token

	word  []byte // folded, of the word being read
	humps []int  // where in word camelCase goes up
	lower bool   // the last character was a lower-case letter

	parts  []string // of the compound being read: words joined by hyphens or apostrophes
	joiner rune     // 0, or the joiner that was just read

	before rune // the last character, of a script without blanks; else 0
	alone  bool // before had no other such character in front of it
}

func (s *splitter) take(r rune) {
	switch {
	case r < utf8.RuneSelf && isAlnum(byte(r)):
		s.letter(r)
	case r == '-' || r == '\'' || r == '’' || r == '‐' || r == '‑':
		s.join(r)
	case r < utf8.RuneSelf || separates(r):
		s.endCompound()
	case unspaced(r):
		s.character(r)
	default:
		s.letter(r)
	}
}

func isAlnum(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

// letter adds a letter, digit or mark to the word.
func (s *splitter) letter(r rune) {
	s.endRun()
	s.joiner = 0
	upper := r < utf8.RuneSelf && 'A' <= r && r <= 'Z' || r >= utf8.RuneSelf && unicode.IsUpper(r)
	if upper && s.lower {
		s.humps = append(s.humps, len(s.word))
	}
	s.lower = !upper
	if len(s.word) < maxWord {
		s.word = appendFolded(s.word, r)
	}
}

// join ends a word that may be a part of a longer one.
func (s *splitter) join(r rune) {
	if len(s.word) == 0 || s.joiner != 0 {
		s.endCompound()
		return
	}
	s.endWord()
	s.joiner = r
}

// endWord makes the word a part of the compound.
func (s *splitter) endWord() {
	if len(s.word) == 0 {
		return
	}
	whole := string(s.word)
	if len(s.humps) > 0 {
		s.camel(whole)
	}
	s.parts = append(s.parts, whole)
	s.word, s.humps, s.lower = s.word[:0], s.humps[:0], false
}

// camel adds the parts of a word like createInvoice.
func (s *splitter) camel(whole string) {
	start := 0
	for _, end := range append(s.humps, len(whole)) {
		if part := whole[min(start, len(whole)):min(end, len(whole))]; len(part) > 2 {
			s.out = append(s.out, token{text: part})
		}
		start = end
	}
}

// endCompound ends whatever is being read.
func (s *splitter) endCompound() {
	s.endRun()
	s.endWord()
	s.joiner = 0
	parts := s.parts
	s.parts = s.parts[:0]
	if n := len(parts); n > 1 && parts[n-1] == "s" {
		parts = parts[:n-1] // a user's
	}
	if len(parts) != 2 {
		for _, p := range parts {
			s.out = append(s.out, token{p, true})
		}
		return
	}
	// e-mail is asked for as email; a follow-up as its words.
	joined := parts[0] + parts[1]
	split := len(parts[0]) > 1 && len(parts[1]) > 1
	s.out = append(s.out, token{parts[0], split}, token{parts[1], split}, token{joined[:min(len(joined), maxWord)], !split})
}

// character adds a character of a script without blanks: alone, and in a pair
// with the one before it, so that a part of a sentence can be found.
func (s *splitter) character(r rune) {
	if s.before == 0 {
		s.endCompound()
	} else {
		s.out = append(s.out, token{string([]rune{s.before, r}), true})
	}
	s.out = append(s.out, token{text: string(r)})
	s.alone = s.before == 0
	s.before = r
}

func (s *splitter) endRun() {
	if s.before != 0 && s.alone {
		s.out[len(s.out)-1].asked = true
	}
	s.before = 0
}

// separates: words are letters and digits, with the marks that belong to them.
func separates(r rune) bool {
	return r == utf8.RuneError || !unicode.In(r, unicode.L, unicode.N, unicode.M, unicode.Co)
}

// unspaced: scripts that write words without blanks between them.
func unspaced(r rune) bool {
	return r > unicode.MaxLatin1 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai,
		unicode.Lao, unicode.Khmer, unicode.Myanmar)
}

// appendFolded adds the lower-case form of a character without its diacritics.
func appendFolded(b []byte, r rune) []byte {
	if r < utf8.RuneSelf {
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		return append(b, byte(r))
	}
	if 0x300 <= r && r <= 0x36f { // combining diacritics
		return b
	}
	r = unicode.ToLower(r)
	if s, ok := spelled[r]; ok {
		return append(b, s...)
	}
	return utf8.AppendRune(b, bare(r))
}

// bare is the character without diacritics, where they are diacritics: the
// marks of other scripts are letters of their own.
func bare(r rune) rune {
	if !unicode.In(r, unicode.Latin, unicode.Greek, unicode.Cyrillic) {
		return r
	}
	var buf [utf8.UTFMax]byte
	n := utf8.EncodeRune(buf[:], r)
	if d := norm.NFD.Properties(buf[:n]).Decomposition(); len(d) > 0 {
		r, _ = utf8.DecodeRune(d)
	}
	return unicode.ToLower(r)
}

// spelled are letters that Unicode does not take apart.
var spelled = map[rune]string{
	'ß': "ss", 'æ': "ae", 'œ': "oe", 'ø': "o", 'đ': "d", 'ð': "d", 'þ': "th", 'ł': "l", 'ı': "i", 'ħ': "h", 'ŧ': "t", 'ŋ': "n", 'ς': "σ",
}

// plain is how titles are compared: the words of the text, or, where it has
// none, the text itself.
func plain(text string) string {
	var b strings.Builder
	for _, t := range tokens(text) {
		if t.asked {
			b.WriteString(t.text)
			b.WriteByte(' ')
		}
	}
	if b.Len() == 0 {
		return strings.Join(strings.Fields(strings.ToLower(strings.ToValidUTF8(text, " "))), " ")
	}
	return strings.TrimSuffix(b.String(), " ")
}
