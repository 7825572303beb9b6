package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/core/store/record"
)

// runRow is a save in the form of its tables.
type runRow struct {
	run      run.Run
	revision int64  // after the save
	document []byte // of runs
	replies  []byte // keys between newlines; nil: none
	save     []byte // document of saves
}

func encodeRun(save runs.Save) (row runRow, err error) {
	r := save.Run
	r.Revision++
	document, err := record.JSON(r)
	if err != nil {
		return row, fmt.Errorf("encode run %s: %w", r.ID, err)
	}
	kept := record.SaveOf(save)
	happened, err := kept.JSON()
	if err != nil {
		return row, fmt.Errorf("encode what happened in run %s: %w", r.ID, err)
	}
	return runRow{run: r, revision: r.Revision, document: []byte(document), replies: between(kept.Keys()), save: happened}, nil
}

// between puts keys between newlines. It returns nil if there are none.
func between(keys []string) []byte {
	if len(keys) == 0 {
		return nil
	}
	return []byte("\n" + strings.Join(keys, "\n") + "\n")
}

// Events implements runs.History.
func (s *Runs) Events(ctx context.Context, id run.ID) ([]run.Event, error) {
	events, err := s.eventsOf(ctx, `SELECT document FROM saves WHERE run = $1 ORDER BY revision`, string(id))
	if err != nil || len(events) > 0 {
		return events, err
	}
	_, err = s.revision(ctx, id)
	return nil, err
}

// EventsBetween implements runs.History.
func (s *Runs) EventsBetween(ctx context.Context, id run.ID, after, upTo int64) ([]run.Event, error) {
	return s.eventsOf(ctx, `SELECT document FROM saves WHERE run = $1 AND revision > $2 AND revision <= $3 ORDER BY revision`,
		string(id), after, upTo)
}

func (s *Runs) eventsOf(ctx context.Context, query string, args ...any) (events []run.Event, err error) {
	err = s.db.rows(ctx, query, args, func(scan func(...any) error) error {
		var document []byte
		if err := scan(&document); err != nil {
			return err
		}
		var save record.Save
		if err := json.Unmarshal(document, &save); err != nil {
			return s.db.damaged("events of run", fmt.Sprint(args[0]), err)
		}
		events = append(events, save.Events...)
		return nil
	})
	return events, err
}

// Recorded implements runs.History. Of several replies with the key the last counts.
func (s *Runs) Recorded(ctx context.Context, id run.ID, key string) (runs.Recorded, bool, error) {
	var document []byte
	err := s.db.row(ctx, `SELECT document FROM saves WHERE run = $1 AND position($2::bytea IN replies) > 0
		ORDER BY revision DESC LIMIT 1`, []any{string(id), []byte("\n" + key + "\n")}, &document)
	if errors.Is(err, pgx.ErrNoRows) {
		return runs.Recorded{}, false, nil
	}
	if err != nil {
		return runs.Recorded{}, false, err
	}
	var save record.Save
	if err := json.Unmarshal(document, &save); err != nil {
		return runs.Recorded{}, false, s.db.damaged("replies of run", string(id), err)
	}
	kept, found := save.Reply(key)
	return kept, found, nil
}
