package qdrant

import (
	"context"
	"errors"
	"maps"
	"math"
	"regexp"
	"slices"

	pb "github.com/qdrant/go-client/qdrant"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/protocol"
)

const (
	// vectorsRead is how many points with a vector are read at once.
	vectorsRead = 500
	// vectorsWritten is how many are written at once.
	vectorsWritten = 500
)

// Known implements library.Vectors.
func (s *Store) Known(ctx context.Context, model string, hashes []string) (map[string][]float32, error) {
	if len(hashes) == 0 {
		return map[string][]float32{}, ctx.Err()
	}
	if err := s.prepare(ctx); err != nil {
		return nil, err
	}
	if x := s.schema.index.Load(); x.model == "" || x.model != model {
		return map[string][]float32{}, nil
	}
	return s.known(ctx, s.names().index(), hashes)
}

// known reads vectors by the hashes of their passages.
func (s *Store) known(ctx context.Context, collection string, hashes []string) (map[string][]float32, error) {
	found := make(map[string][]float32)
	for part := range slices.Chunk(hashes, vectorsRead) {
		f := all(is(fieldKind, kindStep), in(fieldPassage, part), pb.NewHasVector(vectorDense))
		var offset *pb.PointId
		for {
			points, next, err := s.findVectors(ctx, collection, f, offset)
			if err != nil {
				return nil, err
			}
			for _, p := range points {
				v := p.GetVectors().GetVectors().GetVectors()[vectorDense].GetDenseVector().GetData()
				if len(v) > 0 {
					found[p.GetPayload()[fieldPassage].GetStringValue()] = v
				}
			}
			if next == nil {
				break
			}
			offset = next
		}
	}
	return found, nil
}

func (s *Store) findVectors(ctx context.Context, collection string, f *pb.Filter, offset *pb.PointId) ([]*pb.RetrievedPoint, *pb.PointId, error) {
	var next *pb.PointId
	points, err := call(ctx, s, func(ctx context.Context) ([]*pb.RetrievedPoint, error) {
		var points []*pb.RetrievedPoint
		var err error
		points, next, err = s.client.ScrollAndOffset(ctx, &pb.ScrollPoints{
			CollectionName: collection, Filter: f, Limit: pb.PtrOf(uint32(vectorsRead)), Offset: offset,
			WithPayload: pb.NewWithPayloadInclude(fieldPassage), WithVectors: pb.NewWithVectorsInclude(vectorDense), ReadConsistency: newest,
		})
		return points, err
	})
	return points, next, err
}

// vectorsOf are the vectors that the index has already for the passages of the entries.
func (s *Store) vectorsOf(ctx context.Context, collection string, x *indexState, entries []indexEntry) (map[string][]float32, error) {
	if x == nil || x.model == "" {
		return nil, nil
	}
	hashes := map[string]bool{}
	for _, e := range entries {
		for i := range e.chain.Steps {
			hashes[protocol.PassageHash(e.chain.Passage(i))] = true
		}
	}
	return s.known(ctx, collection, slices.Sorted(maps.Keys(hashes)))
}

