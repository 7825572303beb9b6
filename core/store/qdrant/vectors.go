package qdrant

import (
	"context"
	"maps"
	"math"
	"regexp"
	"slices"

	pb "github.com/qdrant/go-client/qdrant"

	"github.com/kairos-mcp/kairos/core/fault"
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
	if err := s.schema.prepare(ctx); err != nil {
		return nil, err
	}
	if x := s.index.state.Load(); x.model == "" || x.model != model {
		return map[string][]float32{}, nil
	}
	return s.index.known(ctx, s.server.names.index(), hashes)
}

// known reads vectors by the hashes of their passages.
func (ix *searchIndex) known(ctx context.Context, collection string, hashes []string) (map[string][]float32, error) {
	found := make(map[string][]float32)
	for part := range slices.Chunk(hashes, vectorsRead) {
		f := all(is(fieldKind, kindStep), in(fieldPassage, part), pb.NewHasVector(vectorDense))
		var offset *pb.PointId
		for {
			points, next, err := ix.findVectors(ctx, collection, f, offset)
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

func (ix *searchIndex) findVectors(ctx context.Context, collection string, f *pb.Filter, offset *pb.PointId) ([]*pb.RetrievedPoint, *pb.PointId, error) {
	var next *pb.PointId
	points, err := call(ctx, ix.server, func(ctx context.Context) ([]*pb.RetrievedPoint, error) {
		var points []*pb.RetrievedPoint
		var err error
		points, next, err = ix.server.client.ScrollAndOffset(ctx, &pb.ScrollPoints{
			CollectionName: collection, Filter: f, Limit: pb.PtrOf(uint32(vectorsRead)), Offset: offset,
			WithPayload: pb.NewWithPayloadInclude(fieldPassage), WithVectors: pb.NewWithVectorsInclude(vectorDense), ReadConsistency: newest,
		})
		return points, err
	})
	return points, next, err
}

// vectorsOf returns the vectors that the index already has for the passages of the
// entries.
func (ix *searchIndex) vectorsOf(ctx context.Context, collection string, x *indexState, entries []indexEntry) (map[string][]float32, error) {
	if x == nil || x.model == "" {
		return nil, nil
	}
	hashes := map[string]bool{}
	for _, e := range entries {
		for i := range e.chain.Steps {
			hashes[protocol.PassageHash(e.chain.Passage(i))] = true
		}
	}
	return ix.known(ctx, collection, slices.Sorted(maps.Keys(hashes)))
}

// SaveVectors implements library.Vectors. Vectors of a new model first cause a new
// search index to be built, which may take a while.
func (s *Store) SaveVectors(ctx context.Context, model string, vectors map[string][]float32) error {
	if len(vectors) == 0 {
		return ctx.Err()
	}
	dimension, err := checkVectors(model, vectors)
	if err != nil {
		return err
	}
	if err := s.schema.prepare(ctx); err != nil {
		return err
	}
	if x := s.index.state.Load(); x.model != model || x.dimension != dimension {
		if err := s.changeModel(ctx, model, dimension); err != nil {
			return err
		}
	}
	return s.index.attach(ctx, s.server.names.index(), vectors)
}

// changeModel builds an index for the embeddings of a model.
func (s *Store) changeModel(ctx context.Context, model string, dimension int) error {
	select {
	case s.schema.turn <- struct{}{}:
		defer func() { <-s.schema.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := s.index.refresh(ctx); err != nil {
		return err
	}
	x := s.index.state.Load()
	if x.model == model && x.dimension == dimension {
		return nil
	}
	return s.index.rebuild(ctx, x, &indexState{model: model, dimension: dimension, analyser: x.analyser})
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

// attach adds vectors to the steps with these passages.
func (ix *searchIndex) attach(ctx context.Context, collection string, vectors map[string][]float32) error {
	for part := range slices.Chunk(slices.Sorted(maps.Keys(vectors)), vectorsWritten) {
		f := all(is(fieldKind, kindStep), in(fieldPassage, part))
		err := ix.server.each(ctx, collection, f, vectorsWritten, []string{fieldPassage}, func(points []*pb.RetrievedPoint) error {
			if len(points) == 0 {
				return nil
			}
			updates := make([]*pb.PointVectors, len(points))
			for i, p := range points {
				updates[i] = &pb.PointVectors{Id: p.GetId(), Vectors: pb.NewVectorsMap(map[string]*pb.Vector{
					vectorDense: pb.NewVectorDense(vectors[p.GetPayload()[fieldPassage].GetStringValue()]),
				})}
			}
			return ix.server.update(ctx, collection, pb.NewPointsUpdateUpdateVectors(&pb.PointsUpdateOperation_UpdateVectors{Points: updates}))
		})
		if err != nil {
			return err
		}
	}
	return nil
}
