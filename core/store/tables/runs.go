package tables

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"

	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/core/store/record"
)

// Runs reads runs.
type Runs struct {
	DB     Base
	unless string // the query of RunUnless, which every call of a run makes
}

// NewRuns returns the runs of a database.
func NewRuns(b Base) Runs {
	return Runs{b, `SELECT CASE WHEN r.revision <> $2 THEN r.document END,
		NOT EXISTS (SELECT 1 FROM acceptances WHERE space = ` + b.RunSpace + `),
		NOT EXISTS (SELECT 1 FROM declines WHERE principal = $3 OR space = $4) FROM runs r WHERE r.id = $1`}
}

// Run implements runs.Runs.
func (s *Runs) Run(ctx context.Context, id run.ID) (run.Run, error) {
	look, err := s.RunUnless(ctx, run.Run{ID: id})
	return look.Run, err
}

// RunUnless implements runs.Runs.
func (s *Runs) RunUnless(ctx context.Context, known run.Run) (look runs.Look, err error) {
	var document []byte
	err = s.DB.Row(ctx, s.unless,
		[]any{string(known.ID), known.Revision, known.Principal, known.Space}, &document, &look.Absent.Acceptances, &look.Absent.Declines)
	if err != nil {
		return runs.Look{}, orNotFound(err, "run", string(known.ID))
	}
	if document == nil {
		return look, nil
	}
	look = runs.Look{Changed: true}
	if err := json.Unmarshal(document, &look.Run); err != nil {
		return runs.Look{}, s.DB.Damaged("run", string(known.ID), err)
	}
	return look, nil
}

// OpenRuns implements runs.Index.
func (s *Runs) OpenRuns(ctx context.Context, q runs.OpenQuery) ([]run.Summary, error) {
	return s.DB.summaries(ctx, s.DB.ByProtocol+` WHERE `+s.DB.Live+` AND principal = $1 AND chain_id = $2 AND `+s.DB.RunSpace+` `+s.DB.In(3)+`
		ORDER BY updated DESC, id DESC LIMIT $4`, q.Principal, q.Chain, s.DB.List(q.Spaces), q.Limit)
}

// OpenOnConnection implements runs.Index.
func (s *Runs) OpenOnConnection(ctx context.Context, q runs.OpenQuery, connection string) ([]run.Summary, error) {
	return s.DB.summaries(ctx, s.DB.ByConnected+` WHERE `+s.DB.Live+` AND connection = $5 AND connection <> '' AND chain_id = $2
		AND principal = $1 AND `+s.DB.RunSpace+` `+s.DB.In(3)+` ORDER BY id DESC LIMIT $4`, q.Principal, q.Chain, s.DB.List(q.Spaces), q.Limit, connection)
}

// LastOpen implements runs.Index.
func (s *Runs) LastOpen(ctx context.Context, q runs.OpenQuery) ([]run.Summary, error) {
	return s.DB.summaries(ctx, `WHERE id IN (SELECT id FROM runs WHERE principal = $1 ORDER BY id DESC LIMIT $3) AND `+s.DB.Live+`
		AND `+s.DB.RunSpace+` `+s.DB.In(2)+` ORDER BY id DESC`, q.Principal, s.DB.List(q.Spaces), q.Limit)
}

// summaries reads the runs r that the rest of the query names.
func (b Base) summaries(ctx context.Context, rest string, args ...any) (summaries []run.Summary, err error) {
	err = b.Rows(ctx, `SELECT id, chain_id, title, state, step_index, step_count, principal, connection,
		created, updated, CASE WHEN state = 'ended' THEN coalesce(`+b.EndedBy+`, '') ELSE '' END FROM runs r `+rest,
		args, func(scan func(...any) error) error {
			var m run.Summary
			var id, state, endedBy string
			var created, updated int64
			err := scan(&id, &m.ChainID, &m.Title, &state, &m.StepIndex, &m.StepCount, &m.Principal, &m.Connection,
				&created, &updated, &endedBy)
			m.ID, m.State, m.EndedBy = run.ID(id), run.State(state), run.Kind(endedBy)
			m.CreatedAt, m.UpdatedAt = record.TimeOf(created), record.TimeOf(updated)
			summaries = append(summaries, m)
			return err
		})
	return summaries, err
}

// Pinned implements runs.Index.
func (s *Runs) Pinned(ctx context.Context, digest string) (c protocol.Chain, err error) {
	var packed []byte
	if err := s.DB.Row(ctx, `SELECT document FROM pins WHERE digest = $1`, []any{digest}, &packed); err != nil {
		return c, orNotFound(err, "pinned chain", digest)
	}
	if err := s.DB.decode(packed, &c); err != nil {
		return protocol.Chain{}, s.DB.Damaged("pinned chain", digest, err)
	}
	return c, nil
}

