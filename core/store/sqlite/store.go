// Package sqlite keeps protocols and runs in one SQLite file that several processes
// may use at once. It contains no rules about runs or
// protocols: it stores them durably and all or nothing.
package sqlite

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/kairos-mcp/kairos/core/archive"
	"github.com/kairos-mcp/kairos/core/cache"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/core/store/tables"
)

var (
	_ library.Protocols       = (*Protocols)(nil)
	_ library.ProtocolWriter  = (*Protocols)(nil)
	_ library.ProtocolHistory = (*Protocols)(nil)
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
	Spaces    *tables.Spaces
	Sessions  *tables.Sessions
	Tokens    *tables.Tokens
	Logins    *tables.Logins
	db        *database
}

// Protocols keeps protocols, their vectors and ratings.
type Protocols struct {
	tables.Protocols
	db *database
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
func Open(path string, log *slog.Logger) (*Store, error) {
	return OpenWith(path, Limits{}, tables.Missing{}, log)
}

// OpenWith is Open with limits, and with what happens where there is no file.
func OpenWith(path string, limits Limits, missing tables.Missing, log *slog.Logger) (*Store, error) {
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
	db := newDatabase(absolute, limits, missing, log)
	return &Store{
		Protocols: &Protocols{Protocols: tables.NewProtocols(db.base()), db: db},
		Runs:      newRuns(db), Archive: &Archive{tables.Archive{DB: db.base()}, db}, People: &tables.People{DB: db.base()}, Spaces: &tables.Spaces{DB: db.base()}, Sessions: &tables.Sessions{DB: db.base()}, Tokens: &tables.Tokens{DB: db.base()}, Logins: &tables.Logins{DB: db.base()}, db: db,
	}, nil
}

func newRuns(db *database) *Runs {
	return &Runs{tables.NewRuns(db.base()), db, cache.New[string, struct{}](maxPins)}
}
