// Package postgres keeps protocols, their search index and runs in a PostgreSQL
// database that several servers use at once. It contains no rules about runs or
// protocols: it stores them durably and all or nothing.
package postgres

import (
	"context"
	"log/slog"

	"github.com/kairos-mcp/kairos/core/archive"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/replicas"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/core/store/tables"
	"github.com/kairos-mcp/kairos/core/store/wordindex"
)

var (
	_ library.Protocols       = (*Protocols)(nil)
	_ library.ProtocolWriter  = (*Protocols)(nil)
	_ library.ProtocolHistory = (*Protocols)(nil)
	_ library.Searcher        = (*Protocols)(nil)
	_ library.Vectors         = (*Protocols)(nil)
	_ library.Ratings         = (*Protocols)(nil)
	_ runs.Runs               = (*Runs)(nil)
	_ runs.Index              = (*Runs)(nil)
	_ runs.History            = (*Runs)(nil)
	_ archive.RunArchive      = (*Archive)(nil)
	_ archive.Eraser          = (*Runs)(nil)
	_ replicas.Store          = (*Servers)(nil)
)

// Store keeps everything in one database, by its parts. It is safe for concurrent use, also by
// several processes. An error that is a context's error means that nothing was
// written.
type Store struct {
	Protocols *Protocols
	Runs      *Runs
	Archive   *Archive
	People    *tables.People
	Servers   *Servers
	db        *database
}

// Protocols keeps protocols, their search index, vectors and ratings.
type Protocols struct {
	tables.Protocols
	db    *database
	known wordindex.KnownWords
	index *wordindex.Index
}

// Runs keeps runs.
type Runs struct {
	tables.Runs
	db *database
}

// Open returns the store in the database at an address (postgres://…). It connects
// to nothing: connection and schema are made by the first call that needs them, so a
// server that is only probed leaves no trace. A nil log discards all messages.
// Messages never contain the password of the address.
func Open(address string, log *slog.Logger) (*Store, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	db, err := newDatabase(address, log)
	if err != nil {
		return nil, err
	}
	return &Store{
		Protocols: &Protocols{Protocols: tables.NewProtocols(db.base()), db: db, index: wordindex.New()},
		Runs:      newRuns(db), Archive: &Archive{tables.Archive{DB: db.base()}, db}, People: &tables.People{DB: db.base()},
		Servers: &Servers{db}, db: db,
	}, nil
}

func newRuns(db *database) *Runs { return &Runs{tables.Runs{DB: db.base()}, db} }

// Close finishes the calls under way and releases the connections. Later calls fail.
// It may be called twice, and before the first use.
func (s *Store) Close() error { return s.db.close() }

// Check reports whether the database can be used, without creating or changing
// anything, so that a server can refuse to start instead of failing its first call.
func (s *Store) Check() error { return s.db.check() }

// CheckWrite reports why the next call may not be stored. Not more often than every
// ten seconds it reads what was stored last and commits a write that changes nothing;
// after a failure the next call tries again.
func (s *Store) CheckWrite(ctx context.Context) error { return s.db.checkWrite(ctx) }

// Integrity compares the tables and lists what does not agree: heads of runs and
// their saves, steps and their protocols, the search index and the protocols. It
// changes nothing. Damaged pages are for PostgreSQL's own tools.
func (s *Store) Integrity(ctx context.Context) (damages []string, err error) {
	return s.db.integrity(ctx)
}

// QuickCheck reports damaged pages that PostgreSQL has found. It reads no table.
func (s *Store) QuickCheck(ctx context.Context) (damages []string, err error) {
	return quickCheck(ctx, s.db)
}
