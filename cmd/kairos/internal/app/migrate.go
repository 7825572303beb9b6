package app

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/config"
	"github.com/kairos-mcp/kairos/core/store/postgres"
	"github.com/kairos-mcp/kairos/core/store/sqlite"
)

// Moved counts what Migrate has moved.
type Moved struct {
	Protocols int `json:"protocols"`
	Versions  int `json:"versions"` // older ones of protocols, deletions included
	Runs      int `json:"runs"`
}

// Migrate copies everything of a SQLite file into an empty PostgreSQL database.
// progress is called now and then. The file is not changed, except that the schema of an
// older version is updated first.
func Migrate(ctx context.Context, from, to config.Database, progress func(Moved)) (moved Moved, err error) {
	if from.Postgres() {
		return moved, errors.New("database is a PostgreSQL address already: pg_dump and pg_restore move it")
	}
	if !to.Postgres() {
		return moved, errors.New("--to must be the address of an empty PostgreSQL database: postgres://USER@HOST/NAME")
	}
	for _, file := range from.Files() {
		if _, err := os.Stat(file); err != nil {
			return moved, fmt.Errorf("look at the database to move: %w", err)
		}
	}
	source, err := sqlite.Open(from.Address(), nil)
	if err != nil {
		return moved, err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	target, err := postgres.Open(to.Address(), nil)
	if err != nil {
		return moved, err
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	if err := target.Check(); err != nil {
		return moved, err
	}
	loaded, err := target.Load(ctx, source.Rows(ctx), func(l postgres.Loaded) { progress(Moved(l)) })
	return Moved(loaded), err
}
