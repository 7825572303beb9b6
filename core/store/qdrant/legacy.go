package qdrant

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	pb "github.com/qdrant/go-client/qdrant"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/protocol"
)

// legacyCollections are the collection names of the earlier server.
var legacyCollections = []string{"kairos", "kb_resources"}

// LegacyOptions locate the collection of the earlier KAIROS server.
type LegacyOptions struct {
	Options
	// Collection; empty: the first of those that the earlier server used.
	Collection string
}

// LegacyReport summarises a reading.
type LegacyReport struct {
	Collection string
	Points     int
	Protocols  int
	// Problems lists points and chains that were left out or are incomplete.
	Problems []LegacyProblem
}

// LegacyProtocol is a protocol of the earlier server.
type LegacyProtocol struct {
	Chain   protocol.Chain
	Quality map[string]api.Quality // by step UUID, of the steps that were rated
}

// LegacyProblem is a problem with a point or chain.
type LegacyProblem struct {
	Point   string // id
	Problem string
}

// ReadLegacy reads the protocols of a collection of the earlier server, and calls
// each for every one, by space and title; its error ends the reading. It changes
// nothing. Broken points are reported and left out.
func ReadLegacy(ctx context.Context, o LegacyOptions, each func(LegacyProtocol) error) (report LegacyReport, err error) {
	s, err := Open(o.Options, slog.New(slog.DiscardHandler))
	if err != nil {
		return report, err
	}
	defer func() { _ = s.Close() }() // nothing was written
	if report.Collection, err = s.server.legacyCollection(ctx, o.Collection); err != nil {
		return report, err
	}
	r := legacyReading{report: &report, chains: map[legacyKey][]legacyStep{}}
	var offset *pb.PointId
	for {
		points, next, err := s.server.legacyPage(ctx, report.Collection, offset)
		if err != nil {
			return report, err
		}
		for _, p := range points {
			r.take(p)
		}
		if next == nil {
			break
		}
		offset = next
	}
	for _, c := range r.assembled() {
		report.Protocols++
		if err := each(c); err != nil {
			return report, err
		}
	}
	return report, nil
}

// legacyCollection finds the collection, or the alias, to read.
func (s *server) legacyCollection(ctx context.Context, name string) (string, error) {
	names := legacyCollections
	if name != "" {
		names = []string{name}
	}
	for _, n := range names {
		there, err := call(ctx, s, func(ctx context.Context) (bool, error) { return s.client.CollectionExists(ctx, n) })
		if err != nil {
			return "", err
		}
		if there {
			return n, nil
		}
	}
	return "", fault.New(fault.NotFound, "Qdrant at %s has no collection %s", s.at, strings.Join(names, " or ")).
		WithRemedy("name the collection of the earlier server with --collection")
}

func (s *server) legacyPage(ctx context.Context, collection string, offset *pb.PointId) ([]*pb.RetrievedPoint, *pb.PointId, error) {
	var next *pb.PointId
	points, err := call(ctx, s, func(ctx context.Context) ([]*pb.RetrievedPoint, error) {
		var points []*pb.RetrievedPoint
		var err error
		points, next, err = s.client.ScrollAndOffset(ctx, &pb.ScrollPoints{
			CollectionName: collection, Limit: pb.PtrOf(uint32(vectorsRead)), Offset: offset,
			WithPayload: pb.NewWithPayload(true), WithVectors: pb.NewWithVectors(false),
		})
		return points, err
	})
	return points, next, err
}

// legacyKey identifies the chain of a point.
type legacyKey struct{ space, chain string }

// legacyStep is one point of the earlier server.
type legacyStep struct {
	point        string
	step         protocol.Step
	title        string
	index, count int64
	model        string
	made         time.Time
	updated      time.Time
	quality      api.Quality // zero: not rated
}

type legacyReading struct {
	report *LegacyReport
	chains map[legacyKey][]legacyStep
}

