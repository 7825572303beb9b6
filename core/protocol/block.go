package protocol

import (
	"sort"
	"strings"
)

// Anchor is the place in the parsed document of a byte of a challenge. The bytes up to
// the next anchor stand behind it on its line.
type Anchor struct {
	Offset int
	Place  Place
}

// placeAmong is the place of an offset of the text according to its anchors, which are
// sorted and of which the first is that of offset 0.
func placeAmong(anchors []Anchor, text []byte, offset int) Place {
	offset = min(max(offset, 0), len(text))
	i := sort.Search(len(anchors), func(i int) bool { return anchors[i].Offset > offset }) - 1
	at := anchors[i].Place
	at.Column += columns(text[anchors[i].Offset:offset])
	return at
}

// block is what a fenced block holds, as JSON, with its members.
type block struct {
	fence
	json    []byte
	anchors []Anchor
	top     map[string]member
}

// place is the place in the document of an offset of the JSON.
func (b block) place(offset int) Place { return placeAmong(b.anchors, b.json, offset) }

// anchorsOf are the anchors of the value of a member.
func (b block) anchorsOf(m member) []Anchor {
	out := []Anchor{{0, b.place(m.start)}}
	for _, a := range b.anchors {
		if a.Offset > m.start && a.Offset <= m.start+len(m.value) {
			out = append(out, Anchor{a.Offset - m.start, a.Place})
		}
	}
	return out
}

// anchorsOf are the anchors of the lines of a block.
func (o outline) anchorsOf(f fence) []Anchor {
	if len(f.lines) == 0 {
		return []Anchor{{0, o.placeOf(f.start)}}
	}
	out := make([]Anchor, len(f.lines))
	offset := 0
	for i, at := range f.lines {
		out[i] = Anchor{offset, o.placeOf(at)}
		offset += strings.IndexByte(f.content[offset:], '\n') + 1
	}
	return out
}
