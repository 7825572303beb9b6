package qdrant

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"github.com/google/uuid"
	pb "github.com/qdrant/go-client/qdrant"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/library"
)

const (
	// writersKept is how many saves of a rating are recorded, so that a save detects
	// its own success even if others have followed.
	writersKept = 16
	// ratingsRead is how many ratings are read and written at once.
	ratingsRead = 1000
)

func ratingID(space, step string) string { return pointID(kindRating, space, step) }

// rated is the stored rating of a step.
type rated struct {
	step    string
	count   int64 // of the saves
	writers []string
	quality api.Quality
}

// ratings reads and writes the ratings of steps.
type ratings struct{ server *server }

// Rate implements library.Ratings.
func (s *Store) Rate(ctx context.Context, space string, ratings []library.Rating) error {
	byStep := map[string][]library.Rating{}
	for _, r := range ratings {
		if !slices.Contains(outcomes, r.Outcome) {
			return fault.New(fault.InvalidArgument, "a rating with outcome %q", r.Outcome)
		}
		byStep[r.Step] = append(byStep[r.Step], r)
	}
	if len(ratings) == 0 {
		return ctx.Err()
	}
	if err := s.schema.prepare(ctx); err != nil {
		return err
	}
	if err := s.ratings.dropUnknown(ctx, space, byStep); err != nil {
		return err
	}
	for part := range slices.Chunk(slices.Sorted(maps.Keys(byStep)), ratingsRead) {
		if err := s.ratings.add(ctx, space, part, byStep); err != nil {
			return err
		}
	}
	return nil
}

var outcomes = []library.Outcome{
	library.OutcomeStored, library.OutcomeRetrieved, library.OutcomeSuccess, library.OutcomePartial, library.OutcomeFailure,
}

// dropUnknown removes steps that no chain of the space has.
func (rs ratings) dropUnknown(ctx context.Context, space string, byStep map[string][]library.Rating) error {
	known := map[string]bool{}
	for part := range slices.Chunk(slices.Sorted(maps.Keys(byStep)), stepsAsked) {
		f := all(is(fieldKind, kindManifest), is(fieldSpace, space), in(fieldSteps, part))
		if err := rs.server.each(ctx, rs.server.names.protocols(), f, titlesPage, []string{fieldSteps}, func(points []*pb.RetrievedPoint) error {
			for _, p := range points {
				for _, step := range textsOf(p.GetPayload()[fieldSteps]) {
					known[step] = true
				}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	maps.DeleteFunc(byStep, func(step string, _ []library.Rating) bool { return !known[step] })
	return nil
}

// add adds ratings, and retries the steps where another save interfered.
func (rs ratings) add(ctx context.Context, space string, steps []string, byStep map[string][]library.Rating) error {
	token := uuid.NewString()
	for {
		before, err := rs.of(ctx, space, steps)
		if err != nil {
			return err
		}
		steps = slices.DeleteFunc(slices.Clone(steps), func(step string) bool { return slices.Contains(before[step].writers, token) })
		if len(steps) == 0 {
			return nil
		}
		points := make([]*pb.PointStruct, len(steps))
		unchanged, added := make([]*pb.Condition, len(steps)), make([]rated, len(steps))
		for i, step := range steps {
			r := before[step]
			id := pb.NewID(ratingID(space, step))
			// A point that was created since the read has a count, so -1 matches none.
			count := r.count
			if count == 0 {
				count = -1
			}
			unchanged[i] = nested(all(pb.NewHasID(id), pb.NewMatchInt(fieldCount, count)))
			r.step = step
			r.add(byStep[step], token)
			if points[i], err = r.point(space); err != nil {
				return err
			}
			added[i] = r
		}
		// If another save was first, the points of the steps are wrong until the next
		// attempt.
		ops := append([]*pb.PointsUpdateOperation{upsertIf(anyOf(unchanged...), points...)}, rateOps(space, added)...)
		if err := rs.server.update(ctx, rs.server.names.protocols(), ops...); err != nil {
			return err
		}
	}
}

func (r *rated) add(ratings []library.Rating, token string) {
	q := &r.quality
	for _, a := range ratings {
		times := max(1, a.Times)
		switch a.Outcome {
		case library.OutcomeRetrieved:
			q.RetrievalCount += times
		case library.OutcomeSuccess:
			q.SuccessCount += times
		case library.OutcomePartial:
			q.PartialCount += times
		case library.OutcomeFailure:
			q.FailureCount += times
		case library.OutcomeStored:
		}
		q.QualityBonus += a.Bonus
		if a.Tier != "" {
			q.Score, q.Tier = a.Score, a.Tier
		}
		if a.Rater != "" {
			q.LastRater, q.UsageContext, q.LastRated = a.Rater, a.Context, a.At.UTC()
		}
	}
	r.count++
	r.writers = append([]string{token}, r.writers...)
	r.writers = r.writers[:min(len(r.writers), writersKept)]
}

func (r *rated) point(space string) (*pb.PointStruct, error) {
	quality, err := encode(r.quality)
	if err != nil {
		return nil, err
	}
	return &pb.PointStruct{Id: pb.NewID(ratingID(space, r.step)), Vectors: noVectors(), Payload: payload{
		fieldKind: text(kindRating), fieldSpace: text(space), fieldStep: text(r.step), fieldCount: number(r.count),
		fieldWriters: texts(r.writers), fieldQuality: text(quality),
	}}, nil
}

// of reads ratings by step; steps without one are left out.
func (rs ratings) of(ctx context.Context, space string, steps []string) (map[string]rated, error) {
	out := make(map[string]rated, len(steps))
	for part := range slices.Chunk(steps, ratingsRead) {
		keys := make([]string, len(part))
		for i, step := range part {
			keys[i] = ratingID(space, step)
		}
		points, err := rs.server.get(ctx, rs.server.names.protocols(), keys, fieldStep, fieldCount, fieldWriters, fieldQuality)
		if err != nil {
			return nil, err
		}
		for _, p := range points {
			v := p.GetPayload()
			r := rated{step: v[fieldStep].GetStringValue(), count: v[fieldCount].GetIntegerValue(), writers: textsOf(v[fieldWriters])}
			if err := json.Unmarshal([]byte(v[fieldQuality].GetStringValue()), &r.quality); err != nil {
				return nil, rs.server.damaged(p.GetId().GetUuid(), err)
			}
			out[r.step] = r
		}
	}
	return out, nil
}

// Quality implements library.Ratings.
func (s *Store) Quality(ctx context.Context, space string, stepUUIDs []string) (map[string]api.Quality, error) {
	if len(stepUUIDs) == 0 {
		return map[string]api.Quality{}, ctx.Err()
	}
	if err := s.schema.prepare(ctx); err != nil {
		return nil, err
	}
	found, err := s.ratings.of(ctx, space, stepUUIDs)
	if err != nil {
		return nil, err
	}
	out := make(map[string]api.Quality, len(found))
	for step, r := range found {
		out[step] = r.quality
	}
	return out, nil
}
