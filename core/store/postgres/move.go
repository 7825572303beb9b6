package postgres

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/kairos-mcp/kairos/core/acceptances"
	"github.com/kairos-mcp/kairos/core/declines"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/store/record"
	"github.com/kairos-mcp/kairos/core/store/tables"
)

// loadedAtOnce is how many rows are loaded in one transaction.
const loadedAtOnce = 500

// Loaded counts what Load has stored.
type Loaded struct {
	Protocols, Versions, Runs int
}

// Load stores everything of another store in an empty database. Batches are
// transactions: if it fails, drop the database and repeat. progress is called after
// each batch.
func (s *Store) Load(ctx context.Context, rows record.Rows, progress func(Loaded)) (Loaded, error) {
	if err := s.db.wantEmpty(ctx); err != nil {
		return Loaded{}, err
	}
	l := loader{store: s}
	var batch []any
	for row, err := range rows {
		if err != nil {
			return l.done, err
		}
		if batch = append(batch, row); len(batch) < loadedAtOnce {
			continue
		}
		if err := l.load(ctx, batch); err != nil {
			return l.done, err
		}
		progress(l.done)
		batch = batch[:0]
	}
	if err := l.load(ctx, batch); err != nil {
		return l.done, err
	}
	return l.done, s.db.Write(ctx, func(tx tables.Transaction) error { return mark(tx, true, allChains) })
}

// wantEmpty rejects a database that has protocols or runs.
func (d *database) wantEmpty(ctx context.Context) error {
	var chains, runs bool
	err := d.base().Row(ctx, `SELECT EXISTS (SELECT 1 FROM chains), EXISTS (SELECT 1 FROM runs)`, nil, &chains, &runs)
	if err == nil && (chains || runs) {
		err = fault.New(fault.InvalidArgument, "database %s has protocols or runs already", d.name).
			WithHint("create an empty database, and start no server on it before")
	}
	return err
}

// loader loads rows in batches.
type loader struct {
	store *Store
	done  Loaded
}

func (l *loader) load(ctx context.Context, batch []any) error {
	if err := l.chains(ctx, batch); err != nil {
		return err
	}
	if err := l.vectors(ctx, batch); err != nil {
		return err
	}
	done := l.done
	err := l.store.db.Write(ctx, func(tx tables.Transaction) error {
		done = l.done // it may be repeated
		for _, row := range batch {
			if err := l.row(tx, row, &done); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		l.done = done
	}
	return err
}

// chains stores chains with the revisions that they had.
func (l *loader) chains(ctx context.Context, batch []any) error {
	var moved []record.MovedChain
	var changes []library.Change
	for _, row := range batch {
		if c, ok := row.(record.MovedChain); ok {
			moved, changes = append(moved, c), append(changes, library.Change{Chain: c.Chain})
		}
	}
	if len(moved) == 0 {
		return nil
	}
	rows, err := record.Encode(changes, record.Plain)
	if err != nil {
		return err
	}
	for i := range rows {
		rows[i].Revision, rows[i].Saved = moved[i].Chain.Revision, moved[i].Saved
	}
	err = l.store.db.Write(ctx, func(tx tables.Transaction) error {
		if err := lockProtocols(tx); err != nil {
			return err
		}
		return insertChains(tx, rows)
	})
	if err == nil {
		l.done.Protocols += len(rows)
	}
	return err
}

func (l *loader) vectors(ctx context.Context, batch []any) error {
	byModel := map[string]map[string][]float32{}
	for _, row := range batch {
		if v, ok := row.(record.MovedVector); ok {
			if byModel[v.Model] == nil {
				byModel[v.Model] = map[string][]float32{}
			}
			byModel[v.Model][v.Hash] = v.Vector
		}
	}
	for model, vectors := range byModel {
		if err := l.store.Protocols.SaveVectors(ctx, model, vectors); err != nil {
			return err
		}
	}
	return nil
}

// row stores any row but chains and vectors.
func (l *loader) row(tx tables.Transaction, row any, done *Loaded) error {
	switch r := row.(type) {
	case record.MovedChain, record.MovedVector:
		return nil
	case record.MovedVersion:
		done.Versions++
		return tx.Exec(`INSERT INTO versions (space, id, revision, title, step_count, model, saved, outline, texts) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
			r.Space, r.ID, r.Revision, r.Title, r.StepCount, r.Model, r.Saved, []byte(r.Outline), []byte(r.Texts))
	case record.MovedFormer:
		return tx.Exec(`INSERT INTO former (space, uuid, id) VALUES ($1, $2, $3)`, r.Space, r.UUID, r.Chain)
	case record.MovedRating:
		q := r.Quality
		return tx.Exec(`INSERT INTO ratings (space, uuid, score, tier, retrieved, succeeded, partly, failed, bonus, rated, rater, context)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`, r.Space, r.UUID, q.Score, q.Tier, q.RetrievalCount, q.SuccessCount,
			q.PartialCount, q.FailureCount, q.QualityBonus, record.Nanos(q.LastRated), q.LastRater, q.UsageContext)
	case record.MovedPin:
		document, err := json.Marshal(r.Chain)
		if err != nil {
			return err
		}
		return tx.Exec(`INSERT INTO pins (digest, document) VALUES ($1, $2)`, r.Digest, document)
	case record.MovedRun:
		done.Runs++
		return loadRun(tx, r)
	case acceptances.Acceptance:
		return l.store.People.InsertAcceptance(tx, r)
	case declines.Decline:
		return l.store.People.InsertDecline(tx, r)
	case tables.EndedSession:
		return l.store.Sessions.Insert(tx, r)
	case tables.StoredToken:
		return l.store.Tokens.Insert(tx, r)
	case tables.StoredLogin:
		return l.store.Logins.Insert(tx, r)
	case tables.MadeSpace:
		_, err := l.store.Spaces.Insert(tx, r)
		return err
	}
	return fmt.Errorf("a row of type %T cannot be moved", row)
}

func loadRun(tx tables.Transaction, moved record.MovedRun) error {
	r := moved.Run
	head, err := record.JSON(r)
	if err != nil {
		return err
	}
	if err := tx.Exec(`INSERT INTO runs (id, revision, principal, space, chain_id, title, connection, pin,
			state, step_index, step_count, created, updated, ended, document)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)`,
		string(r.ID), r.Revision, r.Principal, moved.Space, r.ChainID, r.Title, r.Connection, r.Pin,
		string(r.State), r.Step.Index, r.StepCount, record.Nanos(r.CreatedAt), record.Nanos(r.UpdatedAt), ended(r), []byte(head)); err != nil {
		return err
	}
	var revisions []int64
	var replies, documents [][]byte
	for _, save := range moved.Saves {
		revisions, replies, documents = append(revisions, save.Revision), append(replies, between(save.Keys)), append(documents, save.Document)
	}
	return tx.Exec(`INSERT INTO saves (run, revision, replies, document)
		SELECT $1, * FROM unnest($2::bigint[], $3::bytea[], $4::bytea[])`, string(r.ID), revisions, replies, documents)
}
