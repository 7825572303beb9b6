package sqlite

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/kairos-mcp/kairos/core/store/lazy"
	"github.com/kairos-mcp/kairos/core/store/tables"
)

// database is the connection to one file, which the first call opens.
type database struct {
	file    *lazy.Value[file]
	path    string // absolute, fixed at creation
	log     *slog.Logger
	probe   *tables.Probe
	limits  Limits
	missing tables.Missing

	migrations []string // of the schema
}

// file is the opened database.
type file struct {
	readers *readers
	writer  *writer
}

func newDatabase(path string, limits Limits, missing tables.Missing, log *slog.Logger) *database {
	d := &database{path: path, log: log, probe: new(tables.Probe), limits: limits, missing: missing, migrations: migrations}
	d.file = lazy.New(d.openFile, func(ctx context.Context) { tables.ResumeScrub(ctx, newRuns(d), d.path, d.log) })
	return d
}

// Close finishes the accepted writes and releases the file. Later calls fail. It
// may be called twice, and before the first use.
func (s *Store) Close() error {
	f := s.db.file.Close()
	if f == nil {
		return nil
	}
	// Readers first: the last connection to close writes the log into the database
	// file, which a read-only one cannot do.
	err := errors.Join(f.readers.close(), f.writer.close())
	if err != nil {
		return fmt.Errorf("close database %s: %w", s.db.path, err)
	}
	return nil
}

// use returns the database, and opens it at the first use.
func (d *database) use(ctx context.Context) (*file, error) {
	f, err := d.file.Use(ctx)
	return f, d.explain(err)
}

// Write runs do in a transaction and returns when it is durable.
func (d *database) Write(ctx context.Context, do func(tables.Transaction) error) error {
	f, err := d.use(ctx)
	if err != nil {
		return err
	}
	return d.explain(f.writer.run(ctx, do))
}

func (d *database) base() tables.Base { return tables.Base{Database: d, Dialect: dialect} }
