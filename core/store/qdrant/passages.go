package qdrant

import (
	"context"
	"errors"
	"maps"
	"slices"

	pb "github.com/qdrant/go-client/qdrant"

	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/protocol"
)

// all returns the passages of all chains, for an index without vectors of the
// model.
func (ps passages) all(ctx context.Context, limit int) ([]library.Passage, error) {
	var passages []library.Passage
	seen := map[string]bool{}
	err := ps.server.each(ctx, ps.server.names.protocols(), all(is(fieldKind, kindManifest)), rebuildPage, readFields, func(points []*pb.RetrievedPoint) error {
		for _, p := range points {
			m, err := ps.server.manifestOf(p)
			if err != nil {
				return err
			}
			c, err := ps.server.whole(m)
			if err != nil {
				return err
			}
			for i := range c.Steps {
				passage := c.Passage(i)
				hash := protocol.PassageHash(passage)
				if seen[hash] {
					continue
				}
				if len(passages) == limit {
					return errEnough
				}
				seen[hash] = true
				passages = append(passages, library.Passage{Hash: hash, Text: passage})
			}
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return passages, err
}

// of returns the texts of step points, of those that belong to a stored chain.
func (ps passages) of(ctx context.Context, points []*pb.RetrievedPoint, seen map[string]bool, limit int) ([]library.Passage, error) {
	var out []library.Passage
	for part := range slices.Chunk(points, rebuildPage) {
		if len(out) >= limit {
			break
		}
		keys := map[string]bool{}
		for _, p := range part {
			keys[p.GetPayload()[fieldChainKey].GetStringValue()] = true
		}
		found, err := ps.server.get(ctx, ps.server.names.protocols(), slices.Sorted(maps.Keys(keys)), append([]string{fieldToken}, readFields...)...)
		if err != nil {
			return nil, err
		}
		chains := map[string]protocol.Chain{}
		for _, p := range found {
			m, err := ps.server.manifestOf(p)
			if err != nil {
				return nil, err
			}
			if !m.live() {
				continue
			}
			if chains[m.key+m.token], err = ps.server.whole(m); err != nil {
				return nil, err
			}
		}
		for _, p := range part {
			v := p.GetPayload()
			hash := v[fieldPassage].GetStringValue()
			c, ok := chains[v[fieldChainKey].GetStringValue()+v[fieldToken].GetStringValue()]
			i := int(v["step"].GetIntegerValue())
			if !ok || seen[hash] || i < 0 || i >= len(c.Steps) || len(out) >= limit {
				continue
			}
			seen[hash] = true
			out = append(out, library.Passage{Hash: hash, Text: c.Passage(i)})
		}
	}
	return out, nil
}

// passages reads the texts of steps.
type passages struct{ server *server }

// errEnough stops a reading early.
var errEnough = errors.New("enough")

// Missing implements library.Vectors.
func (s *Store) Missing(ctx context.Context, model string, limit int) ([]library.Passage, error) {
	if limit < 1 {
		return nil, ctx.Err()
	}
	if err := s.schema.prepare(ctx); err != nil {
		return nil, err
	}
	if x := s.index.state.Load(); x.model != model || model == "" {
		return s.passages.all(ctx, limit)
	}
	f := all(is(fieldKind, kindStep))
	f.MustNot = []*pb.Condition{pb.NewHasVector(vectorDense)}
	var passages []library.Passage
	seen := map[string]bool{}
	var offset *pb.PointId
	for len(passages) < limit {
		points, next, err := s.server.find(ctx, s.server.names.index(), f, titlesPage, offset, fieldChainKey, fieldToken, fieldPassage, "step")
		if err != nil {
			return nil, err
		}
		more, err := s.passages.of(ctx, points, seen, limit-len(passages))
		if err != nil {
			return nil, err
		}
		passages = append(passages, more...)
		if next == nil {
			break
		}
		offset = next
	}
	return passages, nil
}
