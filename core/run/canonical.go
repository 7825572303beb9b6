package run

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf16"
	"unicode/utf8"
)

// maxNesting is how deep arrays and objects may be nested, as in encoding/json.
const maxNesting = 10_000

// Canonical returns the one form of a JSON document that is hashed: that of RFC
// 8785, except that each number keeps its value: RFC 8785 rounds
// numbers to doubles, which would give an integer beyond 2^53 the form, and the
// digest, of its neighbours.
func Canonical(document []byte) ([]byte, error) {
	p := canonicalParsers.Get().(*canonicalParser)
	defer p.release()
	p.in = document
	root, err := p.value()
	if p.token(); err == nil && p.at < len(p.in) {
		err = errors.New("there is something after the value")
	}
	if err != nil {
		return nil, fmt.Errorf("canonical JSON: %w", err)
	}
	return p.appendNode(make([]byte, 0, len(document)), root), nil
}

// canonicalParsers are reused, because every proof and every digest needs one.
var canonicalParsers = sync.Pool{New: func() any { return new(canonicalParser) }}

// maxKept is how many nodes a parser keeps room for when it is released.
const maxKept = 4096

func (p *canonicalParser) release() {
	if cap(p.kept) > maxKept || cap(p.pending) > maxKept {
		return
	}
	// The nodes refer to the document.
	clear(p.kept)
	clear(p.pending[:cap(p.pending)])
	*p = canonicalParser{kept: p.kept[:0], pending: p.pending[:0]}
	canonicalParsers.Put(p)
}

// canonicalNode is a value. Parsing and writing are two passes, so that members are
// sorted without moving what is nested in them.
type canonicalNode struct {
	name       []byte // of a member, without quotes and escapes
	text       []byte // of a string, number or literal, as it is written
	open       byte   // '{' or '[': it has children instead of a text
	first, end int    // the children in canonicalParser.kept; the members of an object are sorted
}

func (p *canonicalParser) appendNode(out []byte, n canonicalNode) []byte {
	if n.open == 0 {
		return append(out, n.text...)
	}
	out = append(out, n.open)
	for i, child := range p.kept[n.first:n.end] {
		if i > 0 {
			out = append(out, ',')
		}
		if n.open == '{' {
			out = append(appendQuoted(out, child.name), ':')
		}
		out = p.appendNode(out, child)
	}
	return append(out, n.open+2) // the closing bracket
}

// canonicalParser reads a document once, from its begin to its end.
type canonicalParser struct {
	in    []byte
	at    int
	depth int
	// pending are the children read so far of the containers that are open, and kept
	// those of the containers that are closed.
	pending, kept []canonicalNode
}

var errEnd = errors.New("unexpected end")

// token returns the next byte that is not white space, without reading it, or 0 at the end.
func (p *canonicalParser) token() byte {
	for ; p.at < len(p.in); p.at++ {
		if c := p.in[p.at]; !isSpace(c) {
			return c
		}
	}
	return 0
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }

// expect reads a byte that has to be the next one.
func (p *canonicalParser) expect(want byte) error {
	if got := p.token(); got != want {
		return fmt.Errorf("want %q, got %q", want, got)
	}
	p.at++
	return nil
}

func (p *canonicalParser) value() (canonicalNode, error) {
	switch c := p.token(); c {
	case '{', '[':
		return p.container(c)
	case '"':
		begin := p.at
		s, plain, err := p.text()
		if plain {
			return canonicalNode{text: p.in[begin:p.at]}, err
		}
		return canonicalNode{text: appendQuoted(make([]byte, 0, p.at-begin), s)}, err
	}
	begin := p.at
	for p.at < len(p.in) && !isSpace(p.in[p.at]) && strings.IndexByte(",]}", p.in[p.at]) < 0 {
		p.at++
	}
	text := p.in[begin:p.at]
	switch string(text) {
	case "":
		return canonicalNode{}, errors.New("a value is missing")
	case "true", "false", "null":
		return canonicalNode{text: text}, nil
	}
	text, err := canonicalNumber(text)
	return canonicalNode{text: text}, err
}

// container reads an object or an array.
func (p *canonicalParser) container(open byte) (canonicalNode, error) {
	if p.depth++; p.depth > maxNesting {
		return canonicalNode{}, fmt.Errorf("it is nested deeper than %d", maxNesting)
	}
	p.at++
	first := len(p.pending)
	for p.token() != open+2 {
		if len(p.pending) > first {
			if err := p.expect(','); err != nil {
				return canonicalNode{}, err
			}
		}
		child, err := p.child(open)
		if err != nil {
			return canonicalNode{}, err
		}
		p.pending = append(p.pending, child)
	}
	p.at++
	p.depth--
	n := canonicalNode{open: open, first: len(p.kept)}
	p.kept = append(p.kept, p.pending[first:]...)
	p.pending = p.pending[:first]
	n.end = len(p.kept)
	if open == '[' {
		return n, nil
	}
	children := p.kept[n.first:]
	byName := func(a, b canonicalNode) int { return compareNames(a.name, b.name) }
	if !slices.IsSortedFunc(children, byName) {
		slices.SortFunc(children, byName)
	}
	for i := 1; i < len(children); i++ {
		if name := children[i].name; bytes.Equal(name, children[i-1].name) {
			return n, fmt.Errorf("the name %.40q is there twice", name)
		}
	}
	return n, nil
}

