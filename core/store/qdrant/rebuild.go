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

// rebuild builds a new search index from the manifests and replaces the old one
// (nil: none). Searches use the old one until then. It may be interrupted and
// repeated, and run in two processes at once.
func (ix *searchIndex) rebuild(ctx context.Context, old, next *indexState) error {
	start := ix.server.options.Clock.Moment()
	if err := ix.create(ctx, next); err != nil {
		return err
	}
	if err := ix.copyChains(ctx, next, old, 0); err != nil {
		return err
	}
	if err := ix.server.pointAlias(ctx, ix.server.names.index(), next.collection); err != nil {
		return err
	}
	ix.use(next)
	// Add the chains that were stored during the rebuild. A save in progress detects
	// the new index after its commit, and writes to it itself.
	if err := ix.copyChains(ctx, next, nil, ix.server.options.Clock.Earliest(start).Add(-clockMargin).UnixMilli()); err != nil {
		return err
	}
	if old == nil || old.collection == next.collection {
		return nil
	}
	ix.server.log.InfoContext(ctx, "search index rebuilt", "qdrant", ix.server.at.String(), "collection", next.collection, "model", next.model)
	_, err := call(ctx, ix.server, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, ix.server.client.DeleteCollection(ctx, old.collection)
	})
	if err != nil {
		return fmt.Errorf("remove the replaced search index %s: %w", old.collection, err)
	}
	return nil
}

// copyChains writes the chains that were stored since the time (Unix milliseconds)
// to an index. Vectors are copied from the old one, if they are of the same model.
func (ix *searchIndex) copyChains(ctx context.Context, to, old *indexState, since int64) error {
	f := all(is(fieldKind, kindManifest))
	if since > 0 {
		f.Must = append(f.Must, pb.NewRange(fieldWritten, &pb.Range{Gte: pb.PtrOf(float64(since))}))
	}
	fields := []string{fieldToken, fieldDocument}
	return ix.server.each(ctx, ix.server.names.protocols(), f, rebuildPage, fields, func(points []*pb.RetrievedPoint) error {
		var entries []indexEntry
		for _, p := range points {
			m, err := ix.server.manifestOf(p)
			if err != nil {
				return err
			}
			var c protocol.Chain
			if err := json.Unmarshal([]byte(m.document), &c); err != nil {
				// It stays stored, and reading it reports the damage.
				ix.server.log.WarnContext(ctx, "a damaged protocol is left out of the search index", "qdrant", ix.server.at.String(), "point", m.key, "error", err)
				continue
			}
			entries = append(entries, indexEntry{key: m.key, token: m.token, chain: c, words: analyse(c)})
		}
		if old != nil && old.model == to.model && old.dimension == to.dimension && old.collection != to.collection {
			return ix.copyEntries(ctx, to, old, entries)
		}
		return ix.writeEntries(ctx, to.collection, to, entries, ix.server.options.Clock.Wall())
	})
}

// copyEntries is writeEntries with vectors of another index.
func (ix *searchIndex) copyEntries(ctx context.Context, to, old *indexState, entries []indexEntry) error {
	vectors, err := ix.vectorsOf(ctx, old.collection, old, entries)
	if err != nil {
		return err
	}
	if err := ix.writeEntries(ctx, to.collection, to, entries, ix.server.options.Clock.Wall()); err != nil {
		return err
	}
	return ix.attach(ctx, to.collection, vectors)
}
