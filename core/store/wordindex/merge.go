package wordindex

import (
	"slices"
)

// The limits of the number of segments, all of which a search has to read.
const (
	// mergedAt is the number of segments that are merged in part. Those of
	// largestMerge do not count.
	mergedAt = 8
	// mergedSize is how many times larger than all later ones together a segment may
	// be to be merged with them. It bounds the work of a mint: a protocol is merged
	// again only after as many others that half of its segment is new.
	mergedSize = 2
	// largestMerge is the size of segments that are not merged: merging them would
	// delay a mint by a second.
	largestMerge = 1 << 15
	// tidied is how many of the latest segments are considered.
	tidied = 64
)

// tidy merges the latest segments of a space if there are many.
func tidy(w Writer, space int64) error {
	latest, err := w.LatestSegments(space, tidied)
	if err != nil {
		return err
	}
	merged := mergeable(latest)
	if merged < 2 {
		return nil
	}
	slices.Reverse(latest[:merged])
	return mergeStored(w, latest[:merged])
}

// mergeable returns how many of the latest segments are to be merged.
func mergeable(latest []Stored) (n int) {
	small := slices.IndexFunc(latest, func(s Stored) bool { return s.Documents >= largestMerge })
	if small < 0 {
		small = len(latest)
	}
	if small < mergedAt {
		return 0
	}
	for documents := latest[0].Documents; n < small && latest[n].Documents <= mergedSize*documents; n++ {
		documents += latest[n].Documents
	}
	return n
}

// mergeStored replaces consecutive segments by one.
func mergeStored(w Writer, segments []Stored) error {
	first, last := segments[0], segments[len(segments)-1]
	var parts []*part
	documents := int64(0)
	for _, s := range segments {
		documents += s.Documents
		blocks, err := w.SegmentBlocks(s.ID)
		if err != nil {
			return err
		}
		parts = append(parts, &part{offset: int(s.First - first.First), gone: s.Gone, blocks: blocks})
	}
	merged, err := merge(parts)
	if err != nil {
		return err
	}
	for _, s := range segments {
		if err := w.DeleteSegment(s.ID); err != nil {
			return err
		}
	}
	if documents == 0 {
		return nil
	}
	return w.InsertSegment(Stored{Space: first.Space, First: first.First, Span: last.First + last.Span - first.First, Documents: documents}, merged)
}
