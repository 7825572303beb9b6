package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/config"
	"github.com/kairos-mcp/kairos/core/store/sqlite"
)

// Backup copies a SQLite database into a new file and returns its size. Servers may
// write meanwhile.
func Backup(ctx context.Context, from config.Database, path string) (size int64, err error) {
	if from.Postgres() {
		return 0, fmt.Errorf("the database is on a PostgreSQL server, whose tools copy it while servers run: pg_dump --format custom --file %s '%s'", path, from)
	}
	s, err := sqlite.Open(from.Address(), nil)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return s.Backup(ctx, path)
}
