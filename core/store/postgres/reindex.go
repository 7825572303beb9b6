package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/kairos-mcp/kairos/core/search"
	"github.com/kairos-mcp/kairos/core/store/tables"
	"github.com/kairos-mcp/kairos/core/store/wordindex"
)

// reindex makes the search index again if a program of another version made it. Servers
// that start together wait for the lock of protocols and do it once.
func (d *database) reindex(ctx context.Context, pool *pgxpool.Pool) error {
	var version int
	if err := pool.QueryRow(ctx, searchQueries.Version).Scan(&version); err != nil || version == search.Version {
		return err
	}
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	err = transact(ctx, conn.Conn(), func(tx tables.Transaction) error {
		if err := lockProtocols(tx); err != nil {
			return err
		}
		began := time.Now()
		rebuilt, err := wordindex.Rebuild(newIndexWriter(tx))
		if rebuilt {
			d.log.InfoContext(ctx, "search index built", "database", d.name, "version", search.Version, "took", time.Since(began))
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("make the search index: %w", err)
	}
	return nil
}
