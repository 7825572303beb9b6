package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/config"
	"github.com/kairos-mcp/kairos/core/archive"
	"github.com/kairos-mcp/kairos/core/declines"
	"github.com/kairos-mcp/kairos/core/director"
	"github.com/kairos-mcp/kairos/core/grants"
	"github.com/kairos-mcp/kairos/core/index"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/replicas"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/core/store/postgres"
	"github.com/kairos-mcp/kairos/core/store/qdrant"
	"github.com/kairos-mcp/kairos/core/store/sqlite"
)

// Database keeps protocols and runs. Its parts are safe for concurrent use.
type Database struct {
	Protocols protocolStore
	Runs      runStore
	Archive   archive.RunArchive
	People    peopleStore
	Files     archive.Files  // nil: the server of the database returns free space by itself
	Servers   replicas.Store // nil: no other servers share the database
	checks
}

type protocolStore interface {
	library.Protocols
	library.ProtocolWriter
	library.ProtocolHistory
	library.Searcher
	library.Vectors
	library.Ratings
	index.Outbox
}

type runStore interface {
	runs.Runs
	runs.Index
	runs.History
	archive.Eraser
}

type peopleStore interface {
	declines.Store
	grants.Store
}

type checks interface {
	// Check reports why the database cannot be used, and CheckWrite also why
	// nothing could be stored.
	Check() error
	CheckWrite(ctx context.Context) error
	// QuickCheck returns the damage that little time finds, and Integrity all of it.
	QuickCheck(ctx context.Context) (damages []string, err error)
	Integrity(ctx context.Context) (damages []string, err error)
	Close() error
}

// openStores opens the database and the index, if there is one.
func openStores(c config.Config, log *slog.Logger) (*Database, *Index, error) {
	database, err := openDatabase(c, log)
	if err != nil || !c.Qdrant.On() {
		return database, nil, err
	}
	o, err := c.Qdrant.Options()
	if err != nil {
		return nil, nil, errors.Join(err, database.Close())
	}
	server, err := qdrant.New(o, log)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("qdrant: %w", err), database.Close())
	}
	return database, &Index{index.New(database.Protocols, server, log), server, database.Protocols}, nil
}

// openDatabase opens the database.
func openDatabase(c config.Config, log *slog.Logger) (*Database, error) {
	if c.Database.Postgres() {
		s, err := postgres.Open(c.Database.Address(), log)
		if err != nil {
			return nil, err
		}
		return &Database{Protocols: s.Protocols, Runs: s.Runs, Archive: s.Archive, People: s.People, Servers: s.Servers, checks: s}, nil
	}
	s, err := sqlite.OpenWith(c.Database.Address(), c.DatabaseLimits.Limits(), log)
	if err != nil {
		return nil, err
	}
	return &Database{Protocols: s.Protocols, Runs: s.Runs, Archive: s.Archive, People: s.People, Files: s.Archive, checks: s}, nil
}

// engineStore puts the engine's store together.
func (a *App) engineStore() director.Store {
	protocols, kept, people := a.Store.Protocols, a.Store.Runs, a.Store.People
	s := director.Store{
		Protocols: protocols, Writer: protocols, Versions: protocols, Searcher: protocols, Vectors: protocols, Ratings: protocols,
		Runs: kept, Index: kept, Archive: a.Store.Archive, History: kept, Eraser: kept, Files: a.Store.Files, Declines: people, Grants: people,
	}
	if a.Index != nil {
		s.Searcher = a.Index.Feeder.Searcher(protocols)
	}
	return s
}

// closeStores closes both.
func (a *App) closeStores() error {
	if a.Index == nil {
		return a.Store.Close()
	}
	return errors.Join(a.Index.server.Close(), a.Store.Close())
}
