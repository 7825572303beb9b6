package search

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/kairos-mcp/kairos/core/protocol"
)

// AppendBinary appends the compact form that OpenDocument reads. The numbers are
// those of Words; each is at least 1 and belongs to one word. Behind the names, there
// is a list for each place that has words:
//
//	place, as the difference from the one before
//	number of words
//	numbers of the words, ascending, as differences
//
// all in variable-length integers. That is smaller than the places of each word, and
// most of it is skipped without a comparison of texts.
func (a Analysis) AppendBinary(b []byte, numbers []uint32) []byte {
	b = append(b, Version)
	b = binary.AppendUvarint(b, uint64(a.steps))
	b = binary.AppendUvarint(b, uint64(len(a.names)))
	for _, n := range a.names {
		if n.exact == 0 {
			b = append(b, 0)
			continue
		}
		size := uint64(n.size+1) << 1 //nolint:gosec // a count
		if n.alike != n.exact {
			size++ // one more hash follows
		}
		b = binary.AppendUvarint(b, size)
		b = binary.LittleEndian.AppendUint64(b, n.exact)
		b = binary.LittleEndian.AppendUint64(b, n.loose)
		if n.alike != n.exact {
			b = binary.LittleEndian.AppendUint64(b, n.alike)
		}
	}
	var all []uint64 // place << 32 | number
	for i, e := range a.entries {
		for _, p := range e.places {
			all = append(all, uint64(p)<<32|uint64(numbers[i]))
		}
	}
	slices.Sort(all)
	at := place(0)
	for len(all) > 0 {
		p := place(all[0] >> 32)
		n := 1
		for n < len(all) && place(all[n]>>32) == p {
			n++
		}
		b = binary.AppendUvarint(b, uint64(p-at))
		b = binary.AppendUvarint(b, uint64(n))
		last := uint32(0)
		for _, v := range all[:n] {
			number := uint32(v) //nolint:gosec // the lower half
			b = binary.AppendUvarint(b, uint64(number-last))
			last = number
		}
		at, all = p, all[n:]
	}
	return b
}

// errDocument reports that the binary form of a document is invalid.
var errDocument = errors.New("not the binary form of a document")

// OpenDocument reads the output of AppendBinary: it checks only the head, and damage
// further on ends the lists. The document keeps b, which must not change.
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
		if size := r.number(1<<21 + 3); size > 0 {
			n := name{exact: r.word(), loose: r.word(), size: max(size>>1-1, 0)}
			if n.alike = n.exact; size&1 == 1 {
				n.alike = r.word()
			}
			d.names[i] = n
		}
	}
	d.lists = r.rest
	if r.failed || len(d.names) < int(fieldTrigger) {
		return Document{}, errDocument
	}
	return d, nil
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

// reader reads the numbers of a binary form. After a failure it returns zeros.
type reader struct {
	rest   []byte
	failed bool
}

func (r *reader) number(limit int) int {
	v, n := uvarint(r.rest)
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
