// Package index keeps an index beside the database up to date and asks it what is
// near to a query. The database is the truth: the index can be lost, be behind or
// be made again at any time, and nothing but speed depends on it.
package index

import (
	"context"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/search"
)

// Outbox lists the protocols whose present state an index does not have yet. Every
// method may block, honours its context, and is called concurrently, also by
// several processes that share the database.
type Outbox interface {
	// DatabaseID identifies the database. It never changes.
	DatabaseID(ctx context.Context) (string, error)
	// Fill marks all protocols as pending, unless the last call had the same id of
	// an index. From the first call on, every transaction that stores, deletes or
	// rates a protocol or stores the vector of one of its passages marks that
	// protocol, in all processes and whatever their configuration.
	Fill(ctx context.Context, indexID string) error
	// Pending returns the protocols that are marked, the longest marked first, at
	// most limit.
	Pending(ctx context.Context, limit int) ([]Entry, error)
	// Behind counts the pending protocols for which more than ratings changed, up to
	// limit.
	Behind(ctx context.Context, limit int) (int, error)
	// Delivered removes the entries. It returns those that it did not find: they
	// have changed since they were read, or another process has removed them.
	Delivered(ctx context.Context, entries []Entry) (missed []Entry, err error)
	// Model is the model of the vector that was stored last; zero without one.
	Model(ctx context.Context) (Model, error)
	// Entries pages through all protocols of all spaces, marked or not, after the
	// opaque cursor ("": from the start). Their Revision is the last that was given.
	// next is "" at the end.
	Entries(ctx context.Context, cursor string, limit int) (all []Entry, next string, err error)
}

// Entry is a protocol that is marked.
type Entry struct {
	// Revision orders the marks of the whole database. A protocol that is marked
	// again gets a new one, which is higher than all before, and has one entry.
	Revision int64
	Space    string
	ChainID  string
}

// Revisions are those of the entries.
func Revisions(entries []Entry) []int64 {
	revisions := make([]int64, len(entries))
	for i, e := range entries {
		revisions[i] = e.Revision
	}
	return revisions
}

// Missed returns the entries whose revisions were not removed.
func Missed(entries []Entry, removed map[int64]bool) (missed []Entry) {
	for _, e := range entries {
		if !removed[e.Revision] {
			missed = append(missed, e)
		}
	}
	return missed
}

// Model describes the vectors of an embedding model.
type Model struct {
	Name   string // provider/model/dimension; empty: there are no vectors
	Length int
}

// Store is a database with an outbox. See library.Protocols, library.Ratings and
// library.Vectors for the other methods.
type Store interface {
	Outbox
	Chain(ctx context.Context, spaces []string, id string) (protocol.Chain, error)
	Quality(ctx context.Context, space string, stepUUIDs []string) (map[string]api.Quality, error)
	Known(ctx context.Context, model string, hashes []string) (map[string][]float32, error)
}

// Document is the state of a protocol at an entry, or a later one.
type Document struct {
	Entry
	Chain   protocol.Chain         // without steps: it was deleted
	Quality map[string]api.Quality // by step UUID
	Vectors map[string][]float32   // by hash of the passage
}

// Index is made from documents. Every method may block, honours its context, and
// is called concurrently. fault.StoreUnavailable: it does not answer at the moment.
type Index interface {
	// Find finds the index of a database for the vectors of a model; "": there is
	// none. The id differs from that of every other index, also of those that were
	// there before. fault.Conflict: what is there belongs to something else.
	Find(ctx context.Context, database string, m Model) (id string, err error)
	// Make is Find, and makes the index if there is none, instead of one for another
	// model. It leaves alone what belongs to something else.
	Make(ctx context.Context, database string, m Model) (id string, err error)
	// Put replaces the protocols of the documents, visibly to the next call. A
	// protocol whose document has a higher revision already stays as it is, so
	// that a call can be repeated, late, and by several processes. fault.InvalidArgument: a
	// document is not accepted as it is.
	Put(ctx context.Context, documents []Document) error
	// Nearest finds the steps of the spaces that are nearest to a vector, at most
	// limit, or nil if the index has no vectors of this model.
	Nearest(ctx context.Context, spaces []string, e library.Embedding, limit int) (*search.Near, error)
	// Compare reports how the protocols differ from their documents.
	Compare(ctx context.Context, documents []Document) (Difference, error)
	// Count is the number of steps in the index.
	Count(ctx context.Context) (int, error)
	// Drop removes the index of the database, if there is one, and nothing else.
	Drop(ctx context.Context, database string) error
	// Check reports whether Make could work, without changing anything.
	Check(ctx context.Context, database string) error
	// Location says where the index is, for people.
	Location() string
}

// Difference is how some protocols differ from their documents.
type Difference struct {
	Found     int // steps of the protocols that are as they should be
	Protocols []Differing
}

// Differing is a protocol that is not in the index as it should be.
type Differing struct {
	Entry
	Title   string
	Found   int // steps that are there, right or wrong
	Missing int // steps that are not
	Wrong   int // steps that differ
}
