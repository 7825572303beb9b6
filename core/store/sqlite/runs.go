package sqlite

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/core/store/record"
	"github.com/kairos-mcp/kairos/core/store/tables"
)

// CreateRun implements runs.Runs.
func (s *Runs) CreateRun(ctx context.Context, save runs.Save, pin protocol.Chain) error {
	r := save.Run
	row, err := record.EncodeNew(save, packSave)
	if err != nil {
		return err
	}
	if _, pinned := s.pins.Get(r.Pin); pinned {
		if created, err := s.createPinned(ctx, row, pin.Space, nil); created || err != nil {
			return err
		}
	}
	chain, err := json.Marshal(pin)
	if err != nil {
		return fmt.Errorf("encode the chain of run %s: %w", r.ID, err)
	}
	created, err := s.createPinned(ctx, row, pin.Space, packProtocol(chain))
	if err != nil {
		return err
	}
	if !created {
		return fault.New(fault.Conflict, "run %q exists already", r.ID)
	}
	s.pins.Put(r.Pin, struct{}{}, len(r.Pin))
	return nil
}

// createPinned stores a new run, and its pin unless that is nil. It reports false if the
// run exists already or there is no such pin.
func (s *Runs) createPinned(ctx context.Context, row record.RunRow, space string, pin []byte) (created bool, err error) {
	r := row.Run
	err = s.db.Write(ctx, func(tx tables.Transaction) error {
		if pin != nil {
			if err := tx.Exec(`INSERT INTO pins (digest, space, document) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`, r.Pin, space, pin); err != nil {
				return err
			}
		}
		n, err := tx.Changed(`INSERT INTO runs (id, revision, principal, chain_id, title, connection, pin,
			state, live, step_index, step_count, created, updated, document)
			SELECT ?, ?, ?, ?, ?, ?, digest, ?, ?, ?, ?, ?, ?, ? FROM pins WHERE digest = ? ON CONFLICT (id) DO NOTHING`,
			string(r.ID), r.Revision, r.Principal, r.ChainID, r.Title, r.Connection,
			string(r.State), r.State.Live(), r.Step.Index, r.StepCount, record.Nanos(r.CreatedAt), record.Nanos(r.UpdatedAt),
			row.Head, r.Pin)
		if err != nil || n == 0 {
			return err
		}
		created = true
		return appendSave(tx, row)
	})
	return created, err
}

// SaveRun implements runs.Runs.
func (s *Runs) SaveRun(ctx context.Context, save runs.Save) error {
	row, err := record.EncodeRun(save, packSave)
	if err != nil {
		return err
	}
	return s.db.Write(ctx, func(tx tables.Transaction) error {
		if err := updateRun(tx, save.Run, row.Head); err != nil {
			return err
		}
		if save.Moved != nil {
			if err := moveRun(tx, save); err != nil {
				return err
			}
		}
		return appendSave(tx, row)
	})
}

// moveRun stores whose an adopted run is, and its pin.
func moveRun(tx tables.Transaction, save runs.Save) error {
	r := save.Run
	chain, err := json.Marshal(save.Moved)
	if err != nil {
		return fmt.Errorf("encode the chain of run %s: %w", r.ID, err)
	}
	if err := tx.Exec(`INSERT INTO pins (digest, space, document) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`, r.Pin, save.Moved.Space, packProtocol(chain)); err != nil {
		return err
	}
	return tx.Exec(`UPDATE runs SET principal = ?, pin = ? WHERE id = ?`, r.Principal, r.Pin, string(r.ID))
}

// updateRun changes the run's row if it still has the revision. Whether the run
// is live and its connection hardly ever change, and not mentioning them saves writing
// their indexes.
func updateRun(tx tables.Transaction, r run.Run, document string) error {
	saved, err := tx.Changed(`UPDATE runs SET revision = revision + 1, title = ?, state = ?,
		step_index = ?, updated = ?, document = ? WHERE id = ? AND revision = ? AND live = ? AND connection = ?`,
		r.Title, string(r.State), r.Step.Index, record.Nanos(r.UpdatedAt), document,
		string(r.ID), r.Revision, r.State.Live(), r.Connection)
	if err != nil || saved > 0 {
		return err
	}
	saved, err = tx.Changed(`UPDATE runs SET revision = revision + 1, connection = ?, title = ?, state = ?,
		step_index = ?, updated = ?, document = ?, live = ? WHERE id = ? AND revision = ?`,
		r.Connection, r.Title, string(r.State), r.Step.Index, record.Nanos(r.UpdatedAt), document, r.State.Live(),
		string(r.ID), r.Revision)
	if err != nil || saved > 0 {
		return err
	}
	return tables.LostRace(tx, r)
}

// Damaged implements tables.Database.
func (d *database) Damaged(what, id string, err error) error {
	return fault.Wrap(err, fault.StoreFailed, "database %s: %s %s cannot be read", d.path, what, id)
}
