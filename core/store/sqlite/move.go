package sqlite

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"

	"github.com/kairos-mcp/kairos/core/declines"
	"github.com/kairos-mcp/kairos/core/grants"
	"github.com/kairos-mcp/kairos/core/store/pack"
	"github.com/kairos-mcp/kairos/core/store/record"
	"github.com/kairos-mcp/kairos/core/store/tables"
	"github.com/kairos-mcp/kairos/core/store/wordindex"
)

// The queries of a move. The saves of a run are next to each other.
const (
	moveChains   = `SELECT c.id, c.revision, c.outline, t.texts, c.saved FROM chains c JOIN texts t ON t.chain = c.key ORDER BY c.key`
	moveVersions = `SELECT space, id, revision, title, step_count, model, saved, outline, texts FROM versions ORDER BY key`
	moveFormer   = `SELECT space, uuid, id FROM former`
	moveRatings  = `SELECT space, uuid, score, tier, retrieved, succeeded, partly, failed, bonus, rated, rater, context FROM ratings`
	moveVectors  = `SELECT m.model, v.hash, v.vector FROM vectors v JOIN vector_models m ON m.key = v.model`
	movePins     = `SELECT digest, document FROM pins`
	moveRuns     = `SELECT r.id, r.document, p.space, s.id & (1 << 20) - 1, coalesce(s.replies, ''), s.document
		FROM runs r JOIN pins p ON p.digest = r.pin JOIN saves s ON s.id > r.number << 20 AND s.id < (r.number + 1) << 20 ORDER BY s.id`
	moveGrants   = `SELECT id, document FROM grants ORDER BY id`
	moveDeclines = `SELECT action, document FROM declines`
)

// errStopped ends a move whose receiver stops.
var errStopped = errors.New("the receiver stopped")

// Rows returns everything that the store keeps, in one snapshot.
func (s *Store) Rows(ctx context.Context) record.Rows {
	return func(yield func(any, error) bool) {
		err := s.db.view(ctx, []string{
			moveChains, moveVersions, moveFormer, moveRatings, moveVectors, movePins, moveRuns, moveGrants, moveDeclines,
		}, func(v *view) error {
			m := mover{view: v, send: func(row any) error {
				if !yield(row, nil) {
					return errStopped
				}
				return nil
			}}
			for _, part := range []func() error{m.protocols, m.ratings, m.vectors, m.runs, m.people} {
				if err := part(); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil && !errors.Is(err, errStopped) {
			yield(nil, err)
		}
	}
}

// mover sends the rows of a snapshot.
type mover struct {
	*view
	send func(row any) error
}

func (m mover) protocols() error {
	err := m.rows(moveChains, nil, func(scan func(...any) error) error {
		var id string
		var row tables.StoredChain
		var moved record.MovedChain
		err := scan(&id, &row.Revision, &row.Outline, &row.Texts, &moved.Saved)
		if err == nil {
			moved.Chain, err = m.db.base().Read(id, row)
		}
		if err != nil {
			return err
		}
		return m.send(moved)
	})
	if err != nil {
		return err
	}
	err = m.rows(moveVersions, nil, func(scan func(...any) error) error {
		var v record.MovedVersion
		var outline, texts []byte
		if err := scan(&v.Space, &v.ID, &v.Revision, &v.Title, &v.StepCount, &v.Model, &v.Saved, &outline, &texts); err != nil {
			return err
		}
		if outline != nil {
			var outlined, texted error
			v.Outline, outlined = pack.Unpack(outline)
			v.Texts, texted = pack.Unpack(texts)
			if err := errors.Join(outlined, texted); err != nil {
				return m.db.Damaged("version of protocol", v.ID, err)
			}
		}
		return m.send(v)
	})
	if err != nil {
		return err
	}
	return m.rows(moveFormer, nil, func(scan func(...any) error) error {
		var f record.MovedFormer
		if err := scan(&f.Space, &f.UUID, &f.Chain); err != nil {
			return err
		}
		return m.send(f)
	})
}

func (m mover) ratings() error {
	return m.rows(moveRatings, nil, func(scan func(...any) error) error {
		var r record.MovedRating
		var rated int64
		q := &r.Quality
		if err := scan(&r.Space, &r.UUID, &q.Score, &q.Tier, &q.RetrievalCount, &q.SuccessCount, &q.PartialCount, &q.FailureCount,
			&q.QualityBonus, &rated, &q.LastRater, &q.UsageContext); err != nil {
			return err
		}
		q.LastRated = record.TimeOf(rated)
		return m.send(r)
	})
}

func (m mover) vectors() error {
	return m.rows(moveVectors, nil, func(scan func(...any) error) error {
		var v record.MovedVector
		var hash, vector []byte
		if err := scan(&v.Model, &hash, &vector); err != nil {
			return err
		}
		v.Hash, v.Vector = hex.EncodeToString(hash), wordindex.ParseVector(vector)
		return m.send(v)
	})
}

func (m mover) runs() error {
	err := m.rows(movePins, nil, func(scan func(...any) error) error {
		var p record.MovedPin
		var document []byte
		if err := scan(&p.Digest, &document); err != nil {
			return err
		}
		if err := unpack(document, &p.Chain); err != nil {
			return m.db.Damaged("pinned chain", p.Digest, err)
		}
		return m.send(p)
	})
	if err != nil {
		return err
	}
	var last record.MovedRun
	flush := func() error {
		if last.Run.ID == "" {
			return nil
		}
		return m.send(last)
	}
	err = m.rows(moveRuns, nil, func(scan func(...any) error) error {
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
				return m.db.Damaged("run", id, err)
			}
		}
		unpacked, err := pack.Unpack(document)
		if err != nil {
			return m.db.Damaged("events of run", id, err)
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

func (m mover) people() error {
	err := sendDocuments[grants.Grant](m, moveGrants, "grant")
	if err != nil {
		return err
	}
	return sendDocuments[declines.Decline](m, moveDeclines, "decline")
}

func sendDocuments[T any](m mover, query, what string) error {
	return m.rows(query, nil, func(scan func(...any) error) error {
		var id string
		var document []byte
		if err := scan(&id, &document); err != nil {
			return err
		}
		var one T
		if err := json.Unmarshal(document, &one); err != nil {
			return m.db.Damaged(what, id, err)
		}
		return m.send(one)
	})
}
