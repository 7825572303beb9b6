package qdrant

import (
	"context"
	"encoding/json"
	"maps"

	"github.com/google/uuid"
	pb "github.com/qdrant/go-client/qdrant"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/library/quality"
	"github.com/kairos-mcp/kairos/core/protocol"
)

// shownLayout is the version of the points of steps. Points with another layout
// are made again.
const shownLayout = 1

// shownID is the id of the point of a step, by which other programs look it up:
// the step's UUID. The ids of this program's own points have version 5, and a step
// must not replace one of them.
func shownID(step string) string {
	id, err := uuid.Parse(step)
	if err != nil || id == uuid.Nil || id.Version() == 5 {
		return pointID(kindStep, step)
	}
	return id.String()
}

// shown is a chain whose steps are published for other programs. Their points are
// written after the commit and never read here.
type shown struct {
	key      string // of the manifest
	revision int64
	chain    protocol.Chain // without steps: it was deleted
	gone     []string       // steps that it held before
	fresh    bool           // the chain is new
}

// stepPoints writes the points of steps.
type stepPoints struct {
	server  *server
	ratings ratings
}

// ops returns the operations that update the points of the steps, each within the
// size of a request. Late or repeated operations do not affect newer points.
func (sp stepPoints) ops(ctx context.Context, chains []shown) ([]sizedOp, error) {
	ratings, err := sp.ratingsOf(ctx, chains)
	if err != nil {
		return nil, err
	}
	var ops []sizedOp
	for _, c := range chains {
		ops = append(ops, c.without(c.gone)...)
		if !c.fresh {
			ops = append(ops, upserts(c.notNewer(), c.points(ratings))...)
		}
	}
	for space, fresh := range freshBySpace(chains) {
		var points []*pb.PointStruct
		known := all(is(fieldKind, kindStep), is(fieldSpace, space))
		var keys []string
		for _, c := range fresh {
			points, keys = append(points, c.points(ratings)...), append(keys, c.key)
		}
		// Existing points of the same chain can only be newer.
		known.MustNot = []*pb.Condition{in(fieldChainKey, keys)}
		ops = append(ops, upserts(known, points)...)
	}
	return ops, nil
}

func freshBySpace(chains []shown) map[string][]shown {
	out := map[string][]shown{}
	for _, c := range chains {
		if c.fresh {
			out[c.chain.Space] = append(out[c.chain.Space], c)
		}
	}
	return out
}

// without removes the points of steps that an earlier revision has written.
func (c shown) without(steps []string) []sizedOp {
	if len(steps) == 0 {
		return nil
	}
	keys := make([]string, len(steps))
	for i, step := range steps {
		keys[i] = shownID(step)
	}
	before := pb.NewRange(fieldRevision, &pb.Range{Lt: pb.PtrOf(float64(c.revision))})
	return []sizedOp{{remove(all(pb.NewHasID(ids(keys)...), is(fieldKind, kindStep), is(fieldChainKey, c.key), before)), 40 * len(keys)}}
}

// notNewer matches points of steps that this revision may replace: not those of
// another space, which may have a step with the same UUID.
func (c shown) notNewer() *pb.Filter {
	newer := all(is(fieldChainKey, c.key), pb.NewRange(fieldRevision, &pb.Range{Gt: pb.PtrOf(float64(c.revision))}))
	return &pb.Filter{Must: []*pb.Condition{is(fieldKind, kindStep), is(fieldSpace, c.chain.Space)}, MustNot: []*pb.Condition{nested(newer)}}
}

// ratingsOf reads the ratings of the steps, by space and step.
func (sp stepPoints) ratingsOf(ctx context.Context, chains []shown) (map[[2]string]rated, error) {
	steps := map[string][]string{}
	for _, c := range chains {
		for _, step := range c.chain.Steps {
			steps[c.chain.Space] = append(steps[c.chain.Space], step.UUID)
		}
	}
	out := map[[2]string]rated{}
	for space, of := range steps {
		found, err := sp.ratings.of(ctx, space, of)
		if err != nil {
			return nil, err
		}
		for step, r := range found {
			out[[2]string{space, step}] = r
		}
	}
	return out, nil
}

// points have the fields of the points of the earlier server.
func (c shown) points(ratings map[[2]string]rated) []*pb.PointStruct {
	out := make([]*pb.PointStruct, len(c.chain.Steps))
	model, made, updated := text(c.chain.ModelID), text(moment(c.chain.CreatedAt)), text(moment(c.chain.UpdatedAt))
	for i, step := range c.chain.Steps {
		p := payload{
			fieldKind: text(kindStep), fieldSpace: text(c.chain.Space), fieldChainKey: text(c.key), fieldRevision: number(c.revision),
			fieldStep: text(step.UUID), "label": text(step.Label), "tags": texts(step.Tags), "text": text(step.Text),
			"llm_model_id": model, "created_at": made, "updated_at": updated,
			"task": text(quality.Task(step.Text)), "type": text(quality.Type(step.Text)),
			"chain": pb.NewValueFromFields(payload{
				"id": text(c.chain.ID), "label": text(c.chain.Title), "step_index": number(int64(i + 1)), "step_count": number(int64(len(c.chain.Steps))),
			}),
		}
		if challenge := valueOf(step.Challenge); challenge != nil {
			p["proof_of_work"] = challenge
		}
		if r, ok := ratings[[2]string{c.chain.Space, step.UUID}]; ok {
			maps.Copy(p, shownQuality(r.quality, r.count))
		}
		out[i] = &pb.PointStruct{Id: pb.NewID(shownID(step.UUID)), Vectors: noVectors(), Payload: p}
	}
	return out
}

