package qdrant

import (
	"bytes"
	"context"
	"encoding/json"

	pb "github.com/qdrant/go-client/qdrant"

	"github.com/kairos-mcp/kairos/core/index"
	"github.com/kairos-mcp/kairos/core/search"
	"github.com/kairos-mcp/kairos/core/store/qdrant/client"
)

// sameVector is the least cosine of a stored vector with the one that it was made
// from: the server scales vectors to unit length.
const sameVector = 0.999

// Compare implements index.Index.
func (x *Index) Compare(ctx context.Context, documents []index.Document) (index.Difference, error) {
	var out index.Difference
	for len(documents) > 0 {
		n := requestOf(documents)
		if err := x.compareSome(ctx, documents[:n], &out); err != nil {
			return out, err
		}
		documents = documents[n:]
	}
	return out, nil
}

// compareSome compares documents with one request.
func (x *Index) compareSome(ctx context.Context, documents []index.Document, out *index.Difference) error {
	want := make([][]*pb.PointStruct, len(documents))
	var ids []*pb.PointId
	for i, d := range documents {
		want[i] = pointsOf(d)
		for _, p := range want[i] {
			ids = append(ids, p.GetId(), pb.NewID(secondID(d.Space, p.GetPayload()[fieldStep].GetStringValue())))
		}
	}
	found, err := x.client.Get(ctx, x.collections.alias, ids, pb.NewWithPayload(true), pb.NewWithVectors(true))
	if err != nil {
		return err
	}
	stored := make(map[[2]string]*pb.RetrievedPoint, len(found))
	for _, p := range found {
		stored[placeOf(p.GetPayload())] = p
	}
	for i, d := range documents {
		one := index.Differing{Entry: d.Entry, Title: d.Chain.Title}
		for _, p := range want[i] {
			have, ok := stored[placeOf(p.GetPayload())]
			switch {
			case !ok:
				one.Missing++
				continue
			case !samePoint(p, have):
				one.Wrong++
			}
			one.Found++
		}
		if one.Missing == 0 && one.Wrong == 0 {
			out.Found += one.Found
			continue
		}
		out.Protocols = append(out.Protocols, one)
	}
	return nil
}

// placeOf is the space and the UUID of a step.
func placeOf(p payload) [2]string {
	return [2]string{p[fieldSpace].GetStringValue(), p[fieldStep].GetStringValue()}
}

// samePoint reports whether a point is stored as it should be, at whatever
// revision.
func samePoint(want *pb.PointStruct, have *pb.RetrievedPoint) bool {
	if !bytes.Equal(document(want.GetPayload()), document(have.GetPayload())) {
		return false
	}
	a := want.GetVectors().GetVectors().GetVectors()[vectorName].GetDense().GetData()
	b := have.GetVectors().GetVectors().GetVectors()[vectorName].GetDenseVector().GetData()
	return len(a) == len(b) && (len(a) == 0 || search.Cosine(a, b) > sameVector)
}

// document is a payload as JSON, in which 30 and 30.0 are the same.
func document(p payload) []byte {
	values := make(map[string]any, len(p))
	for name, v := range p {
		if name != fieldRevision {
			values[name] = client.Plain(v)
		}
	}
	b, _ := json.Marshal(values) // the values of encoding/json always encode
	return b
}

// Count implements index.Index.
func (x *Index) Count(ctx context.Context) (int, error) {
	n, err := client.Call(ctx, x.client, func(ctx context.Context, p *pb.Client) (uint64, error) {
		return p.Count(ctx, &pb.CountPoints{CollectionName: x.collections.alias, Exact: pb.PtrOf(true)})
	})
	return int(n), err //nolint:gosec // a number of steps
}