func (p *canonicalParser) child(open byte) (canonicalNode, error) {
	if open == '[' {
		return p.value()
	}
	if c := p.token(); c != '"' {
		return canonicalNode{}, fmt.Errorf("want a name, got %q", c)
	}
	name, _, err := p.text()
	if err == nil {
		err = p.expect(':')
	}
	if err != nil {
		return canonicalNode{}, err
	}
	n, err := p.value()
	n.name = name
	return n, err
}

// text reads a string and returns it without quotes and escapes. plain: it has none, so
// it is written as it is read.
func (p *canonicalParser) text() (s []byte, plain bool, err error) {
	p.at++
	begin, plain := p.at, true
	for p.at < len(p.in) {
		switch c := p.in[p.at]; {
		case c == '"':
			if plain {
				s = p.in[begin:p.at]
			}
			p.at++
			return s, plain, nil
		case c == '\\':
			if plain {
				s, plain = slices.Clone(p.in[begin:p.at]), false
			}
			r, err := p.escape()
			if err != nil {
				return nil, false, err
			}
			s = utf8.AppendRune(s, r)
		case c < ' ':
			return nil, false, fmt.Errorf("a string has the control character %q", c)
		case c < utf8.RuneSelf:
			if !plain {
				s = append(s, c)
			}
			p.at++
		default:
			r, size := utf8.DecodeRune(p.in[p.at:])
			if r == utf8.RuneError && size == 1 {
				return nil, false, errors.New("a string is not UTF-8")
			}
			if !plain {
				s = append(s, p.in[p.at:p.at+size]...)
			}
			p.at += size
		}
	}
	return nil, false, errEnd
}

// escape reads an escape sequence: a backslash and what it means.
func (p *canonicalParser) escape() (rune, error) {
	if p.at+1 >= len(p.in) {
		return 0, errEnd
	}
	c := p.in[p.at+1]
	if c == 'u' {
		r, err := p.unicode()
		if err != nil || !utf16.IsSurrogate(r) {
			return r, err
		}
		low, err := p.unicode()
		if err == nil {
			if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
				err = errors.New("a string has half of a surrogate pair")
			}
		}
		return r, err
	}
	i := strings.IndexByte(escapes, c)
	if i < 0 && c != '/' {
		return 0, fmt.Errorf("a string has the escape %q", p.in[p.at:p.at+2])
	}
	p.at += 2
	if i < 0 {
		return '/', nil
	}
	return rune(escaped[i]), nil
}

// unicode reads a backslash, the letter u and four hexadecimal digits.
func (p *canonicalParser) unicode() (rune, error) {
	if p.at+6 > len(p.in) || p.in[p.at] != '\\' || p.in[p.at+1] != 'u' {
		return 0, errors.New("a string has an incomplete escape")
	}
	n, err := strconv.ParseUint(string(p.in[p.at+2:p.at+6]), 16, 32)
	if err != nil {
		return 0, fmt.Errorf("a string has the escape %q", p.in[p.at:p.at+6])
	}
	p.at += 6
	return rune(n), nil
}

// The escapes of two characters: the second one, and what each of them means.
const (
	escapes = `"\bfnrt`
	escaped = "\"\\\b\f\n\r\t"
)

// appendQuoted writes a string as RFC 8785, section 3.2.2.2, has it.
func appendQuoted(out, s []byte) []byte {
	out = append(out, '"')
	begin := 0 // of what is not written yet
	for at, c := range s {
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		out = append(out, s[begin:at]...)
		if i := strings.IndexByte(escaped, c); i >= 0 {
			out = append(out, '\\', escapes[i])
		} else {
			out = fmt.Appendf(out, `\u%04x`, c)
		}
		begin = at + 1
	}
	return append(append(out, s[begin:]...), '"')
}

// compareNames compares names by their UTF-16 code units, see RFC 8785, section 3.2.3.
func compareNames(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return int(unitOrder(a[i])) - int(unitOrder(b[i]))
		}
	}
	return len(a) - len(b)
}

// unitOrder is the place of the first byte of a character in UTF-8 among those of other
// characters in the order of UTF-16, which has the characters above U+FFFF (from 0xF0)
// before those from U+E000 (0xEE and 0xEF). Other bytes keep their places.
func unitOrder(b byte) byte {
	switch {
	case b >= 0xF0:
		return b - 2
	case b >= 0xEE:
		return b + 8
	}
	return b
}