func (r *legacyReading) problem(point, format string, args ...any) {
	r.report.Problems = append(r.report.Problems, LegacyProblem{point, fmt.Sprintf(format, args...)})
}

// stepID is the form of a memory UUID.
var stepID = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)

// take reads one point.
func (r *legacyReading) take(p *pb.RetrievedPoint) {
	r.report.Points++
	v := p.GetPayload()
	id := p.GetId().GetUuid()
	if id == "" {
		id = fmt.Sprint(p.GetId().GetNum())
	}
	if kind := v[fieldKind].GetStringValue(); kind != "" {
		r.problem(id, "it is a point of this program (%s), not of the earlier server; use kairos export", kind)
		return
	}
	label, body := v["label"].GetStringValue(), v["text"].GetStringValue()
	if strings.TrimSpace(body) == "" {
		r.problem(id, "it has no text")
		return
	}
	s := legacyStep{
		point: id, title: label, index: 1, count: 1, model: v["llm_model_id"].GetStringValue(),
		step: protocol.Step{
			UUID: strings.ToLower(cmp.Or(v[fieldStep].GetStringValue(), id)), Label: cmp.Or(strings.TrimSpace(label), "Memory"),
			Text: body, Tags: textsOf(v["tags"]),
		},
	}
	if !stepID.MatchString(s.step.UUID) {
		s.step.UUID = uuid.NewSHA1(pointSpace, []byte(id)).String()
	}
	s.made = r.time(id, "created_at", v["created_at"])
	if s.updated = r.time(id, "updated_at", v["updated_at"]); s.updated.IsZero() {
		s.updated = s.made
	}
	s.step.Challenge = r.challenge(id, v)
	s.quality = r.quality(id, v)
	key := legacyKey{space: v[fieldSpace].GetStringValue(), chain: id}
	if c := v["chain"].GetStructValue().GetFields(); c != nil {
		s.title = cmp.Or(strings.TrimSpace(c["label"].GetStringValue()), s.step.Label)
		s.index, s.count = integer(c["step_index"]), integer(c["step_count"])
		key.chain = cmp.Or(c["id"].GetStringValue(), "title "+s.title)
	}
	r.chains[key] = append(r.chains[key], s)
}

// integer decodes a number that JSON may have turned into a float.
func integer(v *pb.Value) int64 {
	if f, ok := v.GetKind().(*pb.Value_DoubleValue); ok {
		return int64(f.DoubleValue)
	}
	return v.GetIntegerValue()
}

func (r *legacyReading) time(id, field string, v *pb.Value) time.Time {
	if v.GetStringValue() == "" {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339Nano, v.GetStringValue())
	if err != nil {
		r.problem(id, "%s %q is not a time; it is left out", field, v.GetStringValue())
	}
	return t.UTC()
}

// quality decodes the ratings of a step.
func (r *legacyReading) quality(id string, v payload) api.Quality {
	grade, sums := v["quality_metadata"].GetStructValue().GetFields(), v["quality_metrics"].GetStructValue().GetFields()
	return api.Quality{
		Score: int(integer(grade["step_quality_score"])), Tier: grade["step_quality"].GetStringValue(),
		RetrievalCount: integer(sums["retrievalCount"]), SuccessCount: integer(sums["successCount"]),
		PartialCount: integer(sums["partialCount"]), FailureCount: integer(sums["failureCount"]),
		QualityBonus: decimal(sums["qualityBonus"]), LastRated: r.time(id, "lastRated", sums["lastRated"]),
		LastRater: sums["lastRater"].GetStringValue(), UsageContext: sums["usageContext"].GetStringValue(),
	}
}

// decimal decodes a number that JSON may have turned into an integer.
func decimal(v *pb.Value) float64 {
	if _, ok := v.GetKind().(*pb.Value_IntegerValue); ok {
		return float64(v.GetIntegerValue())
	}
	return v.GetDoubleValue()
}

// challengeFields are the fields for the challenge of a step in the versions of
// the earlier server.
var challengeFields = []string{"proof_of_work", "challenge"}

