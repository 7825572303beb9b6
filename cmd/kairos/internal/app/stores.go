package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/config"
	"github.com/kairos-mcp/kairos/core/clock"
	"github.com/kairos-mcp/kairos/core/director"
	"github.com/kairos-mcp/kairos/core/library"
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

// openStores opens the database of the runs, and of the protocols where they
// are not in the same one (nil otherwise).
func openStores(c config.Config, clock *clock.Clock, log *slog.Logger) (*sqlite.Store, *qdrant.Store, error) {
	runs, err := sqlite.OpenLimited(c.Database, c.DatabaseLimits.Limits(), log)
	if err != nil || c.KeepsIn() != config.StoreQdrant {
		return runs, nil, err
	}
	o, err := c.Qdrant.Options()
	if err != nil {
		return nil, nil, errors.Join(err, runs.Close())
	}
	o.Clock = clock
	protocols, err := qdrant.Open(o, log)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("qdrant: %w", err), runs.Close())
	}
	return runs, protocols, nil
}

// engineStore puts the engine's store together.
func (a *App) engineStore() director.Store {
	var protocols protocolStore = a.Store
	if a.Qdrant != nil {
		protocols = a.Qdrant
	}
	return director.Store{
		Protocols: protocols, Writer: protocols, Versions: protocols, Searcher: protocols, Vectors: protocols, Ratings: protocols,
		Runs: a.Store, Index: a.Store, Archive: a.Store, History: a.Store, Eraser: a.Store,
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
