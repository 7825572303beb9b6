package qdrant

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/google/uuid"
	pb "github.com/qdrant/go-client/qdrant"
)

// Payload fields of the protocols' collection.
const (
	fieldKind      = "kind"
	fieldSpace     = "space_id"
	fieldChainID   = "chain_id"
	fieldTitle     = "title"
	fieldTitleKey  = "title_key" // first bytes of the title as a number, to order by
	fieldRevision  = "revision"
	fieldToken     = "token"    // of the save that wrote the point
	fieldSteps     = "steps"    // UUIDs of the steps
	fieldFormer    = "former"   // UUIDs of steps that are gone
	fieldDocument  = "document" // the chain as JSON
	fieldOutline   = "outline"  // the same without texts
	fieldLog       = "log"      // what the revisions are, as JSON
	fieldWritten   = "written_at"
	fieldLock      = "lock" // token of the save that has reserved this point
	fieldLockUntil = "lock_until"
	fieldCount     = "count" // ratings so far
	fieldWriters   = "writers"
	fieldQuality   = "quality"
	fieldChains    = "chains"   // of an intent: keys of the chains it writes
	fieldReplaced  = "replaced" // of an intent: tokens it replaces, in the same order
	fieldCopied    = "copied"   // schema version from which a migration copied the point; later writes leave it out
	fieldRated     = "rated"    // of a step: the count of the ratings it shows
)

// Payload fields of the search index, besides those above. They have the names of
// the earlier server where it had them.
const (
	fieldChainKey = "chain_key" // id of the manifest
	fieldStep     = "memory_uuid"
	fieldPassage  = "passage"
	fieldWords    = "words" // the analysed chain, base64
	fieldList     = "list"  // words of chains, between blanks
)

// Kinds of points.
const (
	kindManifest    = "manifest"    // a chain as it is; writing it is the commit
	kindDeleted     = "deleted"     // a chain that is gone, with its history
	kindPlaceholder = "placeholder" // reserves the point of a new chain
	kindVersion     = "version"     // a chain as it was
	kindIntent      = "intent"      // a save in progress
	kindRating      = "rating"
	kindShown       = "shown" // marks that all steps have their points

	kindChain = "chain" // in the index: the words of a chain
	kindStep  = "step"  // in the index: a step with its vector; among the protocols: a step for other programs
	kindWords = "words" // in the index: words of chains, to complete and correct those of queries
	kindMeta  = "index" // in the index: its state
)

// pointSpace is the namespace of the ids of points. Changing it would lose all
// points.
var pointSpace = uuid.MustParse("5a3f4a55-1c62-4f0e-9d5b-3c0a7f1f6b2e")

// pointID is a deterministic id for the parts.
func pointID(parts ...string) string {
	return uuid.NewSHA1(pointSpace, []byte(strings.Join(parts, "\n"))).String()
}

func manifestID(space, chain string) string { return pointID(kindManifest, space, chain) }

func ids(keys []string) []*pb.PointId {
	out := make([]*pb.PointId, len(keys))
	for i, k := range keys {
		out[i] = pb.NewID(k)
	}
	return out
}

type payload = map[string]*pb.Value

func text(v string) *pb.Value   { return pb.NewValueString(v) }
func number(v int64) *pb.Value  { return pb.NewValueInt(v) }
func moment(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

func texts(values []string) *pb.Value {
	list := make([]*pb.Value, len(values))
	for i, v := range values {
		list[i] = text(v)
	}
	return pb.NewValueFromList(list...)
}

func textsOf(v *pb.Value) []string {
	values := v.GetListValue().GetValues()
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = v.GetStringValue()
	}
	return out
}

// encode encodes JSON without escaping <, > and &.
func encode(v any) (string, error) {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return strings.TrimSuffix(b.String(), "\n"), err
}

// strong makes all nodes apply writes in one order.
var strong = &pb.WriteOrdering{Type: pb.WriteOrderingType_Strong}

// newest makes reads return the last write on every node.
var newest = pb.NewReadConsistencyType(pb.ReadConsistencyType_Majority)

// update does operations in order and waits until they are visible.
func (s *server) update(ctx context.Context, collection string, ops ...*pb.PointsUpdateOperation) error {
	_, err := call(ctx, s, func(ctx context.Context) ([]*pb.UpdateResult, error) {
		return s.client.UpdateBatch(ctx, &pb.UpdateBatchPoints{
			CollectionName: collection, Wait: pb.PtrOf(true), Ordering: strong, Operations: ops,
		})
	})
	return err
}

