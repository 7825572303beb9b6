// Package wordindex is the search index of the SQL stores: which chains have a word
// or a similar vector, and how it is stored. It knows no database: stores implement
// Reader and Writer, and core/search computes the scores.
package wordindex

import (
	"errors"
	"fmt"

	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/search"
)

// Reader reads the index in one snapshot of the database. It is used by one
// goroutine. Bytes that are passed to a function belong to it.
type Reader interface {
	// Version is that of core/search that made the index.
	Version() (int, error)
	// Spaces returns those of the named spaces that have chains, by number.
	Spaces(names []string) ([]Space, error)
	// Segments returns the segments of the spaces, by space and first document.
	Segments(spaces []int64) ([]Stored, error)
	Directories(segments []int64, each func(segment int64, directory []byte) error) error
	Blocks(ids []int64, each func(id int64, block []byte) error) error
	// Words returns the next words after an id, in the order of their ids, which are
	// their numbers. Words must become visible in the order of their ids.
	Words(after int64) ([]search.Numbered, error)
	Documents(ids []int64, each func(id int64, raw []byte) error) error
	// Outlines returns the outlines of chains by the ids of their documents.
	Outlines(documents []int64) (map[int64]protocol.Chain, error)

	// Model returns the number of an embedding model and the length of its vectors;
	// length 0: there is none.
	Model(name string) (model int64, length int, err error)
	// Signs reads the signs of the model's vectors after an id, in the order of their
	// ids. They must become visible in the order of their ids.
	Signs(model, after int64, each func(id, vector int64, signs []byte) error) error
	CountSigns(model int64) (int, error)
	Vectors(keys []int64, each func(vector []byte) error) error
	// VectorsOf reads those of the vectors that belong to steps of chains of the spaces.
	VectorsOf(keys []int64, model int64, spaces []int64, each func(document int64, step int, vector []byte) error) error
	// Near finds those of the steps that are stored with their passages in the spaces,
	// by their positions in the list.
	Near(steps []library.NearStep, spaces []int64, each func(i int, document int64, step int) error) error
	// VectorKeys returns the keys of all vectors of the spaces.
	VectorKeys(spaces []int64) ([]int64, error)
}

// Writer changes the index in a transaction that excludes all other writers.
type Writer interface {
	// Version is that of core/search that made the index; 0: none has yet.
	Version() (int, error)
	// Clear empties the index, and makes it one of a version. Caches of it stay valid: no
	// number of a word, document or segment is used again.
	Clear(version int) error
	// Chains returns the chains with higher keys, by their keys.
	Chains(after int64, limit int) ([]Keyed, error)

	// Extend adds n chains to the count of a space and returns the number of the space
	// and of its last document.
	Extend(space string, n int64) (number, last int64, err error)
	// Shrink subtracts one chain.
	Shrink(space int64) error
	InsertDocuments(documents []Document) error
	// RemoveDocument removes the document of a chain, if there is one.
	RemoveDocument(chain int64) (id int64, found bool, err error)
	// NumberWords returns the ids of the words, and adds those that are not stored yet.
	NumberWords(words []string) ([]search.Numbered, error)

	// InsertSegment stores a segment under an id that was never used before.
	InsertSegment(row Stored, made Segment) error
	UpdateSegment(row Stored) error
	DeleteSegment(id int64) error
	SegmentBlocks(id int64) ([][]byte, error)
	// LatestSegments returns segments of a space, the latest first.
	LatestSegments(space int64, limit int) ([]Stored, error)
	// SegmentUpTo returns the last segment that begins at the document or before it.
	SegmentUpTo(space, number int64) (Stored, error)
}

// Space is a space that is searched.
type Space struct {
	Number int64
	Chains int
}

// Stored is a segment without its terms.
type Stored struct {
	ID        int64
	Space     int64  // number
	First     int64  // number of its first document
	Span      int64  // from there to its last
	Documents int64  // that are left
	Gone      []byte // a bit for each document that is not; nil: all are left
}

// Document is a chain as it was indexed.
type Document struct {
	ID    int64
	Chain int64 // key of the chain
	Raw   []byte
}

// Keyed is a chain with its key.
type Keyed struct {
	Key   int64
	Chain protocol.Chain
}

// Damage reports stored data that cannot be read.
type Damage struct {
	What, ID string
	Err      error
}

func (d *Damage) Error() string { return fmt.Sprintf("%s %s cannot be read: %v", d.What, d.ID, d.Err) }

// Unwrap returns the reason.
func (d *Damage) Unwrap() error { return d.Err }

var (
	// errOrphan reports that the search index has a chain that is not stored.
	errOrphan = errors.New("a protocol that is not stored is in the search index")
	// errNumber reports a word whose id does not fit into a document.
	errNumber = errors.New("its number is not one of 32 bits")
)
