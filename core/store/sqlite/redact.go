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
	row, err := encodeRun(save)
	if err != nil {
		return err
	}
	return s.db.Write(ctx, func(tx tables.Transaction) (err error) {
		// Overwrite freed space immediately, even where that costs I/O.
		if err := tx.Exec(`PRAGMA secure_delete = ON`); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, tx.Exec(`PRAGMA secure_delete = OFF`)) }()
		if err := updateRun(tx, save.Run, row.document); err != nil {
			return err
		}
		if err := eraseSaves(s.db, tx, save.Run.ID, erase); err != nil {
			return err
		}
		if err := tx.Exec(`INSERT OR REPLACE INTO unscrubbed (run, erased) VALUES (?, ?)`,
			string(save.Run.ID), save.Run.UpdatedAt.UnixNano()); err != nil {
			return err
		}
		return row.append(tx)
	})
}

// eraseSaves rewrites the events of a run and drops its recorded replies.
func eraseSaves(db *database, tx tables.Transaction, id run.ID, erase func(run.Event) run.Event) error {
	documents := map[int64][]byte{} // by id of the save
	err := tx.Rows(`SELECT s.id, s.document FROM runs r JOIN saves s
		ON s.id > r.number << 20 AND s.id <= (r.number << 20) + ?2 WHERE r.id = ?1`,
		[]any{string(id), record.MaxRevision}, func(scan func(...any) error) error {
			var key int64
			var packed []byte
			if err := scan(&key, &packed); err != nil {
				return err
			}
			var save record.Save
			if err := unpack(packed, &save); err != nil {
				return db.Damaged("events of run", string(id), err)
			}
			save.Erase(erase)
			var err error
			documents[key], _, err = packSave(save)
			return err
		})
	if err != nil {
		return err
	}
	if err := tx.Exec(`INSERT INTO redacting (run) VALUES (?)`, string(id)); err != nil {
		return err
	}
	for key, document := range documents {
		if err := tx.Exec(`UPDATE saves SET document = ?, replies = NULL WHERE id = ?`, document, key); err != nil {
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
