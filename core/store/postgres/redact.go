package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/core/store/record"
	"github.com/kairos-mcp/kairos/core/store/tables"
)

// EraseRun implements archive.Eraser.
func (s *Runs) EraseRun(ctx context.Context, save runs.Save, erase func(run.Event) run.Event) error {
	row, err := record.EncodeRun(save, record.Plain)
	if err != nil {
		return err
	}
	id := string(save.Run.ID)
	return s.db.Write(ctx, func(tx tables.Transaction) error {
		// This locks the run.
		saved, err := tx.Changed(saveRun, saveArguments(row)...)
		if err != nil {
			return err
		}
		if saved == 0 {
			return tables.LostRace(tx, save.Run)
		}
		if err := eraseSaves(s.db, tx, save.Run.ID, save.Run.Revision, erase); err != nil {
			return err
		}
		return tx.Exec(`INSERT INTO unscrubbed (run, erased) VALUES ($1, $2) ON CONFLICT (run) DO UPDATE SET erased = excluded.erased`,
			id, record.Nanos(save.Run.UpdatedAt))
	})
}

// eraseSaves rewrites the events of a run up to a revision and drops its recorded replies.
func eraseSaves(db *database, tx tables.Transaction, id run.ID, upTo int64, erase func(run.Event) run.Event) error {
	revisions, documents, err := db.base().ErasedSaves(tx, id, upTo, erase, record.Plain)
	if err != nil {
		return err
	}
	return tx.Exec(`UPDATE saves s SET document = e.document, replies = NULL
		FROM unnest($2::bigint[], $3::bytea[]) AS e (revision, document) WHERE s.run = $1 AND s.revision = e.revision`,
		string(id), revisions, documents)
}

// Scrub implements archive.Eraser. Every earlier version of a run is a row version
// that VACUUM removes; nothing else can read it. The server's write-ahead log, its
// backups and standbys are not touched.
func (s *Runs) Scrub(ctx context.Context) error {
	// Only what was erased before the VACUUM begins: another server may erase meanwhile.
	ids, err := s.Unscrubbed(ctx)
	if err != nil || len(ids) == 0 {
		return err
	}
	err = s.db.persevere(ctx, func(pool *pgxpool.Pool, _ bool) error {
		_, err := pool.Exec(ctx, `VACUUM runs, saves`)
		return err
	})
	if err != nil {
		return fmt.Errorf("old versions of rows in %s may hold erased values, because VACUUM failed: %w", s.db.name, err)
	}
	names := make([]string, len(ids))
	for i, id := range ids {
		names[i] = string(id)
	}
	return s.db.Write(ctx, func(tx tables.Transaction) error {
		return tx.Exec(`DELETE FROM unscrubbed WHERE run = ANY($1)`, names)
	})
}
