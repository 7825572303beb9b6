package sqlite

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"

	"github.com/kairos-mcp/kairos/core/acceptances"
	"github.com/kairos-mcp/kairos/core/declines"
	"github.com/kairos-mcp/kairos/core/store/pack"
	"github.com/kairos-mcp/kairos/core/store/record"
	"github.com/kairos-mcp/kairos/core/store/tables"
)

// moveRuns reads runs with their saves, which are next to each other.
const moveRuns = `SELECT r.id, r.document, p.space, s.id & (1 << 20) - 1, coalesce(s.replies, ''), s.document
	FROM runs r JOIN pins p ON p.digest = r.pin JOIN saves s ON s.id > r.number << 20 AND s.id < (r.number + 1) << 20 ORDER BY s.id`

// errStopped ends a move whose receiver stops.
var errStopped = errors.New("the receiver stopped")

// Rows returns everything that the store keeps, in one snapshot.
func (s *Store) Rows(ctx context.Context) record.Rows {
	return func(yield func(any, error) bool) {
		queries := []string{moveRuns}
		for _, p := range parts {
			queries = append(queries, p.query)
		}
		err := s.db.view(ctx, queries, func(v *view) error {
			send := func(row any) error {
				if !yield(row, nil) {
					return errStopped
				}
				return nil
			}
			for _, p := range parts {
				if err := v.rows(p.query, nil, func(scan func(...any) error) error {
					row, err := p.read(s.db, scan)
					if err != nil {
						return err
					}
					return send(row)
				}); err != nil {
					return err
				}
			}
			return sendRuns(v, send)
		})
		if err != nil && !errors.Is(err, errStopped) {
			yield(nil, err)
		}
	}
}

// A part is a query whose rows are moved one by one.
type part struct {
	query string
	read  func(db *database, scan func(...any) error) (any, error)
}

// parts are all but the runs, which come after their pins.
var parts = []part{
	{`SELECT c.id, c.revision, c.outline, t.texts, c.saved FROM chains c JOIN texts t ON t.chain = c.key ORDER BY c.key`, movedChain},
	{`SELECT space, id, revision, title, step_count, model, saved, outline, texts FROM versions ORDER BY key`, movedVersion},
	{`SELECT space, uuid, id FROM former`, func(_ *database, scan func(...any) error) (any, error) {
		var f record.MovedFormer
		err := scan(&f.Space, &f.UUID, &f.Chain)
		return f, err
	}},
	{`SELECT space, uuid, score, tier, retrieved, succeeded, partly, failed, bonus, rated, rater, context FROM ratings`, movedRating},
	{`SELECT m.model, v.hash, v.vector FROM vectors v JOIN vector_models m ON m.key = v.model`, func(_ *database, scan func(...any) error) (any, error) {
		var v record.MovedVector
		var hash, vector []byte
		err := scan(&v.Model, &hash, &vector)
		v.Hash, v.Vector = hex.EncodeToString(hash), record.ParseVector(vector)
		return v, err
	}},
	{`SELECT digest, document FROM pins`, func(db *database, scan func(...any) error) (any, error) {
		var p record.MovedPin
		var document []byte
		if err := scan(&p.Digest, &document); err != nil {
			return nil, err
		}
		if err := unpack(document, &p.Chain); err != nil {
			return nil, db.Damaged("pinned chain", p.Digest, err)
		}
		return p, nil
	}},
	{`SELECT id, document FROM acceptances ORDER BY id`, movedDocument[acceptances.Acceptance]("acceptance")},
	{`SELECT action, document FROM declines`, movedDocument[declines.Decline]("decline")},
	{`SELECT key, expires FROM ended_sessions`, func(_ *database, scan func(...any) error) (any, error) {
		var e tables.EndedSession
		err := scan(&e.Key, &e.Expires)
		return e, err
	}},
	{`SELECT ` + tables.TokenColumns + ` FROM tokens`, func(_ *database, scan func(...any) error) (any, error) {
		var t tables.StoredToken
		err := scan(t.Columns()...)
		return t, err
	}},
	{`SELECT ` + tables.LoginColumns + ` FROM logins`, func(_ *database, scan func(...any) error) (any, error) {
		var l tables.StoredLogin
		err := scan(l.Columns()...)
		return l, err
	}},
	{`SELECT id, created FROM spaces`, func(_ *database, scan func(...any) error) (any, error) {
		var m tables.MadeSpace
		err := scan(&m.ID, &m.Created)
		return m, err
	}},
}

func movedChain(db *database, scan func(...any) error) (any, error) {
	var id string
	var row tables.StoredChain
	var moved record.MovedChain
	err := scan(&id, &row.Revision, &row.Outline, &row.Texts, &moved.Saved)
	if err == nil {
		moved.Chain, err = db.base().Read(id, row)
	}
	return moved, err
}

func movedVersion(db *database, scan func(...any) error) (any, error) {
	var v record.MovedVersion
	var outline, texts []byte
	err := scan(&v.Space, &v.ID, &v.Revision, &v.Title, &v.StepCount, &v.Model, &v.Saved, &outline, &texts)
	if err != nil || outline == nil {
		return v, err
	}
	var outlined, texted error
	v.Outline, outlined = pack.Unpack(outline)
	v.Texts, texted = pack.Unpack(texts)
	if err := errors.Join(outlined, texted); err != nil {
		return nil, db.Damaged("version of protocol", v.ID, err)
	}
	return v, nil
}

func movedRating(_ *database, scan func(...any) error) (any, error) {
	var r record.MovedRating
	var rated int64
	q := &r.Quality
	err := scan(&r.Space, &r.UUID, &q.Score, &q.Tier, &q.RetrievalCount, &q.SuccessCount, &q.PartialCount, &q.FailureCount,
		&q.QualityBonus, &rated, &q.LastRater, &q.UsageContext)
	q.LastRated = record.TimeOf(rated)
	return r, err
}

// movedDocument reads rows of an id and a document.
func movedDocument[T any](what string) func(*database, func(...any) error) (any, error) {
	return func(db *database, scan func(...any) error) (any, error) {
		var id string
		var document []byte
		if err := scan(&id, &document); err != nil {
			return nil, err
		}
		var one T
		if err := json.Unmarshal(document, &one); err != nil {
			return nil, db.Damaged(what, id, err)
		}
		return one, nil
	}
}

// sendRuns sends each run with its saves.
func sendRuns(v *view, send func(any) error) error {
	var last record.MovedRun
	flush := func() error {
		if last.Run.ID == "" {
			return nil
		}
		return send(last)
	}
	err := v.rows(moveRuns, nil, func(scan func(...any) error) error {
		var id, space, replies string
		var head, document []byte
		var save record.MovedSave
		if err := scan(&id, &head, &space, &save.Revision, &replies, &document); err != nil {
			return err
		}
		if id != string(last.Run.ID) {
			if err := flush(); err != nil {
				return err
			}
			last = record.MovedRun{Space: space}
			if err := json.Unmarshal(head, &last.Run); err != nil {
				return v.db.Damaged("run", id, err)
			}
		}
		unpacked, err := pack.Unpack(document)
		if err != nil {
			return v.db.Damaged("events of run", id, err)
		}
		save.Document, save.Keys = unpacked, strings.Fields(replies)
		last.Saves = append(last.Saves, save)
		return nil
	})
	if err == nil {
		err = flush()
	}
	return err
}
