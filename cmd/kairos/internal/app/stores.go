package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/config"
	"github.com/kairos-mcp/kairos/core/archive"
	"github.com/kairos-mcp/kairos/core/clock"
	"github.com/kairos-mcp/kairos/core/declines"
	"github.com/kairos-mcp/kairos/core/director"
	"github.com/kairos-mcp/kairos/core/grants"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/core/store/postgres"
	"github.com/kairos-mcp/kairos/core/store/qdrant"
	"github.com/kairos-mcp/kairos/core/store/sqlite"
)

// protocolStore keeps everything but runs.
type protocolStore interface {
	library.Protocols
	library.ProtocolWriter
	library.ProtocolHistory
	library.Searcher
	library.Vectors
	library.Ratings
}

// Database keeps runs and, where no other store does, protocols.
type Database interface {
	declines.Store
	grants.Store
	protocolStore
	runs.Runs
	runs.Index
	runs.History
	archive.RunArchive
	archive.Eraser
	// Check reports why the database cannot be used, and CheckWrite also why
	// nothing could be stored.
	Check() error
	CheckWrite(ctx context.Context) error
	// Integrity returns what is damaged.
	Integrity(ctx context.Context) (damages []string, err error)
	Close() error
}

// openStores opens the database of the runs, and of the protocols where they
// are not in the same one (nil otherwise).
func openStores(c config.Config, clock *clock.Clock, log *slog.Logger) (Database, *qdrant.Store, error) {
	database, err := openDatabase(c, log)
	if err != nil {
		return nil, nil, err
	}
	if c.KeepsIn() != config.StoreQdrant {
		return database, nil, nil
	}
	o, err := c.Qdrant.Options()
	if err != nil {
		return nil, nil, errors.Join(err, database.Close())
	}
	o.Clock = clock
	protocols, err := qdrant.Open(o, log)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("qdrant: %w", err), database.Close())
	}
	return database, protocols, nil
}

// openDatabase opens the database of the runs.
func openDatabase(c config.Config, log *slog.Logger) (Database, error) {
	if c.Database.Postgres() {
		return postgres.Open(c.Database.Address(), log)
	}
	return sqlite.OpenLimited(c.Database.Address(), c.DatabaseLimits.Limits(), log)
}

// engineStore puts the engine's store together.
func (a *App) engineStore() director.Store {
	var protocols protocolStore = a.Store
	if a.Qdrant != nil {
		protocols = a.Qdrant
	}
	return director.Store{
		Protocols: protocols, Writer: protocols, Versions: protocols, Searcher: protocols, Vectors: protocols, Ratings: protocols,
		Runs: a.Store, Index: a.Store, Archive: a.Store, History: a.Store, Eraser: a.Store, Declines: a.Store, Grants: a.Store,
	}
}

// CheckQdrant looks whether the server of the protocols can be used, if there is one.
func (a *App) CheckQdrant(ctx context.Context) error {
	if a.Qdrant == nil {
		return nil
	}
	return a.Qdrant.Check(ctx)
}

// closeStores closes both.
func (a *App) closeStores() error {
	if a.Qdrant == nil {
		return a.Store.Close()
	}
	return errors.Join(a.Qdrant.Close(), a.Store.Close())
}
