package qdrant

import (
	"context"

	pb "github.com/qdrant/go-client/qdrant"

	"github.com/kairos-mcp/kairos/core/index"
	"github.com/kairos-mcp/kairos/core/store/qdrant/client"
)

// pointsWritten and bytesWritten bound one request. A document is never divided.
const (
	pointsWritten = 2000
	bytesWritten  = 16 << 20
)

// Put implements index.Index.
func (x *Index) Put(ctx context.Context, documents []index.Document) error {
	for len(documents) > 0 {
		n := requestOf(documents)
		if err := x.putSome(ctx, documents[:n]); err != nil {
			return err
		}
		documents = documents[n:]
	}
	return nil
}

// requestOf is how many of the documents fit into a request, at least one. No two
// of them have a step with the same UUID: of two points with one id the server would
// keep the last.
func requestOf(documents []index.Document) int {
	points, size := map[string]bool{}, 0
	for n, d := range documents {
		before := len(points)
		for _, step := range d.Chain.Steps {
			points[pointID(d.Space, step.UUID)] = true
			size += len(step.Text) + len(step.Challenge) + 2000 // and the other fields of the payload
		}
		for _, v := range d.Vectors {
			size += 4 * len(v)
		}
		again := len(points) < before+len(d.Chain.Steps)
		if n > 0 && (again || len(points) > pointsWritten || size > bytesWritten) {
			return n
		}
	}
	return len(documents)
}

// putSome writes documents in one request.
func (x *Index) putSome(ctx context.Context, documents []index.Document) error {
	var points []*pb.PointStruct
	var older, replaced []*pb.Condition
	for _, d := range documents {
		mine := pointsOf(d)
		points = append(points, mine...)
		if len(mine) > 0 {
			older = append(older, mayReplace(d.Entry, mine))
		}
		replaced = append(replaced, leftOf(d))
	}
	ops := []*pb.PointsUpdateOperation{remove(replaced)}
	if len(points) > 0 {
		// The points first: at no time a step has none.
		ops = []*pb.PointsUpdateOperation{upsertIf(older, points), ops[0]}
	}
	if err := x.update(ctx, ops...); err != nil {
		return err
	}
	return x.putSecond(ctx, documents, points)
}

// mayReplace matches those of the points that the entry may replace: of the same
// space, in which one protocol has the step, and with a lower revision.
func mayReplace(e index.Entry, points []*pb.PointStruct) *pb.Condition {
	ids := make([]*pb.PointId, len(points))
	for i, p := range points {
		ids[i] = p.GetId()
	}
	return nested(pb.NewHasID(ids...), pb.NewMatchKeyword(fieldSpace, e.Space),
		pb.NewRange(fieldRevision, &pb.Range{Lt: pb.PtrOf(float64(e.Revision))}))
}

// leftOf matches the points of steps that the protocol does not have any more.
func leftOf(d index.Document) *pb.Condition {
	before := &pb.Range{Lt: pb.PtrOf(float64(d.Revision))}
	if len(d.Chain.Steps) == 0 {
		// Another process may have written the protocol at this very entry before it was
		// deleted.
		before = &pb.Range{Lte: pb.PtrOf(float64(d.Revision))}
	}
	return nested(pb.NewMatchKeyword(fieldChainKey, chainKey(d.Entry)), pb.NewRange(fieldRevision, before))
}

// putSecond writes the steps whose id is taken by a step of another space: two
// spaces may have imported the same protocol.
func (x *Index) putSecond(ctx context.Context, documents []index.Document, points []*pb.PointStruct) error {
	ids := make([]*pb.PointId, len(points))
	for i, p := range points {
		ids[i] = p.GetId()
	}
	stored, err := x.client.Get(ctx, x.collections.alias, ids, pb.NewWithPayloadInclude(fieldSpace), nil)
	if err != nil {
		return err
	}
	spaces := make(map[string]string, len(stored))
	for _, p := range stored {
		spaces[p.GetId().GetUuid()] = p.GetPayload()[fieldSpace].GetStringValue()
	}
	var second []*pb.PointStruct
	var older []*pb.Condition
	for _, d := range documents {
		var mine []*pb.PointStruct
		for _, p := range points[:len(d.Chain.Steps)] {
			if space, ok := spaces[p.GetId().GetUuid()]; ok && space != d.Space {
				p.Id = pb.NewID(secondID(d.Space, p.GetPayload()[fieldStep].GetStringValue()))
				mine = append(mine, p)
			}
		}
		points = points[len(d.Chain.Steps):]
		if len(mine) > 0 {
			second, older = append(second, mine...), append(older, mayReplace(d.Entry, mine))
		}
	}
	if len(second) == 0 {
		return nil
	}
	return x.update(ctx, upsertIf(older, second))
}

// update does operations in order and waits until they are visible.
func (x *Index) update(ctx context.Context, ops ...*pb.PointsUpdateOperation) error {
	_, err := client.Call(ctx, x.client, func(ctx context.Context, p *pb.Client) ([]*pb.UpdateResult, error) {
		return p.UpdateBatch(ctx, &pb.UpdateBatchPoints{
			CollectionName: x.collections.alias, Wait: pb.PtrOf(true), Operations: ops,
			// One order on all nodes.
			Ordering: &pb.WriteOrdering{Type: pb.WriteOrderingType_Strong},
		})
	})
	return err
}

func nested(conditions ...*pb.Condition) *pb.Condition {
	return pb.NewFilterAsCondition(&pb.Filter{Must: conditions})
}

// upsertIf writes points that do not exist, and those of the others that match one
// of the conditions.
func upsertIf(conditions []*pb.Condition, points []*pb.PointStruct) *pb.PointsUpdateOperation {
	return pb.NewPointsUpdateUpsert(&pb.PointsUpdateOperation_PointStructList{Points: points, UpdateFilter: &pb.Filter{Should: conditions}})
}

func remove(conditions []*pb.Condition) *pb.PointsUpdateOperation {
	return pb.NewPointsUpdateDeletePoints(&pb.PointsUpdateOperation_DeletePoints{Points: pb.NewPointsSelectorFilter(&pb.Filter{Should: conditions})})
}
