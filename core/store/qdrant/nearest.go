package qdrant

import (
	"context"
	"sync"
	"time"

	pb "github.com/qdrant/go-client/qdrant"

	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/search"
	"github.com/kairos-mcp/kairos/core/store/qdrant/client"
)

const (
	// sampled is how many random vectors give the background of a query, and
	// sampleFresh how long they are kept.
	sampled     = 256
	sampleFresh = 10 * time.Minute
	// sampleFew is a sample that is read again after sampleSoon: the index is being
	// filled.
	sampleFew, sampleSoon = 64, 5 * time.Second
)

// sample is a random sample of the vectors of an index.
type sample struct {
	mu      sync.Mutex // guards the fields below
	at      time.Time
	vectors [][]float32
}

// Nearest implements index.Index.
func (x *Index) Nearest(ctx context.Context, spaces []string, e library.Embedding, limit int) (*search.Near, error) {
	o := x.opened.Load()
	if o == nil || o.model.Name != e.Model || o.model.Length != len(e.Vector) || len(spaces) == 0 {
		return nil, ctx.Err()
	}
	points, err := x.query(ctx, &pb.QueryPoints{
		CollectionName: x.collections.alias, Using: pb.PtrOf(vectorName), Limit: pb.PtrOf(uint64(limit)), //nolint:gosec // a number of steps
		Query: pb.NewQueryDense(e.Vector), Filter: &pb.Filter{Must: []*pb.Condition{pb.NewMatchKeywords(fieldSpace, spaces...)}},
		Params: &pb.SearchParams{Quantization: &pb.QuantizationSearchParams{
			Rescore: pb.PtrOf(true), Oversampling: pb.PtrOf(2.0),
		}},
		WithPayload: pb.NewWithPayloadInclude(fieldSpace, fieldChain),
	})
	if err != nil {
		return nil, err
	}
	n := &search.Near{Found: make([]search.NearProtocol, len(points))}
	for i, p := range points {
		v := p.GetPayload()
		n.Found[i] = search.NearProtocol{
			Space: v[fieldSpace].GetStringValue(), ChainID: v[fieldChain].GetStructValue().GetFields()[chainID].GetStringValue(), Cosine: float64(p.GetScore()),
		}
	}
	vectors, err := x.sample(ctx, &o.sample)
	for _, v := range vectors {
		n.Random = append(n.Random, search.Cosine(e.Vector, v))
	}
	return n, err
}

// sample returns the sample, and takes it if it is too old.
func (x *Index) sample(ctx context.Context, s *sample) ([][]float32, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fresh := sampleFresh
	if len(s.vectors) < sampleFew {
		fresh = sampleSoon
	}
	if !s.at.IsZero() && time.Since(s.at) < fresh {
		return s.vectors, nil
	}
	points, err := x.query(ctx, &pb.QueryPoints{
		CollectionName: x.collections.alias, Query: pb.NewQuerySample(pb.Sample_Random), Limit: pb.PtrOf(uint64(sampled)),
		Filter:      &pb.Filter{Must: []*pb.Condition{pb.NewHasVector(vectorName)}},
		WithPayload: pb.NewWithPayload(false), WithVectors: pb.NewWithVectorsInclude(vectorName),
	})
	if err != nil {
		return nil, err
	}
	s.at, s.vectors = time.Now(), nil
	for _, p := range points {
		if v := p.GetVectors().GetVectors().GetVectors()[vectorName].GetDenseVector().GetData(); len(v) > 0 {
			s.vectors = append(s.vectors, v)
		}
	}
	return s.vectors, nil
}

func (x *Index) query(ctx context.Context, q *pb.QueryPoints) ([]*pb.ScoredPoint, error) {
	return client.Call(ctx, x.client, func(ctx context.Context, p *pb.Client) ([]*pb.ScoredPoint, error) { return p.Query(ctx, q) })
}
