package former

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	pb "github.com/qdrant/go-client/qdrant"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/store/qdrant/client"
)

// readEarlier reads what the earlier server has stored, a point for each step, by
// space and title.
func readEarlier(ctx context.Context, c *client.Client, report *Report, each func(Protocol) error) error {
	r := earlierReading{report: report, chains: map[chainKey][]earlierStep{}}
	err := c.Each(ctx, report.Collection, nil, pb.NewWithPayload(true), func(p *pb.RetrievedPoint) error {
		r.take(p)
		return nil
	})
	if err != nil {
		return err
	}
	for _, p := range r.assembled() {
		report.Protocols++
		if err := each(p); err != nil {
			return err
		}
	}
	return nil
}

// chainKey identifies the chain of a point.
type chainKey struct{ space, chain string }

// earlierStep is one point of the earlier server.
type earlierStep struct {
	point        string
	step         protocol.Step
	title        string
	index, count int64
	model        string
	made         time.Time
	updated      time.Time
	quality      api.Quality // zero: not rated
}

type earlierReading struct {
	report *Report
	chains map[chainKey][]earlierStep
}

// stepID is the form of a memory UUID.
var stepID = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)

// take reads one point.
func (r *earlierReading) take(p *pb.RetrievedPoint) {
	r.report.Points++
	v := p.GetPayload()
	id := keyOf(p.GetId())
	label, body := v["label"].GetStringValue(), v["text"].GetStringValue()
	if strings.TrimSpace(body) == "" {
		r.report.problem(id, "it has no text")
		return
	}
	s := earlierStep{
		point: id, title: label, index: 1, count: 1, model: v["llm_model_id"].GetStringValue(),
		step: protocol.Step{
			UUID: strings.ToLower(cmp.Or(v["memory_uuid"].GetStringValue(), id)), Label: cmp.Or(strings.TrimSpace(label), "Memory"),
			Text: body, Tags: client.Texts(v["tags"]),
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
	key := chainKey{space: v["space_id"].GetStringValue(), chain: id}
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

func (r *earlierReading) time(id, field string, v *pb.Value) time.Time {
	if v.GetStringValue() == "" {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339Nano, v.GetStringValue())
	if err != nil {
		r.report.problem(id, "%s %q is not a time; it is left out", field, v.GetStringValue())
	}
	return t.UTC()
}

// quality decodes the ratings of a step.
func (r *earlierReading) quality(id string, v map[string]*pb.Value) api.Quality {
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
func (r *earlierReading) challenge(id string, v map[string]*pb.Value) json.RawMessage {
	for _, field := range challengeFields {
		if v[field].GetStructValue() == nil {
			continue
		}
		document, err := json.Marshal(client.Plain(v[field]))
		if err != nil {
			r.report.problem(id, "its challenge cannot be read: %v; the step is read without one", err)
			return nil
		}
		return document
	}
	return nil
}

// assembled sorts the steps of each chain.
func (r *earlierReading) assembled() []Protocol {
	var chains []Protocol
	seen := map[string]bool{}
	// Use a fixed order: of two chains with the same UUID always the same one keeps
	// it, so repeated readings give the same protocols.
	keys := slices.SortedFunc(maps.Keys(r.chains), func(a, b chainKey) int {
		return cmp.Or(cmp.Compare(a.space, b.space), cmp.Compare(a.chain, b.chain))
	})
	for _, key := range keys {
		steps := r.chains[key]
		slices.SortFunc(steps, func(a, b earlierStep) int {
			return cmp.Or(cmp.Compare(a.index, b.index), a.made.Compare(b.made), cmp.Compare(a.point, b.point))
		})
		chains = append(chains, r.assemble(key, steps, seen))
	}
	slices.SortFunc(chains, func(x, y Protocol) int {
		a, b := x.Chain, y.Chain
		return cmp.Or(cmp.Compare(a.Space, b.Space), cmp.Compare(a.Title, b.Title), cmp.Compare(a.Steps[0].UUID, b.Steps[0].UUID))
	})
	return chains
}

func (r *earlierReading) assemble(key chainKey, steps []earlierStep, seen map[string]bool) Protocol {
	first := steps[0]
	c := protocol.Chain{
		ID: protocol.ChainID(first.title), Space: key.space, Title: first.title, ModelID: first.model, CreatedAt: first.made, UpdatedAt: first.updated,
	}
	quality := map[string]api.Quality{}
	for i, s := range steps {
		if s.index != int64(i+1) || s.count != int64(len(steps)) {
			r.report.problem(s.point, "protocol %q: step %d of %d, found as %d of %d", c.Title, s.index, s.count, i+1, len(steps))
		}
		if id := key.space + "\n" + s.step.UUID; seen[id] {
			s.step.UUID = uuid.NewSHA1(pointSpace, []byte(s.point)).String()
			r.report.problem(s.point, "protocol %q: another point has the UUID of step %d; it gets a new one", c.Title, i+1)
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
	return Protocol{Chain: c, Quality: quality}
}