// valueOf converts JSON to a payload value; nil: none.
func valueOf(document json.RawMessage) *pb.Value {
	var v any
	if len(document) == 0 || json.Unmarshal(document, &v) != nil {
		return nil
	}
	value, err := pb.NewValue(v)
	if err != nil {
		return nil
	}
	return value
}

func shownQuality(q api.Quality, count int64) payload {
	return payload{
		fieldRated:         number(count),
		"quality_metadata": pb.NewValueFromFields(payload{"step_quality_score": number(int64(q.Score)), "step_quality": text(q.Tier)}),
		"quality_metrics": pb.NewValueFromFields(payload{
			"retrievalCount": number(q.RetrievalCount), "successCount": number(q.SuccessCount), "partialCount": number(q.PartialCount),
			"failureCount": number(q.FailureCount), "qualityBonus": pb.NewValueDouble(q.QualityBonus), "lastRated": text(moment(q.LastRated)),
			"lastRater": text(q.LastRater), "usageContext": text(q.UsageContext),
		}),
	}
}

// rateOps set the ratings of the points of steps. Steps with equal ratings, such
// as those of a new protocol, share one operation.
func rateOps(space string, ratings []rated) []*pb.PointsUpdateOperation {
	type worth struct {
		quality api.Quality
		count   int64
	}
	equal := map[worth][]string{}
	for _, r := range ratings {
		w := worth{r.quality, r.count}
		equal[w] = append(equal[w], shownID(r.step))
	}
	var ops []*pb.PointsUpdateOperation
	for w, keys := range equal {
		f := all(pb.NewHasID(ids(keys)...), is(fieldKind, kindStep), is(fieldSpace, space))
		f.MustNot = []*pb.Condition{pb.NewRange(fieldRated, &pb.Range{Gte: pb.PtrOf(float64(w.count))})}
		ops = append(ops, setIf(f, shownQuality(w.quality, w.count)))
	}
	return ops
}

// sizedOp is an operation with its approximate size in a request.
type sizedOp struct {
	op   *pb.PointsUpdateOperation
	size int
}

// upserts writes points in as many operations as their size requires.
func upserts(condition *pb.Filter, points []*pb.PointStruct) []sizedOp {
	var ops []sizedOp
	for len(points) > 0 {
		n, size := requestOf(points)
		ops = append(ops, sizedOp{upsertIf(condition, points[:n]...), size})
		points = points[n:]
	}
	return ops
}

// updateSoonSized is updateSoon in as many requests as the sizes require.
func (s *server) updateSoonSized(ctx context.Context, collection string, ops []sizedOp) error {
	for len(ops) > 0 {
		var request []*pb.PointsUpdateOperation
		size := 0
		for len(ops) > 0 && (len(request) == 0 || size+ops[0].size <= bytesWritten) {
			request, size, ops = append(request, ops[0].op), size+ops[0].size, ops[1:]
		}
		if err := s.updateSoon(ctx, collection, request...); err != nil {
			return err
		}
	}
	return nil
}

var shownMarkID = pointID(kindShown)

// shownMark marks that all steps have their points. The intents of interrupted
// saves name the exceptions.
func shownMark() *pb.PointStruct {
	return &pb.PointStruct{Id: pb.NewID(shownMarkID), Vectors: noVectors(), Payload: payload{fieldKind: text(kindShown), "layout": number(shownLayout)}}
}

// showAll writes the points of all steps, unless that was completed before: older
// programs did not write them.
func (sp stepPoints) showAll(ctx context.Context) error {
	marks, err := sp.server.get(ctx, sp.server.names.protocols(), []string{shownMarkID}, "layout")
	if err != nil {
		return err
	}
	if len(marks) == 1 && marks[0].GetPayload()["layout"].GetIntegerValue() >= shownLayout {
		return nil
	}
	fields := append([]string{fieldTitle, fieldToken}, readFields...)
	if err := sp.server.each(ctx, sp.server.names.protocols(), all(is(fieldKind, kindManifest)), rebuildPage, fields, func(points []*pb.RetrievedPoint) error {
		return sp.showPage(ctx, points)
	}); err != nil {
		return err
	}
	return sp.server.update(ctx, sp.server.names.protocols(), upsert(shownMark()))
}

// showPage writes the points of the steps of some chains.
func (sp stepPoints) showPage(ctx context.Context, points []*pb.RetrievedPoint) error {
	var chains []shown
	var keys []string
	for _, p := range points {
		m, err := sp.server.manifestOf(p)
		if err != nil {
			return err
		}
		c, err := sp.server.whole(m)
		if err != nil {
			sp.server.log.WarnContext(ctx, "the steps of a damaged protocol are not published for other programs", "qdrant", sp.server.at.String(), "point", m.key, "error", err)
			continue
		}
		chains, keys = append(chains, shown{key: m.key, revision: m.revision, chain: c}), append(keys, m.key)
	}
	ops, err := sp.ops(ctx, chains)
	if err != nil {
		return err
	}
	if err := sp.server.updateSoonSized(ctx, sp.server.names.protocols(), ops); err != nil {
		return err
	}
	return sp.hideOlder(ctx, keys)
}

// hideOlder removes points of steps that the chains no longer have: a save may
// have come between reading and writing.
func (sp stepPoints) hideOlder(ctx context.Context, keys []string) error {
	points, err := sp.server.get(ctx, sp.server.names.protocols(), keys, fieldRevision, fieldFormer)
	if err != nil {
		return err
	}
	var ops []sizedOp
	for _, p := range points {
		m, err := sp.server.manifestOf(p)
		if err != nil {
			return err
		}
		ops = append(ops, shown{key: m.key, revision: m.revision}.without(m.former)...)
	}
	return sp.server.updateSoonSized(ctx, sp.server.names.protocols(), ops)
}
