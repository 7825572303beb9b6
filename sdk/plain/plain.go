// Package plain makes texts that others wrote fit for a person to read, and
// reads short words in them. It is not an escape for a markup: HTML is escaped
// as well.
//
// A text that a driver, a client, an endpoint or a process wrote passes TextWithin
// or LineWithin before a person or a model reads it. Both bound the text, and show
// what cannot be seen. They do not judge what the text says, and documents that
// are evidence are passed on as they are.
//
// One rule says what cannot be seen: control and format characters (direction
// marks among them), line and paragraph separators, private use, every other
// character of Unicode's Default_Ignorable_Code_Point, variation selectors, and
// the blanks that are not spaces. See Hidden.
package plain

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// hidden are the tables of Hidden. Default_Ignorable_Code_Point is
// Other_Default_Ignorable_Code_Point, the variation selectors and most of Cf.
var hidden = []*unicode.RangeTable{
	unicode.Cc, unicode.Cf, unicode.Co, unicode.Zl, unicode.Zp,
	unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector, blanks,
}

// blanks are drawn as nothing although Unicode has them as letters or symbols.
// Other ones, such as U+3164 HANGUL FILLER, are default ignorable.
var blanks = &unicode.RangeTable{
	R16: []unicode.Range16{{Lo: 0x2800, Hi: 0x2800, Stride: 1}},   // BRAILLE PATTERN BLANK
	R32: []unicode.Range32{{Lo: 0x1D159, Hi: 0x1D159, Stride: 1}}, // MUSICAL SYMBOL NULL NOTEHEAD
}

// Hidden reports whether a character cannot be seen, steers a terminal, or
// changes how the text around it is drawn. Line feeds and tabs are hidden;
// spaces are not.
func Hidden(r rune) bool {
	if r < utf8.RuneSelf {
		return r < ' ' || r == 0x7f
	}
	return unicode.In(r, hidden...)
}

// Text returns s as a text of several lines: line feeds and tabs stay, any
// other hidden character is shown by its code, such as ⟨U+202E⟩. A joiner of two
// emojis, or of two letters of a script that is spelled with joiners, stays: it is seen
// by what it does.
func Text(s string) string {
	return shown(strings.ReplaceAll(s, "\r\n", "\n"), staysInText)
}

func staysInText(r rune) bool { return r == '\n' || r == '\t' }

// Line returns s on one line: line ends and tabs become spaces, any other
// hidden character is shown by its code.
func Line(s string) string {
	s = strings.NewReplacer("\r\n", " ", "\n", " ", "\t", " ", "\r", " ").Replace(s)
	return shown(s, func(rune) bool { return false })
}

// TextWithin is Text for a text of any length: at most n bytes are read and
// returned, besides the ellipsis that ends a text that was cut.
func TextWithin(s string, n int) string { return Clip(Text(Clip(s, n)), n) }

// LineWithin is Line for a text of any length, without blanks around it: at most n
// bytes are read and returned, besides the ellipsis that ends a text that was cut.
func LineWithin(s string, n int) string { return strings.TrimSpace(Clip(Line(Clip(s, n)), n)) }

