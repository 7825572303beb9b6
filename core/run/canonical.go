package run

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gowebpki/jcs"
)

// canonical is the canonical form (RFC 8785) of a JSON document. Nearly all
// that is digested needs nothing but its members sorted; what may need more is
// left to the library.
func canonical(document []byte) ([]byte, error) {
	p := sorter{in: document, out: make([]byte, 0, len(document)), keys: make([]member, 0, 16)}
	if utf8.Valid(document) && p.value(0) && p.ends() {
		return p.out, nil
	}
	return jcs.Transform(document)
}

// sorter writes a JSON document canonically as long as that is plain. Its
// methods return false where it is not, or where the text is not JSON.
type sorter struct {
	in   []byte
	at   int
	out  []byte
	keys []member // of the objects that are being read, the outermost first
	// spare is room to sort in.
	spare []byte
}

// member is where a member of an object stands in sorter.out.
type member struct{ start, keyEnd, end int }

// plainDepth is how deeply nested a document may be.
const plainDepth = 64

// space skips white space and returns the byte after it; 0: the end.
func (p *sorter) space() byte {
	for ; p.at < len(p.in); p.at++ {
		switch c := p.in[p.at]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}

func (p *sorter) ends() bool {
	p.space()
	return p.at == len(p.in)
}

func (p *sorter) value(depth int) bool {
	if depth > plainDepth {
		return false
	}
	switch c := p.space(); c {
	case '{':
		return p.object(depth)
	case '[':
		return p.array(depth)
	case '"':
		return p.text()
	case 't':
		return p.word("true")
	case 'f':
		return p.word("false")
	case 'n':
		return p.word("null")
	default:
		return p.number()
	}
}

func (p *sorter) word(w string) bool {
	if !strings.HasPrefix(string(p.in[p.at:min(p.at+len(w), len(p.in))]), w) {
		return false
	}
	p.at += len(w)
	p.out = append(p.out, w...)
	return true
}

// take passes over the byte if it is next.
func (p *sorter) take(c byte) bool {
	if p.space() != c {
		return false
	}
	p.at++
	return true
}

func (p *sorter) array(depth int) bool {
	p.at++
	p.out = append(p.out, '[')
	if p.take(']') {
		p.out = append(p.out, ']')
		return true
	}
	for {
		if !p.value(depth + 1) {
			return false
		}
		if p.take(']') {
			p.out = append(p.out, ']')
			return true
		}
		if !p.take(',') {
			return false
		}
		p.out = append(p.out, ',')
	}
}

func (p *sorter) object(depth int) bool {
	p.at++
	p.out = append(p.out, '{')
	if p.take('}') {
		p.out = append(p.out, '}')
		return true
	}
	first := len(p.keys)
	for {
		if len(p.keys) > first {
			p.out = append(p.out, ',')
		}
		m := member{start: len(p.out)}
		if p.space() != '"' || !p.text() || !ascii(p.out[m.start:]) {
			return false
		}
		m.keyEnd = len(p.out) - 1 // without the quote: a shorter key comes first
		if !p.take(':') {
			return false
		}
		p.out = append(p.out, ':')
		if !p.value(depth + 1) {
			return false
		}
		m.end = len(p.out)
		p.keys = append(p.keys, m)
		if p.take('}') {
			break
		}
		if !p.take(',') {
			return false
		}
	}
	return p.sorted(first)
}

// sorted ends an object whose members were written one after the other, and
// puts them in order if they are not.
func (p *sorter) sorted(first int) bool {
	members := p.keys[first:]
	p.keys = p.keys[:first]
	inOrder := true
	for i := 1; i < len(members) && inOrder; i++ {
		inOrder = bytes.Compare(p.key(members[i-1]), p.key(members[i])) < 0
	}
	if !inOrder && !p.reorder(members) {
		return false
	}
	p.out = append(p.out, '}')
	return true
}

func (p *sorter) key(m member) []byte { return p.out[m.start:m.keyEnd] }

// reorder sorts members; false: two have the same key.
func (p *sorter) reorder(members []member) bool {
	start := members[0].start
	slices.SortFunc(members, func(a, b member) int { return bytes.Compare(p.key(a), p.key(b)) })
	p.spare = p.spare[:0]
	for i, m := range members {
		if i > 0 {
			if bytes.Equal(p.key(members[i-1]), p.key(m)) {
				return false
			}
			p.spare = append(p.spare, ',')
		}
		p.spare = append(p.spare, p.out[m.start:m.end]...)
	}
	p.out = append(p.out[:start], p.spare...)
	return true
}

// ascii reports whether a key sorts by its bytes as it does by its characters,
// which one with an escape or beyond ASCII may not.
func ascii(key []byte) bool {
	for _, c := range key {
		if c >= utf8.RuneSelf || c == '\\' {
			return false
		}
	}
	return true
}

// text copies a string. Of the escapes it knows those that are canonical, and
// those that Go writes for HTML's sake.
func (p *sorter) text() bool {
	p.out = append(p.out, '"')
	p.at++
	for from := p.at; p.at < len(p.in); {
		switch c := p.in[p.at]; {
		case c == '"':
			p.at++
			p.out = append(p.out, p.in[from:p.at]...)
			return true
		case c < ' ':
			return false
		case c != '\\':
			p.at++
		case p.at+1 < len(p.in) && strings.IndexByte(`"\bfnrt`, p.in[p.at+1]) >= 0:
			p.at += 2
		default:
			r, ok := htmlEscape(p.in[p.at:])
			if !ok {
				return false
			}
			p.out = append(append(p.out, p.in[from:p.at]...), r)
			p.at += len(`\u003c`)
			from = p.at
		}
	}
	return false
}

func htmlEscape(text []byte) (byte, bool) {
	if len(text) < len(`\u003c`) {
		return 0, false
	}
	switch string(text[:len(`\u003c`)]) {
	case `\u003c`:
		return '<', true
	case `\u003e`:
		return '>', true
	case `\u0026`:
		return '&', true
	}
	return 0, false
}

// plainDigits is how many digits every number keeps on its way through a float64.
const plainDigits = 15

// number copies a number that is written in the only way it can be: no
// exponent, no zeros that say nothing, and neither tiny nor long.
func (p *sorter) number() bool {
	start := p.at
	if p.at < len(p.in) && p.in[p.at] == '-' {
		p.at++
	}
	whole := p.digits()
	zero := string(whole) == "0"
	if len(whole) == 0 || (whole[0] == '0' && !zero) {
		return false
	}
	var fraction []byte
	if p.at < len(p.in) && p.in[p.at] == '.' {
		p.at++
		fraction = p.digits()
		if len(fraction) == 0 || fraction[len(fraction)-1] == '0' || (zero && bytes.HasPrefix(fraction, []byte("00000"))) {
			return false
		}
	}
	negativeZero := zero && fraction == nil && p.in[start] == '-'
	if negativeZero || len(whole)+len(fraction) > plainDigits || p.exponent() {
		return false
	}
	p.out = append(p.out, p.in[start:p.at]...)
	return true
}

func (p *sorter) digits() []byte {
	start := p.at
	for p.at < len(p.in) && p.in[p.at] >= '0' && p.in[p.at] <= '9' {
		p.at++
	}
	return p.in[start:p.at]
}

func (p *sorter) exponent() bool {
	return p.at < len(p.in) && (p.in[p.at] == 'e' || p.in[p.at] == 'E')
}
