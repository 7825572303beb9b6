package postgres

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/core/store/record"
)

// createRun stores pin, head and first save in one statement.
const createRun = `WITH pinned AS (
		INSERT INTO pins (digest, document) VALUES ($7, $16) ON CONFLICT (digest) DO NOTHING),
	head AS (
		INSERT INTO runs (id, revision, principal, space, chain_id, title, connection, pin,
			state, step_index, step_count, created, updated, ended, document)
		VALUES ($1, $2, $3, $4, $5, $6, $8, $7, $9, $10, $11, $12, $13, $14, $15)
		ON CONFLICT (id) DO NOTHING RETURNING id, revision)
	INSERT INTO saves (run, revision, replies, document) SELECT id, revision, $17, $18 FROM head`

// saveRun replaces the head if it still has the revision, and appends the save, in
// one statement.
const saveRun = `WITH head AS (
		UPDATE runs SET revision = revision + 1, connection = $3, title = $4, state = $5,
			step_index = $6, updated = $7, ended = $8, document = $9
		WHERE id = $1 AND revision = $2 RETURNING id, revision)
	INSERT INTO saves (run, revision, replies, document) SELECT id, revision, $10, $11 FROM head`

// moveRun is saveRun of an adopted run: it also stores its pin, and whose it is.
const moveRun = `WITH pinned AS (
		INSERT INTO pins (digest, document) VALUES ($14, $15) ON CONFLICT (digest) DO NOTHING),
	head AS (
		UPDATE runs SET revision = revision + 1, connection = $3, title = $4, state = $5,
			step_index = $6, updated = $7, ended = $8, document = $9, principal = $12, space = $13, pin = $14
		WHERE id = $1 AND revision = $2 RETURNING id, revision)
	INSERT INTO saves (run, revision, replies, document) SELECT id, revision, $10, $11 FROM head`

// CreateRun implements runs.Runs.
func (s *Runs) CreateRun(ctx context.Context, save runs.Save, pin protocol.Chain) error {
	r := save.Run
	chain, err := json.Marshal(pin)
	if err != nil {
		return fmt.Errorf("encode the chain of run %s: %w", r.ID, err)
	}
	row, err := record.EncodeNew(save, record.Plain)
	if err != nil {
		return err
	}
	created, err := s.db.statement(ctx, createRun, []any{
		string(r.ID), row.Run.Revision, r.Principal, pin.Space, r.ChainID, r.Title, r.Pin, r.Connection,
		string(r.State), r.Step.Index, r.StepCount, record.Nanos(r.CreatedAt), record.Nanos(r.UpdatedAt), ended(r),
		[]byte(row.Head), chain, between(row.Keys), row.Save,
	}, stored(row))
	if err == nil && created == 0 {
		return fault.New(fault.Conflict, "run %q exists already", r.ID)
	}
	return err
}

// SaveRun implements runs.Runs.
func (s *Runs) SaveRun(ctx context.Context, save runs.Save) error {
	row, err := record.EncodeRun(save, record.Plain)
	if err != nil {
		return err
	}
	statement, args := saveRun, saveArguments(row)
	if save.Moved != nil {
		chain, err := json.Marshal(save.Moved)
		if err != nil {
			return fmt.Errorf("encode the chain of run %s: %w", save.Run.ID, err)
		}
		statement, args = moveRun, append(args, save.Run.Principal, save.Moved.Space, save.Run.Pin, chain)
	}
	saved, err := s.db.statement(ctx, statement, args, stored(row))
	if err != nil || saved > 0 {
		return err
	}
	have, err := s.Revision(ctx, save.Run.ID)
	if err != nil {
		return err
	}
	return record.LostRace(save.Run, have)
}

// saveArguments are those of saveRun.
func saveArguments(row record.RunRow) []any {
	r := row.Run
	return []any{
		string(r.ID), r.Revision - 1, r.Connection, r.Title, string(r.State), r.Step.Index, record.Nanos(r.UpdatedAt),
		ended(r), []byte(row.Head), between(row.Keys), row.Save,
	}
}

// between puts keys between newlines. It returns nil if there are none.
func between(keys []string) []byte {
	if len(keys) == 0 {
		return nil
	}
	return []byte("\n" + strings.Join(keys, "\n") + "\n")
}

// stored reports whether this very save is the one of its revision.
func stored(row record.RunRow) func(ctx context.Context, conn *pgxpool.Conn) (bool, error) {
	return func(ctx context.Context, conn *pgxpool.Conn) (bool, error) {
		var head, save []byte
		err := conn.QueryRow(ctx, `SELECT CASE WHEN r.revision = s.revision THEN r.document END, s.document
			FROM saves s JOIN runs r ON r.id = s.run WHERE s.run = $1 AND s.revision = $2`,
			string(row.Run.ID), row.Run.Revision).Scan(&head, &save)
		if errors.Is(err, pgx.ErrNoRows) {
			return false, nil
		}
		return bytes.Equal(save, row.Save) && (head == nil || string(head) == row.Head), err
	}
}

func ended(r run.Run) *int64 {
	if r.State.Live() {
		return nil
	}
	at := record.Nanos(r.UpdatedAt)
	return &at
}
