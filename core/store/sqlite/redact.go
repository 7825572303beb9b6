package sqlite

import (
	"context"
	"errors"
	"fmt"

	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/core/store/record"
	"github.com/kairos-mcp/kairos/core/store/tables"
)

// EraseRun implements archive.Eraser.
func (s *Runs) EraseRun(ctx context.Context, save runs.Save, erase func(run.Event) run.Event) error {
	row, err := record.EncodeRun(save, packSave)
	if err != nil {
		return err
	}
	return s.db.Write(ctx, func(tx tables.Transaction) (err error) {
		// Overwrite freed space immediately, even where that costs I/O.
		if err := tx.Exec(`PRAGMA secure_delete = ON`); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, tx.Exec(`PRAGMA secure_delete = OFF`)) }()
		if err := updateRun(tx, save.Run, row.Head); err != nil {
			return err
		}
		if err := eraseSaves(s.db, tx, save.Run.ID, erase); err != nil {
			return err
		}
		if err := tx.Exec(`INSERT OR REPLACE INTO unscrubbed (run, erased) VALUES (?, ?)`,
			string(save.Run.ID), save.Run.UpdatedAt.UnixNano()); err != nil {
			return err
		}
		return appendSave(tx, row)
	})
}

// eraseSaves rewrites the events of a run and drops its recorded replies.
func eraseSaves(db *database, tx tables.Transaction, id run.ID, erase func(run.Event) run.Event) error {
	keys, documents, err := db.base().ErasedSaves(tx, id, record.MaxRevision, erase, packSave)
	if err != nil {
		return err
	}
	if err := tx.Exec(`INSERT INTO redacting (run) VALUES (?)`, string(id)); err != nil {
		return err
	}
	for i, key := range keys {
		if err := tx.Exec(`UPDATE saves SET document = ?, replies = NULL WHERE id = ?`, documents[i], key); err != nil {
			return err
		}
	}
	return tx.Exec(`DELETE FROM redacting WHERE run = ?`, string(id))
}

// Scrub implements archive.Eraser. Every earlier version of a run left copies in
// free pages and in the log, so the file is rewritten and the log emptied.
func (s *Runs) Scrub(ctx context.Context) error {
	f, err := s.db.use(ctx)
	if err != nil {
		return err
	}
	return f.writer.alone(ctx, func(tx tables.Transaction) (err error) {
		if err := tx.Exec(`VACUUM`); err != nil {
			return fmt.Errorf("free pages of %s may hold erased values, because it could not be rewritten: %w", s.db.path, err)
		}
		// All writers wait meanwhile, so wait for readers only briefly.
		if err := tx.Exec(`PRAGMA busy_timeout = 1000`); err != nil {
			return err
		}
		defer func() {
			err = errors.Join(err, tx.Exec(fmt.Sprintf(`PRAGMA busy_timeout = %d`, patience.Milliseconds())))
		}()
		var busy, log, moved int
		if _, err := tx.Row(`PRAGMA wal_checkpoint(TRUNCATE)`, nil, &busy, &log, &moved); err != nil {
			return fmt.Errorf("%s-wal may hold erased values, it could not be emptied: %w", s.db.path, err)
		}
		if busy != 0 {
			return fmt.Errorf("another process is reading, so %s-wal could not be emptied: erased values may be in it; `kairos doctor` tries again", s.db.path)
		}
		// No other process can have erased values meanwhile: this one holds the write lock.
		return tx.Exec(`DELETE FROM unscrubbed`)
	})
}
