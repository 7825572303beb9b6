package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/core/store/pack"
	"github.com/kairos-mcp/kairos/core/store/record"
)

// revisionBits of the id of a save are the run's revision, the others its number.
const revisionBits = 20

// maxRevision is the last revision of a run that can be stored.
const maxRevision = 1<<revisionBits - 1

// runRow is a save in the form of its tables.
type runRow struct {
	id       run.ID
	revision int64  // after the save
	document string // of runs
	replies  string // keys, each followed by a newline
	save     []byte // document of saves
}

func encodeRun(save runs.Save) (row runRow, err error) {
	r := save.Run
	r.Revision++
	if r.Revision > maxRevision {
		return row, fmt.Errorf("save run %s: it was saved %d times, which is the most that a run can be", r.ID, maxRevision)
	}
	row = runRow{id: r.ID, revision: r.Revision}
	if row.document, err = encode(r); err != nil {
		return row, fmt.Errorf("encode run %s: %w", r.ID, err)
	}
	row.save, row.replies, err = packSave(record.SaveOf(save))
	if err != nil {
		return row, fmt.Errorf("encode what happened in run %s: %w", r.ID, err)
	}
	return row, nil
}

func packSave(s record.Save) (packed []byte, replies string, err error) {
	document, err := s.JSON()
	return pack.Pack(pack.Save, document), lines(s.Keys()), err
}

// lines are the keys of recorded replies, each followed by a newline.
func lines(keys []string) string {
	var all strings.Builder
	for _, key := range keys {
		all.WriteString(key + "\n")
	}
	return all.String()
}

// append stores what happened, after the head of the run.
func (row runRow) append(tx *transaction) error {
	return tx.exec(`INSERT INTO saves (id, replies, document)
		SELECT (number << 20) + ?2, nullif(?3, ''), ?4 FROM runs WHERE id = ?1`,
		string(row.id), row.revision, row.replies, row.save)
}

// Events implements runs.History.
func (s *Runs) Events(ctx context.Context, id run.ID) ([]run.Event, error) {
	events, err := s.EventsBetween(ctx, id, 0, maxRevision)
	if err != nil || len(events) > 0 {
		return events, err
	}
	var one int
	err = s.db.row(ctx, `SELECT 1 FROM runs WHERE id = ?`, []any{string(id)}, &one)
	return nil, orNotFound(err, "run", string(id))
}

// EventsBetween implements runs.History.
func (s *Runs) EventsBetween(ctx context.Context, id run.ID, after, upTo int64) (events []run.Event, err error) {
	err = s.db.rows(ctx, `SELECT s.document FROM runs r JOIN saves s
		ON s.id > (r.number << 20) + ?2 AND s.id <= (r.number << 20) + ?3 WHERE r.id = ?1 ORDER BY s.id`,
		[]any{string(id), after, min(upTo, maxRevision)}, func(scan func(...any) error) error {
			var packed []byte
			if err := scan(&packed); err != nil {
				return err
			}
			var save struct {
				Events []run.Event `json:"events"`
			}
			if err := unpack(packed, &save); err != nil {
				return s.db.damaged("events of run", string(id), err)
			}
			events = append(events, save.Events...)
			return nil
		})
	return events, err
}

// Recorded implements runs.History. Of several replies with the key the last counts.
func (s *Runs) Recorded(ctx context.Context, id run.ID, key string) (runs.Recorded, bool, error) {
	var packed []byte
	err := s.db.row(ctx, `SELECT s.document FROM runs r JOIN saves s
		ON s.id > r.number << 20 AND s.id <= (r.number << 20) + ?3
		WHERE r.id = ?1 AND instr(char(10) || s.replies, char(10) || ?2 || char(10)) > 0 ORDER BY s.id DESC LIMIT 1`,
		[]any{string(id), key, maxRevision}, &packed)
	if errors.Is(err, sql.ErrNoRows) {
		return runs.Recorded{}, false, nil
	}
	if err != nil {
		return runs.Recorded{}, false, err
	}
	var save record.Save
	if err := unpack(packed, &save); err != nil {
		return runs.Recorded{}, false, s.db.damaged("replies of run", string(id), err)
	}
	kept, found := save.Reply(key)
	return kept, found, nil
}
