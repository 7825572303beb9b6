package wordindex

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
func tidy(w Writer, space int64) error {
	latest, err := w.LatestSegments(space, tidied)
	if err != nil {
		return err
	}
	merged := 0
	for limit := int64(mergedAtOnce); limit <= largestMerge; limit *= mergedAtOnce {
		small := slices.IndexFunc(latest, func(s Stored) bool { return s.Documents >= limit })
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
	return mergeStored(w, latest[:merged])
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