// updateSoon is update without waiting.
func (s *server) updateSoon(ctx context.Context, collection string, ops ...*pb.PointsUpdateOperation) error {
	_, err := call(ctx, s, func(ctx context.Context) ([]*pb.UpdateResult, error) {
		return s.client.UpdateBatch(ctx, &pb.UpdateBatchPoints{
			CollectionName: collection, Wait: pb.PtrOf(false), Ordering: strong, Operations: ops,
		})
	})
	return err
}

// upsert writes points.
func upsert(points ...*pb.PointStruct) *pb.PointsUpdateOperation {
	return pb.NewPointsUpdateUpsert(&pb.PointsUpdateOperation_PointStructList{Points: points})
}

// upsertIf writes points that do not exist, and those of the others that match.
func upsertIf(condition *pb.Filter, points ...*pb.PointStruct) *pb.PointsUpdateOperation {
	return pb.NewPointsUpdateUpsert(&pb.PointsUpdateOperation_PointStructList{Points: points, UpdateFilter: condition})
}

func remove(f *pb.Filter) *pb.PointsUpdateOperation {
	return pb.NewPointsUpdateDeletePoints(&pb.PointsUpdateOperation_DeletePoints{Points: pb.NewPointsSelectorFilter(f)})
}

func removeIDs(keys ...string) *pb.PointsUpdateOperation {
	return pb.NewPointsUpdateDeletePoints(&pb.PointsUpdateOperation_DeletePoints{Points: pb.NewPointsSelectorIDs(ids(keys))})
}

func setIf(condition *pb.Filter, p payload) *pb.PointsUpdateOperation {
	return pb.NewPointsUpdateSetPayload(&pb.PointsUpdateOperation_SetPayload{Payload: p, PointsSelector: pb.NewPointsSelectorFilter(condition)})
}

func all(conditions ...*pb.Condition) *pb.Filter     { return &pb.Filter{Must: conditions} }
func anyOf(conditions ...*pb.Condition) *pb.Filter   { return &pb.Filter{Should: conditions} }
func nested(f *pb.Filter) *pb.Condition              { return pb.NewFilterAsCondition(f) }
func is(field, value string) *pb.Condition           { return pb.NewMatchKeyword(field, value) }
func in(field string, values []string) *pb.Condition { return pb.NewMatchKeywords(field, values...) }

// noPoint matches nothing.
func noPoint() *pb.Filter { return all(pb.NewHasID(pb.NewID(uuid.Nil.String()))) }

// get reads points by id; those that are not there are left out.
func (s *server) get(ctx context.Context, collection string, keys []string, fields ...string) ([]*pb.RetrievedPoint, error) {
	if len(keys) == 0 {
		return nil, ctx.Err()
	}
	return call(ctx, s, func(ctx context.Context) ([]*pb.RetrievedPoint, error) {
		return s.client.Get(ctx, &pb.GetPoints{
			CollectionName: collection, Ids: ids(keys), WithPayload: pb.NewWithPayloadInclude(fields...), ReadConsistency: newest,
		})
	})
}

// find reads at most limit points that match, in the order of their ids after
// the offset. next is nil at the end.
func (s *server) find(ctx context.Context, collection string, f *pb.Filter, limit int, offset *pb.PointId, fields ...string) (found []*pb.RetrievedPoint, next *pb.PointId, err error) {
	found, err = call(ctx, s, func(ctx context.Context) ([]*pb.RetrievedPoint, error) {
		var points []*pb.RetrievedPoint
		var e error
		points, next, e = s.client.ScrollAndOffset(ctx, &pb.ScrollPoints{
			CollectionName: collection, Filter: f, Limit: pb.PtrOf(uint32(limit)), Offset: offset, //nolint:gosec // at most a page
			WithPayload: pb.NewWithPayloadInclude(fields...), ReadConsistency: newest,
		})
		return points, e
	})
	return found, next, err
}

// each reads all the points that match, page by page.
func (s *server) each(ctx context.Context, collection string, f *pb.Filter, page int, fields []string, do func([]*pb.RetrievedPoint) error) error {
	var offset *pb.PointId
	for {
		found, next, err := s.find(ctx, collection, f, page, offset, fields...)
		if err != nil {
			return err
		}
		if err := do(found); err != nil {
			return err
		}
		if next == nil {
			return nil
		}
		offset = next
	}
}
