package qdrant

import (
	"context"
	"encoding/json"
	"fmt"

	pb "github.com/qdrant/go-client/qdrant"

	"github.com/kairos-mcp/kairos/core/protocol"
)

// rebuildPage is how many chains are read at once.
const rebuildPage = 64

// rebuild makes a new search index from the manifests and puts it in the place
// of the old one (nil: there is none). Searches go on with the old one until
// then. It may be cut short and repeated, and done by two processes at once.
func (s *Store) rebuild(ctx context.Context, old, next *indexState) error {
	start := s.options.Clock.Moment()
	if err := s.createIndex(ctx, next); err != nil {
		return err
	}
	if err := s.copyChains(ctx, next, old, 0); err != nil {
		return err
	}
	if err := s.pointAlias(ctx, s.names().index(), next.collection); err != nil {
		return err
	}
	s.useIndex(next)
	// What was stored while this went on. A save that is under way now sees
	// the new index when it has committed, and writes to it itself.
	if err := s.copyChains(ctx, next, nil, s.options.Clock.Earliest(start).Add(-clockMargin).UnixMilli()); err != nil {
		return err
	}
	if old == nil || old.collection == next.collection {
		return nil
	}
	s.log.InfoContext(ctx, "search index made anew", "qdrant", s.at.String(), "collection", next.collection, "model", next.model)
	_, err := call(ctx, s, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, s.client.DeleteCollection(ctx, old.collection)
	})
	if err != nil {
		return fmt.Errorf("remove the replaced search index %s: %w", old.collection, err)
	}
	return nil
}

// copyChains writes the chains that were stored since then (Unix
// milliseconds) to an index; vectors come from the old one, if it has those of
// the same model.
func (s *Store) copyChains(ctx context.Context, to, old *indexState, since int64) error {
	f := all(is(fieldKind, kindManifest))
	if since > 0 {
		f.Must = append(f.Must, pb.NewRange(fieldWritten, &pb.Range{Gte: pb.PtrOf(float64(since))}))
	}
	fields := []string{fieldToken, fieldDocument}
	return s.each(ctx, s.names().protocols(), f, rebuildPage, fields, func(points []*pb.RetrievedPoint) error {
		var entries []indexEntry
		for _, p := range points {
			m, err := s.manifestOf(p)
			if err != nil {
				return err
			}
			var c protocol.Chain
			if err := json.Unmarshal([]byte(m.document), &c); err != nil {
				// It is kept, and reported by whoever reads it.
				s.log.WarnContext(ctx, "a damaged protocol is left out of the search index", "qdrant", s.at.String(), "point", m.key, "error", err)
				continue
			}
			entries = append(entries, indexEntry{key: m.key, token: m.token, chain: c, words: analyse(c)})
		}
		if old != nil && old.model == to.model && old.dimension == to.dimension && old.collection != to.collection {
			return s.copyEntries(ctx, to, old, entries)
		}
		return s.writeEntries(ctx, to.collection, to, entries, s.options.Clock.Wall())
	})
}

// copyEntries is writeEntries with the vectors of another index.
func (s *Store) copyEntries(ctx context.Context, to, old *indexState, entries []indexEntry) error {
	vectors, err := s.vectorsOf(ctx, old.collection, old, entries)
	if err != nil {
		return err
	}
	if err := s.writeEntries(ctx, to.collection, to, entries, s.options.Clock.Wall()); err != nil {
		return err
	}
	return s.attach(ctx, to.collection, vectors)
}