// Missing implements library.Vectors.
func (s *Store) Missing(ctx context.Context, model string, limit int) ([]library.Passage, error) {
	if limit < 1 {
		return nil, ctx.Err()
	}
	if err := s.prepare(ctx); err != nil {
		return nil, err
	}
	if x := s.schema.index.Load(); x.model != model || model == "" {
		return s.allPassages(ctx, limit)
	}
	f := all(is(fieldKind, kindStep))
	f.MustNot = []*pb.Condition{pb.NewHasVector(vectorDense)}
	var passages []library.Passage
	seen := map[string]bool{}
	var offset *pb.PointId
	for len(passages) < limit {
		points, next, err := s.find(ctx, s.names().index(), f, titlesPage, offset, fieldChainKey, fieldToken, fieldPassage, "step")
		if err != nil {
			return nil, err
		}
		more, err := s.passages(ctx, points, seen, limit-len(passages))
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

// errEnough ends a reading.
var errEnough = errors.New("enough")

// allPassages are the passages of all chains: the index has no vectors of the model.
func (s *Store) allPassages(ctx context.Context, limit int) ([]library.Passage, error) {
	var passages []library.Passage
	seen := map[string]bool{}
	err := s.each(ctx, s.names().protocols(), all(is(fieldKind, kindManifest)), rebuildPage, readFields, func(points []*pb.RetrievedPoint) error {
		for _, p := range points {
			m, err := s.manifestOf(p)
			if err != nil {
				return err
			}
			c, err := s.whole(m)
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

// passages are the texts of step points, of those that belong to a stored chain.
func (s *Store) passages(ctx context.Context, points []*pb.RetrievedPoint, seen map[string]bool, limit int) ([]library.Passage, error) {
	var out []library.Passage
	for part := range slices.Chunk(points, rebuildPage) {
		if len(out) >= limit {
			break
		}
		keys := map[string]bool{}
		for _, p := range part {
			keys[p.GetPayload()[fieldChainKey].GetStringValue()] = true
		}
		found, err := s.get(ctx, s.names().protocols(), slices.Sorted(maps.Keys(keys)), append([]string{fieldToken}, readFields...)...)
		if err != nil {
			return nil, err
		}
		chains := map[string]protocol.Chain{}
		for _, p := range found {
			m, err := s.manifestOf(p)
			if err != nil {
				return nil, err
			}
			if !m.live() {
				continue
			}
			if chains[m.key+m.token], err = s.whole(m); err != nil {
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

// SaveVectors implements library.Vectors. Vectors of another model than those
// that are stored first make a new search index, which may take a while.
func (s *Store) SaveVectors(ctx context.Context, model string, vectors map[string][]float32) error {
	if len(vectors) == 0 {
		return ctx.Err()
	}
	dimension, err := checkVectors(model, vectors)
	if err != nil {
		return err
	}
	if err := s.prepare(ctx); err != nil {
		return err
	}
	if x := s.schema.index.Load(); x.model != model || x.dimension != dimension {
		if err := s.changeModel(ctx, model, dimension); err != nil {
			return err
		}
	}
	return s.attach(ctx, s.names().index(), vectors)
}

// changeModel makes an index for the embeddings of a model.
func (s *Store) changeModel(ctx context.Context, model string, dimension int) error {
	select {
	case s.schema.turn <- struct{}{}:
		defer func() { <-s.schema.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := s.refreshIndex(ctx); err != nil {
		return err
	}
	x := s.schema.index.Load()
	if x.model == model && x.dimension == dimension {
		return nil
	}
	return s.rebuild(ctx, x, &indexState{model: model, dimension: dimension, analyser: x.analyser})
}

var passageHash = regexp.MustCompile(`^[0-9a-f]{64}$`)

// checkVectors returns the length that all the vectors have.
func checkVectors(model string, vectors map[string][]float32) (int, error) {
	dimension := -1
	for hash, v := range vectors {
		if dimension < 0 {
			dimension = len(v)
		}
		if len(v) == 0 || len(v) != dimension {
			return 0, fault.New(fault.InvalidArgument, "vectors of model %s with %d and %d numbers in one call", model, dimension, len(v))
		}
		if !passageHash.MatchString(hash) {
			return 0, fault.New(fault.InvalidArgument, "%q is not the hash of a passage", hash)
		}
		if !slices.ContainsFunc(v, func(x float32) bool { return x != 0 }) {
			return 0, fault.New(fault.InvalidArgument, "a vector of model %s is all zeros", model)
		}
		for _, x := range v {
			if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
				return 0, fault.New(fault.InvalidArgument, "a vector of model %s holds %v", model, x)
			}
		}
	}
	if model == "" {
		return 0, fault.New(fault.InvalidArgument, "vectors of a model without a name")
	}
	return dimension, nil
}

// attach gives vectors to the steps whose passages they are of.
func (s *Store) attach(ctx context.Context, collection string, vectors map[string][]float32) error {
	for part := range slices.Chunk(slices.Sorted(maps.Keys(vectors)), vectorsWritten) {
		f := all(is(fieldKind, kindStep), in(fieldPassage, part))
		err := s.each(ctx, collection, f, vectorsWritten, []string{fieldPassage}, func(points []*pb.RetrievedPoint) error {
			if len(points) == 0 {
				return nil
			}
			updates := make([]*pb.PointVectors, len(points))
			for i, p := range points {
				updates[i] = &pb.PointVectors{Id: p.GetId(), Vectors: pb.NewVectorsMap(map[string]*pb.Vector{
					vectorDense: pb.NewVectorDense(vectors[p.GetPayload()[fieldPassage].GetStringValue()]),
				})}
			}
			return s.update(ctx, collection, pb.NewPointsUpdateUpdateVectors(&pb.PointsUpdateOperation_UpdateVectors{Points: updates}))
		})
		if err != nil {
			return err
		}
	}
	return nil
}
