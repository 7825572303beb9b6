package qdrant

import (
	"context"

	pb "github.com/qdrant/go-client/qdrant"
)

// withTerms finds chains that have any of the terms; rare terms count more.
func (l *lookup) withTerms(terms []string) *pb.QueryPoints {
	return &pb.QueryPoints{
		CollectionName: l.store.server.names.index(), Using: pb.PtrOf(vectorWords), Limit: pb.PtrOf(uint64(candidates)),
		Query: pb.NewQueryNearest(pb.NewVectorInputDocument(bm25(terms))), Filter: all(in(fieldSpace, l.spaces)),
		WithPayload: pb.NewWithPayload(false),
	}
}

var candidatePayload = pb.NewWithPayloadInclude(fieldChainKey, fieldToken, fieldWords)

// candidates finds chains by the words of the query, by alternatives to them, and
// by the vector if there is one. The server fuses the rankings by reciprocal rank.
func (l *lookup) candidates(stand []alternatives) *pb.QueryPoints {
	exact := l.query.Names()
	var wider, words []string
	for i, w := range l.words {
		exact = append(exact, w.Term, w.TitleTerm(), w.LabelTerm())
		words = append(words, w.Term)
		if !l.store.counts.common(l.spaces, w.Term) {
			wider = append(append(wider, stand[i].completions...), stand[i].corrections...)
		}
	}
	rankings := []*pb.PrefetchQuery{prefetch(l.withTerms(exact))}
	if len(wider) > 0 {
		rankings = append(rankings, prefetch(l.withTerms(append(wider, words...))))
	}
	if l.vector != nil {
		rankings = append(rankings, prefetch(l.near()))
	}
	q := l.withTerms(exact)
	if len(rankings) > 1 {
		q.Query, q.Using, q.Filter, q.Prefetch = pb.NewQueryFusion(pb.Fusion_RRF), nil, nil, rankings
		q.Limit = pb.PtrOf(uint64(judgedMost))
	}
	q.WithPayload = candidatePayload
	return q
}

func prefetch(q *pb.QueryPoints) *pb.PrefetchQuery {
	return &pb.PrefetchQuery{Query: q.GetQuery(), Using: q.Using, Filter: q.GetFilter(), Limit: q.Limit, Params: q.GetParams()}
}

// near finds steps with similar vectors.
func (l *lookup) near() *pb.QueryPoints {
	return &pb.QueryPoints{
		CollectionName: l.store.server.names.index(), Using: pb.PtrOf(vectorDense), Limit: pb.PtrOf(uint64(nearest)),
		Query: pb.NewQueryDense(l.vector), Filter: all(in(fieldSpace, l.spaces)), Params: l.store.index.searchParams(),
		WithPayload: pb.NewWithPayloadInclude(fieldChainKey, fieldToken, "step"),
	}
}

// sample compares the query with random steps.
func (l *lookup) sample() *pb.QueryPoints {
	return &pb.QueryPoints{
		CollectionName: l.store.server.names.index(), Using: pb.PtrOf(vectorDense), Limit: pb.PtrOf(uint64(sampled)),
		Prefetch: []*pb.PrefetchQuery{{
			Query: pb.NewQuerySample(pb.Sample_Random), Limit: pb.PtrOf(uint64(sampled)),
			Filter: all(is(fieldKind, kindStep), in(fieldSpace, l.spaces), pb.NewHasVector(vectorDense)),
		}},
		Query: pb.NewQueryDense(l.vector), WithPayload: pb.NewWithPayload(false),
	}
}

func (ix *searchIndex) searchParams() *pb.SearchParams {
	return &pb.SearchParams{Quantization: &pb.QuantizationSearchParams{Rescore: pb.PtrOf(!ix.server.options.NoRescore), Oversampling: pb.PtrOf(2.0)}}
}

func (ix *searchIndex) query(ctx context.Context, queries []*pb.QueryPoints) ([][]*pb.ScoredPoint, error) {
	results, err := call(ctx, ix.server, func(ctx context.Context) ([]*pb.BatchResult, error) {
		return ix.server.client.QueryBatch(ctx, &pb.QueryBatchPoints{CollectionName: ix.server.names.index(), QueryPoints: queries})
	})
	if err != nil {
		return nil, err
	}
	out := make([][]*pb.ScoredPoint, len(queries))
	for i, r := range results[:min(len(results), len(out))] {
		out[i] = r.GetResult()
	}
	return out, nil
}
