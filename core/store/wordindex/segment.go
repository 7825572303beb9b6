package wordindex

import (
	"encoding/binary"
	"errors"
	"math/bits"
	"slices"
	"sort"
	"strings"

	"github.com/kairos-mcp/kairos/core/search"
)

// Segment is the index of documents with successive numbers. It is a sorted
// list of terms, each with the documents that have it, cut into blocks; the
// directory holds the first term of each block. A term is stored as the length
// of the prefix it shares with the previous one, and the rest; its documents as
//
//	(gap to the previous one, or to the first of the segment) << 2 | search.Standing
//
// all in variable-length integers.
type Segment struct {
	Directory []byte
	Blocks    [][]byte
}

// blockSize fits into a page of a SQLite file. Only a single term may exceed it.
const blockSize = 4000

// errSegment reports that a segment was not written by this program.
var errSegment = errors.New("a block of the search index is damaged")

// segmentWriter makes a segment of terms that are added in order.
type segmentWriter struct {
	made        Segment
	block       []byte
	last, first string // term of the block
}

func (w *segmentWriter) add(term string, list []byte) {
	if len(w.block) > 0 && len(w.block)+len(term)+len(list)+8 > blockSize {
		w.cut()
	}
	if len(w.block) == 0 {
		w.made.Directory = appendShared(w.made.Directory, w.first, term)
		w.first, w.last = term, ""
	}
	w.block = appendShared(w.block, w.last, term)
	w.block = binary.AppendUvarint(w.block, uint64(len(list)))
	w.block = append(w.block, list...)
	w.last = term
}

func (w *segmentWriter) cut() {
	if len(w.block) > 0 {
		w.made.Blocks = append(w.made.Blocks, slices.Clone(w.block))
		w.block = w.block[:0]
	}
}

func (w *segmentWriter) finish() Segment {
	w.cut()
	return w.made
}

func appendShared(b []byte, before, s string) []byte {
	n := 0
	for n < len(before) && n < len(s) && before[n] == s[n] {
		n++
	}
	b = binary.AppendUvarint(b, uint64(n))
	b = binary.AppendUvarint(b, uint64(len(s)-n))
	return append(b, s[n:]...)
}

// segmentOf indexes documents by their postings.
func segmentOf(documents [][]search.Posting) Segment {
	type list struct {
		last  int
		bytes []byte
	}
	lists := make(map[string]*list)
	for number, postings := range documents {
		for _, p := range postings {
			l := lists[p.Term]
			if l == nil {
				l = &list{}
				lists[p.Term] = l
			}
			l.bytes = appendDocument(l.bytes, number-l.last, p.Standing)
			l.last = number
		}
	}
	terms := make([]string, 0, len(lists))
	for term := range lists {
		terms = append(terms, term)
	}
	slices.Sort(terms)
	var w segmentWriter
	for _, term := range terms {
		w.add(term, lists[term].bytes)
	}
	return w.finish()
}

func appendDocument(list []byte, gap int, s search.Standing) []byte {
	return binary.AppendUvarint(list, uint64(gap)<<2|uint64(s)) //nolint:gosec // gaps are not negative
}

// nextDocument reads the first gap and standing of a list.
func nextDocument(list []byte) (gap int, s search.Standing, rest []byte) {
	if b := list[0]; b < 0x80 {
		return int(b >> 2), search.Standing(b & 3), list[1:]
	}
	v, n := binary.Uvarint(list)
	if n <= 0 || v>>2 > 1<<32 {
		return 1 << 32, 0, nil // beyond every segment
	}
	return int(v >> 2), search.Standing(v & 3), list[n:] //nolint:gosec // at most 1<<32
}

// documentsIn counts the documents of a list: the last byte of each number is
// less than 0x80.
func documentsIn(list []byte) int {
	n := 0
	for _, b := range list {
		n += int(^b >> 7)
	}
	return n
}

// shared reads what appendShared wrote.
func shared(b []byte) (n int, more, rest []byte, ok bool) {
	v, size := binary.Uvarint(b)
	if size <= 0 || v > 1<<16 {
		return 0, nil, nil, false
	}
	more, rest, ok = counted(b[size:])
	return int(v), more, rest, ok //nolint:gosec // at most 1<<16
}

// counted reads bytes that are preceded by their number.
func counted(b []byte) (taken, rest []byte, ok bool) {
	v, size := binary.Uvarint(b)
	if size <= 0 || v > uint64(len(b)-size) {
		return nil, nil, false
	}
	end := size + int(v) //nolint:gosec // at most len(b)
	return b[size:end], b[end:], true
}