// challenge returns the stored challenge of the step. The oldest form, a command
// without a type, is still supported.
func (r *legacyReading) challenge(id string, v payload) json.RawMessage {
	for _, field := range challengeFields {
		if v[field].GetStructValue() == nil {
			continue
		}
		document, err := encode(plain(v[field]))
		if err != nil {
			r.problem(id, "its challenge cannot be read: %v; the step is read without one", err)
			return nil
		}
		return json.RawMessage(document)
	}
	return nil
}

// plain converts a payload value to JSON values.
func plain(v *pb.Value) any {
	switch k := v.GetKind().(type) {
	case *pb.Value_StructValue:
		out := map[string]any{}
		for name, field := range k.StructValue.GetFields() {
			out[name] = plain(field)
		}
		return out
	case *pb.Value_ListValue:
		out := []any{}
		for _, item := range k.ListValue.GetValues() {
			out = append(out, plain(item))
		}
		return out
	case *pb.Value_StringValue:
		return k.StringValue
	case *pb.Value_BoolValue:
		return k.BoolValue
	case *pb.Value_IntegerValue:
		return k.IntegerValue
	case *pb.Value_DoubleValue:
		return k.DoubleValue
	}
	return nil
}

// assembled sorts the steps of each chain.
func (r *legacyReading) assembled() []LegacyProtocol {
	var chains []LegacyProtocol
	seen := map[string]bool{}
	// Use a fixed order: of two chains with the same UUID always the same one keeps
	// it, so repeated readings give the same protocols.
	keys := slices.SortedFunc(maps.Keys(r.chains), func(a, b legacyKey) int {
		return cmp.Or(cmp.Compare(a.space, b.space), cmp.Compare(a.chain, b.chain))
	})
	for _, key := range keys {
		steps := r.chains[key]
		slices.SortFunc(steps, func(a, b legacyStep) int {
			return cmp.Or(cmp.Compare(a.index, b.index), a.made.Compare(b.made), cmp.Compare(a.point, b.point))
		})
		chains = append(chains, r.assemble(key, steps, seen))
	}
	slices.SortFunc(chains, func(x, y LegacyProtocol) int {
		a, b := x.Chain, y.Chain
		return cmp.Or(cmp.Compare(a.Space, b.Space), cmp.Compare(a.Title, b.Title), cmp.Compare(a.Steps[0].UUID, b.Steps[0].UUID))
	})
	return chains
}

func (r *legacyReading) assemble(key legacyKey, steps []legacyStep, seen map[string]bool) LegacyProtocol {
	first := steps[0]
	c := protocol.Chain{
		ID: protocol.ChainID(first.title), Space: key.space, Title: first.title, ModelID: first.model, CreatedAt: first.made, UpdatedAt: first.updated,
	}
	quality := map[string]api.Quality{}
	for i, s := range steps {
		if s.index != int64(i+1) || s.count != int64(len(steps)) {
			r.problem(s.point, "protocol %q: step %d of %d, found as %d of %d", c.Title, s.index, s.count, i+1, len(steps))
		}
		if id := key.space + "\n" + s.step.UUID; seen[id] {
			s.step.UUID = uuid.NewSHA1(pointSpace, []byte(s.point)).String()
			r.problem(s.point, "protocol %q: another point has the UUID of step %d; it gets a new one", c.Title, i+1)
		}
		seen[key.space+"\n"+s.step.UUID] = true
		if c.CreatedAt.IsZero() || !s.made.IsZero() && s.made.Before(c.CreatedAt) {
			c.CreatedAt = s.made
		}
		if s.updated.After(c.UpdatedAt) {
			c.UpdatedAt = s.updated
		}
		if s.quality != (api.Quality{}) {
			quality[s.step.UUID] = s.quality
		}
		c.Steps = append(c.Steps, s.step)
	}
	return LegacyProtocol{Chain: c, Quality: quality}
}
