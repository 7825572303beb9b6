package search

import (
	"iter"
)

// walk iterates over the words of a document in order.
type walk struct {
	rest   []byte
	left   int // words
	failed bool

	text   []byte
	shared int    // length of the prefix of text that the term shares
	more   []byte // rest of the term
	places []byte // binary
}

func (d Document) walk() walk { return walk{rest: d.entries, left: d.words} }

// next advances to the next word; false: the end.
func (w *walk) next() bool {
	if w.left == 0 || w.failed {
		return false
	}
	w.left--
	if w.nextSmall() {
		return true
	}
	w.text = w.take()
	shared, n := uvarint(w.rest)
	if w.failed || n <= 0 || shared > uint64(len(w.text)) {
		w.failed = true
		return false
	}
	w.rest = w.rest[n:]
	w.shared = int(shared) //nolint:gosec // at most a length
	w.more = w.take()
	w.places = w.take()
	return !w.failed
}

// nextSmall is next for entries whose numbers all take one byte, which nearly all
// do.
func (w *walk) nextSmall() bool {
	b := w.rest
	if len(b) < 4 || b[0] >= 0x80 {
		return false
	}
	more := int(b[0]) + 3
	if more > len(b) || b[more-2] > b[0] || b[more-1] >= 0x80 {
		return false
	}
	places := more + int(b[more-1]) + 1
	if places > len(b) || b[places-1] >= 0x80 {
		return false
	}
	end := places + int(b[places-1])
	if end > len(b) {
		return false
	}
	w.text, w.shared, w.more = b[1:more-2], int(b[more-2]), b[more:places-1]
	w.places, w.rest = b[places:end], b[end:]
	return true
}

// take reads bytes that are preceded by their number.
func (w *walk) take() []byte {
	v, n := uvarint(w.rest)
	if n <= 0 || v > uint64(len(w.rest)-n) {
		w.failed = true
		return nil
	}
	end := n + int(v) //nolint:gosec // at most a length
	taken := w.rest[n:end]
	w.rest = w.rest[end:]
	return taken
}

// term is the term of the word.
func (w *walk) term() string { return string(w.text[:w.shared]) + string(w.more) }

// hasTerm reports whether the word has the term.
func (w *walk) hasTerm(term string) bool {
	return len(term) == w.shared+len(w.more) && term[:w.shared] == string(w.text[:w.shared]) && term[w.shared:] == string(w.more)
}

// each iterates over the places of the word.
func (w *walk) each() iter.Seq[place] {
	return func(yield func(place) bool) {
		at := place(0)
		for rest := w.places; len(rest) > 0; {
			v, n := uvarint(rest)
			if n <= 0 {
				return
			}
			rest = rest[n:]
			if at += place(v); !yield(at) {
				return
			}
		}
	}
}

// best is the best standing of the word.
func (w *walk) best() Standing {
	best := InText
	for p := range w.each() {
		best = max(best, standingOf[p.field()])
	}
	return best
}