// parseDirectory returns the first term of each block.
func parseDirectory(b []byte) ([]string, error) {
	var all []string
	var last string
	for len(b) > 0 {
		n, more, rest, ok := shared(b)
		if !ok || n > len(last) {
			return nil, errSegment
		}
		last = last[:n] + string(more)
		all = append(all, last)
		b = rest
	}
	return all, nil
}

// blockOf is the index in the directory of the block for the term; -1: none.
func blockOf(directory []string, term string) int {
	return sort.Search(len(directory), func(i int) bool { return directory[i] > term }) - 1
}

// find calls found with the list of each term that is in the block. The terms are
// sorted; found gets their indices.
func find(block []byte, terms []string, found func(at int, list []byte)) error {
	matched := 0 // bytes that terms[at] shares with the entry before, which is smaller
	at := 0
	var buffer [256]byte
	entry := buffer[:0]
	for len(block) > 0 && at < len(terms) {
		n, more, rest, ok := shared(block)
		if !ok || n > len(entry) {
			return errSegment
		}
		list, tail, ok := counted(rest)
		if !ok {
			return errSegment
		}
		block = tail
		entry = append(entry[:n], more...)
		// Most entries differ where the previous one did.
		if n > matched {
			continue
		}
		matched = common(terms[at], entry)
		for at < len(terms) && terms[at] <= string(entry) {
			if terms[at] == string(entry) {
				found(at, list)
			}
			if at++; at < len(terms) {
				matched = common(terms[at], entry)
			}
		}
	}
	return nil
}

// common is the length of the common prefix.
func common(a string, b []byte) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// part is a segment that is merged with its neighbours.
type part struct {
	offset int    // of its document numbers in the merged segment
	gone   []byte // bits of documents to leave out; nil: none
	blocks [][]byte

	rest []byte // of the first of blocks
	term []byte
	list []byte
	done bool
}

// next goes to the next term.
func (p *part) next() error {
	for len(p.rest) == 0 {
		if len(p.blocks) == 0 {
			p.done = true
			return nil
		}
		p.rest, p.blocks, p.term = p.blocks[0], p.blocks[1:], p.term[:0]
	}
	n, more, rest, ok := shared(p.rest)
	if !ok || n > len(p.term) {
		return errSegment
	}
	p.term = append(p.term[:n], more...)
	if p.list, p.rest, ok = counted(rest); !ok {
		return errSegment
	}
	return nil
}

// merge merges consecutive segments into one.
func merge(parts []*part) (Segment, error) {
	for _, p := range parts {
		if err := p.next(); err != nil {
			return Segment{}, err
		}
	}
	var w segmentWriter
	var list []byte
	for {
		least := leastOf(parts)
		if least == nil {
			return w.finish(), nil
		}
		term := string(least.term)
		list = list[:0]
		last := 0
		for _, p := range parts {
			if p.done || string(p.term) != term {
				continue
			}
			list, last = p.appendTo(list, last)
			if err := p.next(); err != nil {
				return Segment{}, err
			}
		}
		if len(list) > 0 {
			w.add(term, list)
		}
	}
}

func leastOf(parts []*part) *part {
	var least *part
	for _, p := range parts {
		if !p.done && (least == nil || strings.Compare(string(p.term), string(least.term)) < 0) {
			least = p
		}
	}
	return least
}

// appendTo appends the documents of the part's term to a list that ends with
// document last.
func (p *part) appendTo(list []byte, last int) ([]byte, int) {
	number := p.offset
	for rest := p.list; len(rest) > 0; {
		var gap int
		var s search.Standing
		gap, s, rest = nextDocument(rest)
		number += gap
		if isGone(p.gone, number-p.offset) {
			continue
		}
		list = appendDocument(list, number-last, s)
		last = number
	}
	return list, last
}

func isGone(gone []byte, number int) bool {
	return number>>3 < len(gone) && gone[number>>3]&(1<<(number&7)) != 0
}

// withGone returns the bits with one more set.
func withGone(gone []byte, number, span int) []byte {
	set := make([]byte, (span+7)/8)
	copy(set, gone)
	set[number>>3] |= 1 << (number & 7)
	return set
}

func countGone(gone []byte) int {
	n := 0
	for _, b := range gone {
		n += bits.OnesCount8(b)
	}
	return n
}
