// Package postgres keeps protocols and runs in a PostgreSQL database that several servers use at once. It contains no rules about runs or
// protocols: it stores them durably and all or nothing.
package postgres

import (
	"log/slog"

	"github.com/kairos-mcp/kairos/core/archive"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/replicas"
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
	Spaces    *tables.Spaces
	Sessions  *tables.Sessions
	Tokens    *tables.Tokens
	Logins    *tables.Logins
	Servers   *Servers
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
	db *database
}

// Open returns the store in the database at an address (postgres://…). It connects
// to nothing: connection and schema are made by the first call that needs them, so a
// server that is only probed leaves no trace. A nil log discards all messages.
// Messages never contain the password of the address.
func Open(address string, log *slog.Logger) (*Store, error) {
	return OpenWith(address, tables.Missing{}, log)
}

// OpenWith is Open with what happens where the database has no tables of KAIROS.
func OpenWith(address string, missing tables.Missing, log *slog.Logger) (*Store, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	db, err := newDatabase(address, missing, log)
	if err != nil {
		return nil, err
	}
	return &Store{
		Protocols: &Protocols{Protocols: tables.NewProtocols(db.base()), db: db},
		Runs:      newRuns(db), Archive: &Archive{tables.Archive{DB: db.base()}, db}, People: &tables.People{DB: db.base()}, Spaces: &tables.Spaces{DB: db.base()}, Sessions: &tables.Sessions{DB: db.base()}, Tokens: &tables.Tokens{DB: db.base()}, Logins: &tables.Logins{DB: db.base()},
		Servers: &Servers{db}, db: db,
	}, nil
}

func newRuns(db *database) *Runs { return &Runs{tables.NewRuns(db.base()), db} }