// decode decodes a packed document.
func (b Base) decode(packed []byte, into any) error {
	document, err := b.Unpack(packed)
	if err != nil {
		return err
	}
	return json.Unmarshal(document, into)
}

// Events implements runs.History.
func (s *Runs) Events(ctx context.Context, id run.ID) ([]run.Event, error) {
	events, err := s.EventsBetween(ctx, id, 0, record.MaxRevision)
	if err != nil || len(events) > 0 {
		return events, err
	}
	_, err = s.Revision(ctx, id)
	return nil, err
}

// Revision of a run as it is stored.
func (s *Runs) Revision(ctx context.Context, id run.ID) (have int64, err error) {
	err = s.DB.Row(ctx, `SELECT revision FROM runs WHERE id = $1`, []any{string(id)}, &have)
	return have, orNotFound(err, "run", string(id))
}

// EventsBetween implements runs.History.
func (s *Runs) EventsBetween(ctx context.Context, id run.ID, after, upTo int64) (events []run.Event, err error) {
	err = s.DB.Rows(ctx, `SELECT s.document `+s.DB.Saves+` ORDER BY `+s.DB.SaveOrder,
		[]any{string(id), after, min(upTo, record.MaxRevision)}, func(scan func(...any) error) error {
			var packed []byte
			if err := scan(&packed); err != nil {
				return err
			}
			var save struct {
				Events []run.Event `json:"events"`
			}
			if err := s.DB.decode(packed, &save); err != nil {
				return s.DB.Damaged("events of run", string(id), err)
			}
			events = append(events, save.Events...)
			return nil
		})
	return events, err
}

// Recorded implements runs.History. Of several replies with the key the last counts.
func (s *Runs) Recorded(ctx context.Context, id run.ID, key string) (runs.Recorded, bool, error) {
	var packed []byte
	err := s.DB.Row(ctx, `SELECT s.document `+s.DB.Saves+` AND `+s.DB.HasReply+` ORDER BY `+s.DB.SaveOrder+` DESC LIMIT 1`,
		[]any{string(id), 0, record.MaxRevision, []byte("\n" + key + "\n")}, &packed)
	if errors.Is(err, sql.ErrNoRows) {
		return runs.Recorded{}, false, nil
	}
	if err != nil {
		return runs.Recorded{}, false, err
	}
	var save record.Save
	if err := s.DB.decode(packed, &save); err != nil {
		return runs.Recorded{}, false, s.DB.Damaged("replies of run", string(id), err)
	}
	kept, found := save.Reply(key)
	return kept, found, nil
}

// ErasedSaves returns the saves of a run up to a revision as they are without what erase
// takes from their events, and without recorded replies, with the keys that order them.
func (b Base) ErasedSaves(tx Transaction, id run.ID, upTo int64, erase func(run.Event) run.Event, form record.Form) (keys []int64, documents [][]byte, err error) {
	err = tx.Rows(`SELECT `+b.SaveOrder+`, s.document `+b.Saves, []any{string(id), 0, upTo}, func(scan func(...any) error) error {
		var key int64
		var document []byte
		if err := scan(&key, &document); err != nil {
			return err
		}
		var save record.Save
		if err := b.decode(document, &save); err != nil {
			return b.Damaged("events of run", string(id), err)
		}
		save.Erase(erase)
		erased, err := save.JSON()
		keys, documents = append(keys, key), append(documents, form(erased))
		return err
	})
	return keys, documents, err
}

// LostRace is the error for a run whose stored revision is not the one to be replaced.
func LostRace(tx Transaction, r run.Run) error {
	var have int64
	found, err := tx.Row(`SELECT revision FROM runs WHERE id = $1`, []any{string(r.ID)}, &have)
	switch {
	case err != nil:
		return err
	case !found:
		return record.NotFound("run", string(r.ID))
	}
	return record.LostRace(r, have)
}

// Unscrubbed implements archive.Eraser.
func (s *Runs) Unscrubbed(ctx context.Context) ([]run.ID, error) {
	return s.DB.ids(ctx, `SELECT run FROM unscrubbed ORDER BY erased, run`)
}

func (b Base) ids(ctx context.Context, query string, args ...any) (ids []run.ID, err error) {
	err = b.Rows(ctx, query, args, func(scan func(...any) error) error {
		var id string
		err := scan(&id)
		ids = append(ids, run.ID(id))
		return err
	})
	return ids, err
}
