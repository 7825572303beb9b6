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
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/core/store/postgres"
	"github.com/kairos-mcp/kairos/core/store/qdrant"
	"github.com/kairos-mcp/kairos/core/store/sqlite"
)

// Database keeps protocols and runs.
type Database interface {
	library.Protocols
	library.ProtocolWriter
	library.ProtocolHistory
	library.Searcher
	library.Vectors
	library.Ratings
	index.Outbox
	declines.Store
	grants.Store
	runs.Runs
	runs.Index
	runs.History
	archive.RunArchive
	archive.Eraser
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
func openStores(c config.Config, log *slog.Logger) (Database, *Index, error) {
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
	return database, &Index{index.New(database, server, log), server, database}, nil
}

// openDatabase opens the database.
func openDatabase(c config.Config, log *slog.Logger) (Database, error) {
	if c.Database.Postgres() {
		return postgres.Open(c.Database.Address(), log)
	}
	return sqlite.OpenWith(c.Database.Address(), c.DatabaseLimits.Limits(), log)
}

// engineStore puts the engine's store together.
func (a *App) engineStore() director.Store {
	files, _ := a.Store.(archive.Files) // a server returns free space by itself
	s := director.Store{
		Protocols: a.Store, Writer: a.Store, Versions: a.Store, Searcher: a.Store, Vectors: a.Store, Ratings: a.Store,
		Runs: a.Store, Index: a.Store, Archive: a.Store, History: a.Store, Eraser: a.Store, Files: files, Declines: a.Store, Grants: a.Store,
	}
	if a.Index != nil {
		s.Searcher = a.Index.Searcher(a.Store)
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
