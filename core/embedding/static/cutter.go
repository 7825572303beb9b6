package static

import (
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// cutter tokenizes one text.
type cutter struct {
	*tokenizer
	word []byte // that has begun
	out  []int32
}

// cut appends the tokens of a text without added tokens.
func (c *cutter) cut(text string) {
	for _, r := range text {
		switch {
		case c.clean && removed(r):
		case c.chinese && ideograph(r):
			c.end()
			c.fold(r)
			c.end()
		default:
			c.fold(r)
		}
		if len(c.out) >= c.maxIDs {
			return
		}
	}
	c.end()
}

// fold removes accents and case from a character and adds the rest.
func (c *cutter) fold(r rune) {
	switch {
	case r < utf8.RuneSelf:
		if c.lower && 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		c.add(r)
		return
	case !c.strip:
		c.lowered(r)
		return
	}
	var b [utf8.UTFMax]byte
	n := utf8.EncodeRune(b[:], r)
	if d := norm.NFD.Properties(b[:n]).Decomposition(); d != nil {
		for len(d) > 0 {
			part, size := utf8.DecodeRune(d)
			d = d[size:]
			if !unicode.Is(unicode.Mn, part) {
				c.lowered(part)
			}
		}
		return
	}
	if l, v, ok := hangul(r); ok {
		c.add(l)
		c.add(v)
		if t := (r - hangulBase) % 28; t != 0 {
			c.add(0x11a7 + t)
		}
		return
	}
	if !unicode.Is(unicode.Mn, r) {
		c.lowered(r)
	}
}

// lowered adds a character in lower case. Of all characters one becomes two.
func (c *cutter) lowered(r rune) {
	switch {
	case !c.lower:
		c.add(r)
	case r == 'İ':
		c.add('i')
		c.add('\u0307')
	default:
		c.add(unicode.ToLower(r))
	}
}

// add adds a folded character to the word, or ends the word.
func (c *cutter) add(r rune) {
	switch {
	case unicode.IsSpace(r):
		c.end()
	case punctuation(r):
		c.end()
		c.word = utf8.AppendRune(c.word, r)
		c.end()
	default:
		c.word = utf8.AppendRune(c.word, r)
	}
}

// end splits the current word into pieces. A word that cannot be split completely
// is one unknown token.
func (c *cutter) end() {
	word := c.word
	c.word = c.word[:0]
	if len(word) == 0 {
		return
	}
	before := len(c.out)
	pieces := c.words
	if utf8.RuneCount(word) > c.maxWord {
		pieces = nil
	}
	for len(word) > 0 {
		n, id := c.piece(pieces, word)
		if n == 0 {
			c.out = c.out[:before]
			if c.unknown >= 0 {
				c.out = append(c.out, c.unknown)
			}
			return
		}
		c.out = append(c.out, id)
		word, pieces = word[n:], c.suffix
	}
}

// piece returns the longest prefix of the word among the pieces, or 0 if there is none.
func (c *cutter) piece(pieces map[string]int32, word []byte) (int, int32) {
	for n := min(len(word), c.longest); n > 0; n-- {
		if n < len(word) && !utf8.RuneStart(word[n]) {
			continue
		}
		if id, ok := pieces[string(word[:n])]; ok {
			return n, id
		}
	}
	return 0, 0
}

// hangulBase is the first of the syllables, which Unicode decomposes by a rule.
const hangulBase = 0xac00

// hangul returns the first two letters of a syllable.
func hangul(r rune) (leading, vowel rune, ok bool) {
	s := r - hangulBase
	if s < 0 || s >= 19*21*28 {
		return 0, 0, false
	}
	return 0x1100 + s/(21*28), 0x1161 + s%(21*28)/28, true
}

// removed reports whether cleaning drops a character: control and format
// characters, private ones, and the sign for broken text. Spaces stay.
func removed(r rune) bool {
	switch r {
	case '\t', '\n', '\r':
		return false
	case utf8.RuneError:
		return true
	}
	return r < ' ' || r >= 0x7f && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co)
}

// ideograph reports whether a character is a word of its own. These are BERT's
// blocks, as the reference has them, the gap at 0x2b820 included.
func ideograph(r rune) bool {
	return r >= 0x3400 && (r <= 0x4dbf ||
		0x4e00 <= r && r <= 0x9fff || 0xf900 <= r && r <= 0xfaff ||
		0x20000 <= r && r <= 0x2a6df || 0x2a700 <= r && r <= 0x2b73f || 0x2b740 <= r && r <= 0x2b81f ||
		0x2b920 <= r && r <= 0x2ceaf || 0x2f800 <= r && r <= 0x2fa1f)
}

// punctuation reports whether a character is a word of its own: everything in
// ASCII that is not a letter, digit or space, and Unicode's punctuation.
func punctuation(r rune) bool {
	if r < utf8.RuneSelf {
		return '!' <= r && r <= '/' || ':' <= r && r <= '@' || '[' <= r && r <= '`' || '{' <= r && r <= '~'
	}
	return unicode.IsPunct(r)
}