// JSON returns the same JSON document with every hidden character in it as a JSON
// escape, such as \u202e. What is not JSON must not be given.
func JSON(document []byte) []byte {
	escaped := func(r rune) bool { return r >= 0x7f && Hidden(r) } // line feeds and tabs stand between values
	if !bytes.ContainsFunc(document, escaped) {
		return document
	}
	var b bytes.Buffer
	for _, r := range string(document) {
		if !escaped(r) {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.Bytes()
}

// ShownJSON returns a JSON document with each of its texts, keys included, as Text shows
// it. The document must be valid JSON.
func ShownJSON(document []byte) []byte {
	var b bytes.Buffer
	done := 0
	for at := 0; at < len(document); at++ {
		if document[at] != '"' {
			continue
		}
		start := at
		for at++; at < len(document) && document[at] != '"'; at++ {
			if document[at] == '\\' {
				at++
			}
		}
		end := min(at+1, len(document))
		if literal := shownLiteral(document[start:end]); literal != nil {
			b.Write(document[done:start])
			b.Write(literal)
			done = end
		}
	}
	if done == 0 {
		return document
	}
	b.Write(document[done:])
	return b.Bytes()
}

// shownLiteral returns a JSON string as Text shows it, or nil if that changes nothing.
func shownLiteral(literal []byte) []byte {
	hides := bytes.ContainsFunc(literal, func(r rune) bool { return r >= 0x7f && Hidden(r) })
	for at := 0; !hides && at+1 < len(literal); at++ {
		if literal[at] == '\\' {
			at++
			hides = bytes.IndexByte([]byte("urbf"), literal[at]) >= 0
		}
	}
	if !hides {
		return nil
	}
	var text string
	if json.Unmarshal(literal, &text) != nil {
		return nil
	}
	shown := Text(text)
	if shown == text {
		return nil
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if enc.Encode(shown) != nil {
		return nil // unreachable: a text
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}

// Marked returns the offset of the first character that Text would show by its code;
// -1 if there is none.
func Marked(s string) int {
	for at := range Marks(s) {
		return at
	}
	return -1
}

// Marks visits the characters that Text would show by their codes, with their offsets.
func Marks(s string) iter.Seq2[int, rune] {
	return func(yield func(int, rune) bool) {
		eachHidden(s, staysInText, func(at, size int, how drawing) bool {
			r, _ := utf8.DecodeRuneInString(s[at : at+size])
			return how != byCode || yield(at, r)
		})
	}
}

func shown(s string, stays func(rune) bool) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	var b strings.Builder
	done := 0
	eachHidden(s, stays, func(at, size int, how drawing) bool {
		b.WriteString(s[done:at])
		if how == byCode {
			r, _ := utf8.DecodeRuneInString(s[at:])
			fmt.Fprintf(&b, "⟨U+%04X⟩", r)
		}
		done = at + size
		return true
	})
	if done == 0 {
		return s
	}
	b.WriteString(s[done:])
	return b.String()
}

// drawing is how a hidden character is shown.
type drawing int

const (
	byCode  drawing = iota
	leftOut         // it only picks how the symbol before it is drawn
)

// eachHidden visits the hidden characters of a text that do not stay, until visit
// returns false.
func eachHidden(s string, stays func(rune) bool, visit func(at, size int, how drawing) bool) {
	if !strings.ContainsFunc(s, Hidden) {
		return
	}
	before, symbol := ' ', ' ' // symbol: before, without a variation selector behind it
	for at, r := range s {
		_, size := utf8.DecodeRuneInString(s[at:])
		switch {
		case !Hidden(r) || stays(r) || joins(symbol, r, s[at+size:]):
		case picksDrawing(before, r):
			if !visit(at, size, leftOut) {
				return
			}
		case !visit(at, size, byCode):
			return
		}
		if before = r; r != 0xFE0E && r != 0xFE0F {
			symbol = r
		}
	}
}

// picksDrawing reports whether r only says if the symbol before it is drawn as
// text or as an emoji. That says nothing to a reader, so it is left out.
func picksDrawing(before, r rune) bool {
	return (r == 0xFE0E || r == 0xFE0F) && !Hidden(before) && (unicode.In(before, unicode.S, unicode.P) || '0' <= before && before <= '9')
}

// joined are the scripts in which a joiner or non-joiner between two letters is a part
// of the spelling.
var joined = []*unicode.RangeTable{
	unicode.Arabic, unicode.Syriac, unicode.Devanagari, unicode.Bengali, unicode.Gurmukhi, unicode.Gujarati, unicode.Oriya,
	unicode.Tamil, unicode.Telugu, unicode.Kannada, unicode.Malayalam, unicode.Sinhala,
}

// joins reports whether r is a joiner or non-joiner that is seen by what it does: it
// makes one emoji of two, or spells a word of a script that needs it.
func joins(before, r rune, rest string) bool {
	if r != 0x200C && r != 0x200D {
		return false
	}
	next, _ := utf8.DecodeRuneInString(rest)
	if unicode.In(before, joined...) && unicode.In(next, joined...) {
		return unicode.In(before, unicode.L, unicode.M) && unicode.In(next, unicode.L, unicode.M)
	}
	return r == 0x200D && unicode.In(before, unicode.So, unicode.Sk) && unicode.In(next, unicode.So, unicode.Sk)
}
