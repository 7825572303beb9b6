package sqlite

import (
	"slices"
)

// The limits of the number of segments, all of which a search has to read.
const (
	// mergedAtOnce is how many segments of similar size are merged into one.
	mergedAtOnce = 8
	// largestMerge is the size of segments that are not merged: merging them would
	// delay a mint by a second.
	largestMerge = 1 << 15
	// tidied is how many of the latest segments are considered.
	tidied = 64
)

// tidy merges the latest segments of a space if many of them are small.
func tidy(tx *transaction, space int64) error {
	var latest []storedSegment
	err := tx.rows(`SELECT id, first, span, documents, gone FROM search_segments WHERE space = ? ORDER BY first DESC LIMIT ?`,
		[]any{space, tidied}, func(scan func(...any) error) error {
			s := storedSegment{space: space}
			err := scan(&s.id, &s.first, &s.span, &s.documents, &s.gone)
			latest = append(latest, s)
			return err
		})
	if err != nil {
		return err
	}
	merged := 0
	for limit := int64(mergedAtOnce); limit <= largestMerge; limit *= mergedAtOnce {
		small := slices.IndexFunc(latest, func(s storedSegment) bool { return s.documents >= limit })
		if small < 0 {
			small = len(latest)
		}
		if small >= mergedAtOnce {
			merged = small
		}
	}
	if merged == 0 {
		return nil
	}
	slices.Reverse(latest[:merged])
	return mergeStored(tx, latest[:merged])
}

// mergeStored replaces consecutive segments by one.
func mergeStored(tx *transaction, segments []storedSegment) error {
	first, last := segments[0], segments[len(segments)-1]
	var parts []*part
	documents := int64(0)
	for _, s := range segments {
		documents += s.documents
		p := &part{offset: int(s.first - first.first), gone: s.gone}
		err := tx.rows(`SELECT block FROM search_blocks WHERE id BETWEEN ? AND ? ORDER BY id`,
			[]any{blockID(s.id, 0), blockID(s.id+1, 0) - 1}, func(scan func(...any) error) error {
				var block []byte
				err := scan(&block)
				p.blocks = append(p.blocks, block)
				return err
			})
		if err != nil {
			return err
		}
		parts = append(parts, p)
	}
	merged, err := merge(parts)
	if err != nil {
		return err
	}
	for _, s := range segments {
		if err := tx.exec(`DELETE FROM search_segments WHERE id = ?`, s.id); err != nil {
			return err
		}
		if err := tx.exec(`DELETE FROM search_blocks WHERE id BETWEEN ? AND ?`, blockID(s.id, 0), blockID(s.id+1, 0)-1); err != nil {
			return err
		}
	}
	if documents == 0 {
		return nil
	}
	row := storedSegment{space: first.space, first: first.first, span: last.first + last.span - first.first, documents: documents}
	return insertSegment(tx, row, merged)
}
