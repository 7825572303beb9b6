// Package sqlite keeps protocols, their search index and runs in one SQLite file
// that several processes may use at once. It contains no rules about runs or
// protocols: it stores them durably and all or nothing.
package sqlite

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/kairos-mcp/kairos/core/archive"
	"github.com/kairos-mcp/kairos/core/cache"
	"github.com/kairos-mcp/kairos/core/library"
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
	_ archive.Files           = (*Archive)(nil)
)

// Store keeps everything in one file, by its parts. It is safe for concurrent use, also by
// several processes. An error that is a context's error means that nothing
// was written.
type Store struct {
	Protocols *Protocols
	Runs      *Runs
	Archive   *Archive
	People    *tables.People
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
	db   *database
	pins *cache.Cache[string, struct{}] // digests of pins that are stored; nobody removes them
}

// maxPins is how many bytes of digests of pins are kept: about 4,000.
const maxPins = 1 << 20

// Open returns the store in the file at path. It touches nothing: directory, file
// and schema are made by the first call that needs them, so a server that is only
// probed leaves no trace. A nil log discards all messages.
func Open(path string, log *slog.Logger) (*Store, error) { return OpenWith(path, Limits{}, log) }

// OpenWith is Open with limits.
func OpenWith(path string, limits Limits, log *slog.Logger) (*Store, error) {
	if path == "" {
		return nil, errors.New("the database has no path")
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("find database %s: %w", path, err)
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	db := newDatabase(absolute, limits, log)
	return &Store{
		Protocols: &Protocols{Protocols: tables.NewProtocols(db.base()), db: db, index: wordindex.New()},
		Runs:      newRuns(db), Archive: &Archive{tables.Archive{DB: db.base()}, db}, People: &tables.People{DB: db.base()}, db: db,
	}, nil
}

func newRuns(db *database) *Runs {
	return &Runs{tables.Runs{DB: db.base()}, db, cache.New[string, struct{}](maxPins)}
}

// Close finishes the accepted writes and releases the file. Later calls fail. It
// may be called twice, and before the first use.
func (s *Store) Close() error { return s.db.close() }

// Check reports whether the file can be used, without creating or changing
// anything, so that a server can refuse to start instead of failing its first
// call. Call it before any other use: it opens the file and closes it again,
// which would drop the locks that SQLite holds on it in this process.
func (s *Store) Check() error { return s.db.check() }

// CheckWrite reports why the next call may not be stored: it looks at the free
// space of the disk, checks that the files are still those that were opened, and, not
// more often than Limits.WriteEvery, does what a step needs: it reads what was stored
// last, without anything in memory, commits, and stores a run, which it takes back.
// After a failure the next call tries again.
func (s *Store) CheckWrite(ctx context.Context) error { return s.db.checkWrite(ctx) }

// Integrity reads the whole database and lists what is damaged: pages, indexes
// that do not agree with their tables, rows that break a constraint, references to
// rows that do not exist, and runs whose proof chain is broken or whose history is
// not whole. It changes nothing, also not the schema of an older version, and works
// beside a running server. A file that does not exist has no damage.
func (s *Store) Integrity(ctx context.Context) (damages []string, err error) {
	return s.db.integrity(ctx)
}

// QuickCheck reads every page and lists those that are damaged, without comparing tables
// with their indexes and with each other as Integrity does. It changes nothing and works
// beside a running server.
func (s *Store) QuickCheck(ctx context.Context) (damages []string, err error) {
	return s.db.quickCheck(ctx)
}
