package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/store/record"
)

// wholeRun is a run as versions up to 8 stored it: every save wrote its past anew.
type wholeRun struct {
	run.Run
	Proofs   []run.Proof    `json:"proofs"`
	Evidence []run.Evidence `json:"evidence"`
	Nonces   []string       `json:"nonces"`
}

// splitRuns moves the runs of version 8 to their heads and saves.
func splitRuns(ctx context.Context, tx *sql.Tx) error {
	if _, err := tx.ExecContext(ctx, `INSERT INTO former_nonces (nonce, run)
		SELECT nonce, run FROM nonces JOIN runs_whole ON id = run WHERE live = 1`); err != nil {
		return err
	}
	for last := ""; ; {
		var document []byte
		err := tx.QueryRowContext(ctx, `SELECT id, document FROM runs_whole WHERE id > ? ORDER BY id LIMIT 1`, last).
			Scan(&last, &document)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		var whole wholeRun
		if err := json.Unmarshal(document, &whole); err != nil {
			return fmt.Errorf("read run %s: %w", last, err)
		}
		if err := splitRun(ctx, tx, last, whole); err != nil {
			return fmt.Errorf("move run %s: %w", last, err)
		}
	}
}

func splitRun(ctx context.Context, tx *sql.Tx, id string, whole wholeRun) error {
	saves, err := savesOf(ctx, tx, id, whole)
	if err != nil {
		return err
	}
	if whole.FirstNonce = whole.Step.Nonce; len(whole.Nonces) > 0 {
		whole.FirstNonce = whole.Nonces[0]
	}
	head, err := encode(whole.Run)
	if err != nil {
		return err
	}
	created, err := tx.ExecContext(ctx, `INSERT INTO runs (id, revision, principal, chain_id, title, connection, pin,
		state, live, step_index, step_count, created, updated, document)
		SELECT id, revision, principal, chain_id, title, connection, pin,
		state, live, step_index, step_count, created, updated, ? FROM runs_whole WHERE id = ?`, head, id)
	if err != nil {
		return err
	}
	number, err := created.LastInsertId()
	if err != nil {
		return err
	}
	for revision, save := range saves {
		document, err := encode(save)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `INSERT INTO saves (id, replies, document) VALUES (?, nullif(?, ''), ?)`,
			number<<revisionBits+revision, lines(save.Keys()), document); err != nil {
			return err
		}
	}
	return nil
}

// savesOf returns what happened in a run, by revision. Replies had no revision:
// they go to the last.
func savesOf(ctx context.Context, tx *sql.Tx, id string, whole wholeRun) (_ map[int64]record.Save, err error) {
	saves := map[int64]record.Save{}
	past := newPastOf(whole)
	err = rowsOf(ctx, tx, `SELECT revision, document FROM events WHERE run = ? ORDER BY revision`, id, func(scan func(...any) error) error {
		var revision int64
		var document []byte
		if err := scan(&revision, &document); err != nil {
			return err
		}
		var save record.Save
		if err := json.Unmarshal(document, &save.Events); err != nil {
			return err
		}
		for i := range save.Events {
			past.complete(&save.Events[i])
		}
		saves[revision] = save
		return nil
	})
	if err != nil {
		return nil, err
	}
	last := saves[whole.Revision]
	err = rowsOf(ctx, tx, `SELECT key, payload, reply FROM recorded WHERE run = ? ORDER BY key`, id, func(scan func(...any) error) error {
		var kept record.Recorded
		var reply []byte
		err := scan(&kept.Key, &kept.Payload, &reply)
		kept.Reply = reply
		last.Recorded = append(last.Recorded, kept)
		return err
	})
	if len(last.Recorded) > 0 {
		saves[whole.Revision] = last
	}
	return saves, err
}

func rowsOf(ctx context.Context, tx *sql.Tx, query, id string, each eachRow) (err error) {
	stmt, err := tx.PrepareContext(ctx, query)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stmt.Close()) }()
	return scanAll(ctx, stmt, []any{id}, each)
}

// pastOf completes events with what the whole run says: evidence that was erased
// since, and nonces.
type pastOf struct {
	proofs   []run.Proof
	evidence []run.Evidence
	nonces   []string // that followed the first
}

func newPastOf(whole wholeRun) *pastOf {
	p := &pastOf{proofs: whole.Proofs, evidence: whole.Evidence}
	if len(whole.Nonces) > 0 {
		p.nonces = slices.Concat(whole.Nonces[1:], []string{whole.Step.Nonce})
	}
	return p
}

func (p *pastOf) complete(e *run.Event) {
	if e.Kind == run.Accepted && len(p.proofs) > 0 && len(p.evidence) > 0 {
		e.Proof, e.Evidence = &p.proofs[0], &p.evidence[0]
		p.proofs, p.evidence = p.proofs[1:], p.evidence[1:]
	}
	if (e.Kind == run.Accepted || e.Kind == run.Reissued) && len(p.nonces) > 0 {
		e.Nonce, p.nonces = p.nonces[0], p.nonces[1:]
	}
}
