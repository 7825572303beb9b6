package search

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/kairos-mcp/kairos/core/protocol"
)

// AppendBinary appends the compact form that ParseDocument reads. The error is always nil.
func (d Document) AppendBinary(b []byte) ([]byte, error) {
	b = append(b, Version)
	b = binary.AppendUvarint(b, uint64(d.steps))
	b = binary.AppendUvarint(b, uint64(len(d.names)))
	for _, n := range d.names {
		b = binary.LittleEndian.AppendUint64(b, n.exact)
		b = binary.LittleEndian.AppendUint64(b, n.loose)
		b = binary.AppendUvarint(b, uint64(n.size))
	}
	b = binary.AppendUvarint(b, uint64(d.words))
	return append(b, d.entries...), nil
}

// append appends the binary form: the word, its term as the length of the prefix
// shared with the word and the rest, and the places as differences. Lengths come
// first, so that uninteresting words can be skipped.
func (e *entry) append(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(e.text)))
	b = append(b, e.text...)
	shared := 0
	for shared < len(e.text) && shared < len(e.term) && e.text[shared] == e.term[shared] {
		shared++
	}
	b = binary.AppendUvarint(b, uint64(shared))
	b = binary.AppendUvarint(b, uint64(len(e.term)-shared))
	b = append(b, e.term[shared:]...)
	var buffer [64]byte
	places, at := buffer[:0], place(0)
	for _, p := range e.places {
		places = binary.AppendUvarint(places, uint64(p-at))
		at = p
	}
	b = binary.AppendUvarint(b, uint64(len(places)))
	return append(b, places...)
}

// errDocument reports that the binary form of a document is invalid.
var errDocument = errors.New("not the binary form of a document")

// ParseDocument reads the output of AppendBinary, and rejects anything else. The
// document keeps b, which must not change.
func ParseDocument(b []byte) (Document, error) {
	d, err := OpenDocument(b)
	if err == nil && !d.whole() {
		err = errDocument
	}
	if err != nil {
		return Document{}, err
	}
	return d, nil
}

// OpenDocument is ParseDocument for trusted sources: it checks only the head, and
// damage further on ends the list of words.
func OpenDocument(b []byte) (Document, error) {
	if len(b) == 0 {
		return Document{}, errDocument
	}
	if b[0] != Version {
		return Document{}, fmt.Errorf("document of analyser version %d, want %d: %w", b[0], Version, errDocument)
	}
	r := reader{rest: b[1:]}
	var d Document
	d.steps = r.number(1 << 28)
	d.names = make([]name, r.number(int(fieldTrigger)+protocol.MaxTriggers))
	for i := range d.names {
		d.names[i] = name{exact: r.word(), loose: r.word(), size: r.number(1 << 20)}
	}
	d.words = r.number(maxEntries)
	d.entries = r.rest
	if r.failed || len(d.names) < int(fieldTrigger) {
		return Document{}, errDocument
	}
	return d, nil
}

// whole reports whether the entries are as AppendBinary writes them.
func (d Document) whole() bool {
	w := d.walk()
	var last []byte
	for w.next() {
		if len(last) > 0 && bytes.Compare(last, w.text) >= 0 || len(w.places) == 0 {
			return false
		}
		last = w.text
		at := place(0)
		for rest := w.places; len(rest) > 0; {
			v, n := uvarint(rest)
			if n <= 0 || v > 1<<31 || v == 0 && len(rest) < len(w.places) {
				return false
			}
			rest = rest[n:]
			if at += place(v); !d.has(at) {
				return false
			}
		}
	}
	return !w.failed && len(w.rest) == 0
}

// has reports whether the place exists in the document.
func (d Document) has(at place) bool {
	switch f := at.field(); {
	case f == fieldTrigger:
		return at.name() < len(d.names)
	case f.ofChain():
		return at.number() == 0
	default:
		return f < fields && at.number() < max(1, d.steps)
	}
}

// reader reads the numbers at the head of a binary form. After a failure it
// returns zeros.
type reader struct {
	rest   []byte
	failed bool
}

func (r *reader) number(limit int) int {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 || v > uint64(limit) {
		r.failed = true
		return 0
	}
	r.rest = r.rest[n:]
	return int(v)
}

func (r *reader) word() uint64 {
	if len(r.rest) < 8 {
		r.failed = true
		return 0
	}
	v := binary.LittleEndian.Uint64(r.rest)
	r.rest = r.rest[8:]
	return v
}

// uvarint is binary.Uvarint, optimised for small numbers.
func uvarint(b []byte) (uint64, int) {
	if len(b) > 0 && b[0] < 0x80 {
		return uint64(b[0]), 1
	}
	return binary.Uvarint(b)
}
