package search

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// maxWord bounds a word in bytes. Longer ones are cut, in texts and queries alike:
// nobody asks for more, and lines of a megabyte exist.
const maxWord = 64

// token is one word of a text, folded.
type token struct {
	text string
	// primary reports that a query written like the text contains this word. The other
	// tokens are further ways to find the same place: the parts of camelCase, a
	// hyphenated word as one, single characters of scripts without spaces.
	primary bool
}

// tokens splits a text into its words.
func tokens(text string) []token {
	out := make([]token, 0, len(text)/6+1)
	s := splitter{found: func(word []byte, primary bool) { out = append(out, token{string(word), primary}) }}
	s.read(text)
	return out
}

// splitter splits texts into words. Its fields are the state between two
// characters.
type splitter struct {
	found func(word []byte, primary bool) // word is valid until it returns

	letters []byte // folded, of the compound being read: words joined by hyphens or apostrophes
	ends    []int  // in letters, of the words before this one
	start   int    // in letters, of this word
	humps   []int  // positions in letters of the capitals of camelCase
	lower   bool   // the last character was a lower-case letter
	joiner  rune   // 0, or the joiner that was just read
	hyphen  bool   // one of the joiners of the compound was a hyphen

	before rune // the last character, of a script without blanks; else 0
	alone  bool // before had no other such character in front of it
}

func (s *splitter) read(text string) {
	if !norm.NFKC.IsNormalString(text) {
		text = norm.NFKC.String(text)
	}
	for _, r := range text {
		s.take(r)
	}
	s.endCompound()
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
		s.humps = append(s.humps, len(s.letters))
	}
	s.lower = !upper
	if len(s.letters)-s.start < maxWord {
		s.letters = appendFolded(s.letters, r)
	}
}

// join ends a word that may be part of a compound.
func (s *splitter) join(r rune) {
	if len(s.letters) == s.start || s.joiner != 0 {
		s.endCompound()
		return
	}
	s.endWord()
	s.joiner = r
	s.hyphen = s.hyphen || r != '\'' && r != '’'
}

// endWord makes the word a part of the compound.
func (s *splitter) endWord() {
	if len(s.letters) == s.start {
		return
	}
	if len(s.humps) > 0 {
		s.camel()
	}
	s.start = len(s.letters)
	s.ends = append(s.ends, s.start)
	s.lower = false
}

// camel splits a word like createInvoice.
func (s *splitter) camel() {
	start := s.start
	for _, end := range append(s.humps, len(s.letters)) {
		if part := s.letters[min(start, len(s.letters)):min(end, len(s.letters))]; len(part) > 2 {
			s.found(part, false)
		}
		start = end
	}
	s.humps = s.humps[:0]
}

// endCompound ends whatever is being read.
func (s *splitter) endCompound() {
	s.endRun()
	s.endWord()
	s.joiner = 0
	if len(s.ends) > 0 {
		s.compound()
		s.letters, s.ends, s.start, s.hyphen = s.letters[:0], s.ends[:0], 0, false
	}
}

func (s *splitter) compound() {
	ends := s.ends
	if n := len(ends); n > 1 && contracted[string(s.letters[ends[n-2]:ends[n-1]])] {
		ends = ends[:n-1]
	}
	if len(ends) != 2 {
		start := 0
		for _, end := range ends {
			s.found(s.letters[start:end], true)
			start = end
		}
		return
	}
	// People search for e-mail as email, for a follow-up by its words, and for l'entreprise as entreprise.
	one, two, both := s.letters[:ends[0]], s.letters[ends[0]:ends[1]], s.letters[:min(ends[1], maxWord)]
	split := len(one) > 1 && len(two) > 1
	elided := !s.hyphen && len(one) == 1 && len(two) > 1
	s.found(one, split)
	s.found(two, split || elided)
	s.found(both, !split && !elided)
}

// contracted are the endings of a user's, I'd, I'm, we'll, we've and we're, which
// nobody searches for.
var contracted = set("s d m ll ve re")

// character emits a character of a script without spaces, alone and in a pair with
// the one before it, so that parts of sentences can be found.
func (s *splitter) character(r rune) {
	s.alone = s.before == 0
	if s.alone {
		s.endCompound()
	} else {
		var pair [2 * utf8.UTFMax]byte
		s.single(false)
		s.found(utf8.AppendRune(utf8.AppendRune(pair[:0], s.before), r), true)
	}
	s.before = r
}

// single emits the last character.
func (s *splitter) single(primary bool) {
	var one [utf8.UTFMax]byte
	s.found(utf8.AppendRune(one[:0], s.before), primary)
}

func (s *splitter) endRun() {
	if s.before != 0 {
		s.single(s.alone)
		s.before = 0
	}
}

// separates reports whether a character ends a word. Words consist of letters and
// digits with their marks.
func separates(r rune) bool {
	return r == utf8.RuneError || !unicode.In(r, unicode.L, unicode.N, unicode.M, unicode.Co)
}

// unspaced reports whether the script of a character has no spaces between words.
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
	r = bare(r)
	if s, ok := spelled[r]; ok {
		return append(b, s...)
	}
	return utf8.AppendRune(b, r)
}

// bare is the character in lower case and without its diacritics. The marks of some
// scripts are letters of their own and stay.
func bare(r rune) rune {
	r = unicode.ToLower(r)
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

// spelled are letters that Unicode does not decompose.
var spelled = map[rune]string{
	'ß': "ss", 'æ': "ae", 'œ': "oe", 'ø': "o", 'đ': "d", 'ð': "d", 'þ': "th", 'ł': "l", 'ı': "i", 'ħ': "h", 'ŧ': "t", 'ŋ': "n", 'ς': "σ",
}

// compared is the form in which titles are compared: the words of the text or, if it
// has none, the text itself.
func compared(text string) string {
	var b strings.Builder
	for _, t := range tokens(text) {
		if t.primary {
			b.WriteString(t.text)
			b.WriteByte(' ')
		}
	}
	if b.Len() == 0 {
		return strings.Join(strings.Fields(strings.ToLower(strings.ToValidUTF8(text, " "))), " ")
	}
	return strings.TrimSuffix(b.String(), " ")
}
