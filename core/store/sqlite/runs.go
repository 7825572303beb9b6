package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/core/store/pack"
	"github.com/kairos-mcp/kairos/core/store/record"
)

// CreateRun implements runs.Runs.
func (s *Runs) CreateRun(ctx context.Context, save runs.Save, pin protocol.Chain) error {
	r := save.Run
	if r.ID == "" || r.Pin == "" || r.Revision != 0 {
		return fmt.Errorf("create run %q: a new run has an id, a pin and revision 0, this one has pin %q, revision %d",
			r.ID, r.Pin, r.Revision)
	}
	row, err := encodeRun(save)
	if err != nil {
		return err
	}
	if _, pinned := s.pins.Get(r.Pin); pinned {
		if created, err := s.createPinned(ctx, r, row, pin.Space, nil); created || err != nil {
			return err
		}
	}
	chain, err := json.Marshal(pin)
	if err != nil {
		return fmt.Errorf("encode the chain of run %s: %w", r.ID, err)
	}
	created, err := s.createPinned(ctx, r, row, pin.Space, pack.Pack(pack.Protocol, chain))
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
func (s *Runs) createPinned(ctx context.Context, r run.Run, row runRow, space string, pin []byte) (created bool, err error) {
	err = s.db.write(ctx, func(tx *transaction) error {
		if pin != nil {
			if err := tx.exec(`INSERT INTO pins (digest, space, document) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`, r.Pin, space, pin); err != nil {
				return err
			}
		}
		n, err := tx.changed(`INSERT INTO runs (id, revision, principal, chain_id, title, connection, pin,
			state, live, step_index, step_count, created, updated, document)
			SELECT ?, ?, ?, ?, ?, ?, digest, ?, ?, ?, ?, ?, ?, ? FROM pins WHERE digest = ? ON CONFLICT (id) DO NOTHING`,
			string(r.ID), r.Revision+1, r.Principal, r.ChainID, r.Title, r.Connection,
			string(r.State), r.State.Live(), r.Step.Index, r.StepCount, nanos(r.CreatedAt), nanos(r.UpdatedAt),
			row.document, r.Pin)
		if err != nil || n == 0 {
			return err
		}
		created = true
		return row.append(tx)
	})
	return created, err
}

// SaveRun implements runs.Runs.
func (s *Runs) SaveRun(ctx context.Context, save runs.Save) error {
	row, err := encodeRun(save)
	if err != nil {
		return err
	}
	return s.db.write(ctx, func(tx *transaction) error {
		if err := updateRun(tx, save.Run, row.document); err != nil {
			return err
		}
		return row.append(tx)
	})
}

// updateRun changes the run's row if it still has the revision. Whether the run
// is live and its connection hardly ever change, and not mentioning them saves writing
// their indexes.
func updateRun(tx *transaction, r run.Run, document string) error {
	saved, err := tx.changed(`UPDATE runs SET revision = revision + 1, title = ?, state = ?,
		step_index = ?, updated = ?, document = ? WHERE id = ? AND revision = ? AND live = ? AND connection = ?`,
		r.Title, string(r.State), r.Step.Index, nanos(r.UpdatedAt), document,
		string(r.ID), r.Revision, r.State.Live(), r.Connection)
	if err != nil || saved > 0 {
		return err
	}
	saved, err = tx.changed(`UPDATE runs SET revision = revision + 1, connection = ?, title = ?, state = ?,
		step_index = ?, updated = ?, document = ?, live = ? WHERE id = ? AND revision = ?`,
		r.Connection, r.Title, string(r.State), r.Step.Index, nanos(r.UpdatedAt), document, r.State.Live(),
		string(r.ID), r.Revision)
	if err != nil || saved > 0 {
		return err
	}
	return lostRace(tx, r)
}

func lostRace(tx *transaction, r run.Run) error {
	var have int64
	found, err := tx.row(`SELECT revision FROM runs WHERE id = ?`, []any{string(r.ID)}, &have)
	switch {
	case err != nil:
		return err
	case !found:
		return notFound("run", string(r.ID))
	}
	return fault.New(fault.Conflict, "run %q was changed meanwhile: revision %d was loaded, now it is %d",
		r.ID, r.Revision, have)
}

// Run implements runs.Runs.
func (s *Runs) Run(ctx context.Context, id run.ID) (run.Run, error) {
	look, err := s.RunUnless(ctx, run.Run{ID: id})
	return look.Run, err
}

// RunUnless implements runs.Runs.
func (s *Runs) RunUnless(ctx context.Context, known run.Run) (look runs.Look, err error) {
	var document []byte
	err = s.db.row(ctx, `SELECT CASE WHEN revision <> ?2 THEN document END,
		NOT EXISTS (SELECT 1 FROM grants WHERE space = (SELECT space FROM pins WHERE digest = runs.pin)),
		NOT EXISTS (SELECT 1 FROM declines WHERE principal = ?3 OR space = ?4) FROM runs WHERE id = ?1`,
		[]any{string(known.ID), known.Revision, known.Principal, known.Space}, &document, &look.Absent.Grants, &look.Absent.Declines)
	if err != nil {
		return runs.Look{}, orNotFound(err, "run", string(known.ID))
	}
	if document == nil {
		return look, nil
	}
	look = runs.Look{Changed: true}
	if err := json.Unmarshal(document, &look.Run); err != nil {
		return runs.Look{}, s.db.damaged("run", string(known.ID), err)
	}
	return look, nil
}

// OpenRuns implements runs.Index.
func (s *Runs) OpenRuns(ctx context.Context, q runs.OpenQuery) ([]run.Summary, error) {
	return s.db.summaries(ctx, `INDEXED BY runs_open WHERE live = 1 AND principal = ?1 AND chain_id = ?2
		AND (SELECT space FROM pins WHERE digest = pin) IN (SELECT value FROM json_each(?3))
		ORDER BY updated DESC, id DESC LIMIT ?4`, q.Principal, q.Chain, list(q.Spaces), q.Limit)
}

// OpenOnConnection implements runs.Index.
func (s *Runs) OpenOnConnection(ctx context.Context, q runs.OpenQuery, connection string) ([]run.Summary, error) {
	return s.db.summaries(ctx, `INDEXED BY runs_of_connection WHERE live = 1 AND connection = ?5 AND connection <> ''
		AND chain_id = ?2 AND principal = ?1
		AND (SELECT space FROM pins WHERE digest = pin) IN (SELECT value FROM json_each(?3))
		ORDER BY id DESC LIMIT ?4`, q.Principal, q.Chain, list(q.Spaces), q.Limit, connection)
}

// summaries reads the runs that the rest of the query names.
func (d *database) summaries(ctx context.Context, rest string, args ...any) ([]run.Summary, error) {
	var summaries []run.Summary
	err := d.rows(ctx, `SELECT id, chain_id, title, state, step_index, step_count, principal, connection,
		created, updated, CASE WHEN state = 'ended' AND json_valid(document) THEN coalesce(document ->> '$.ended_by', '') ELSE '' END FROM runs `+rest,
		args, func(scan func(...any) error) error {
			var m run.Summary
			var id, state, endedBy string
			var created, updated int64
			err := scan(&id, &m.ChainID, &m.Title, &state, &m.StepIndex, &m.StepCount, &m.Principal, &m.Connection,
				&created, &updated, &endedBy)
			m.ID, m.State, m.EndedBy = run.ID(id), run.State(state), run.Kind(endedBy)
			m.CreatedAt, m.UpdatedAt = timeOf(created), timeOf(updated)
			summaries = append(summaries, m)
			return err
		})
	return summaries, err
}

// Pinned implements runs.Index.
func (s *Runs) Pinned(ctx context.Context, digest string) (protocol.Chain, error) {
	var packed []byte
	if err := s.db.row(ctx, `SELECT document FROM pins WHERE digest = ?`, []any{digest}, &packed); err != nil {
		return protocol.Chain{}, orNotFound(err, "pinned chain", digest)
	}
	var c protocol.Chain
	if err := unpack(packed, &c); err != nil {
		return protocol.Chain{}, s.db.damaged("pinned chain", digest, err)
	}
	return c, nil
}

func orNotFound(err error, what, id string) error {
	if errors.Is(err, sql.ErrNoRows) {
		return notFound(what, id)
	}
	return err
}

func notFound(what, id string) error { return record.NotFound(what, id) }

func (d *database) damaged(what, id string, err error) error {
	return fault.Wrap(err, fault.StoreFailed, "database %s: %s %s cannot be read", d.path, what, id)
}

func nanos(t time.Time) int64 { return record.Nanos(t) }

func timeOf(nanos int64) time.Time { return record.TimeOf(nanos) }
