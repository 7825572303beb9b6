package qdrant

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/google/uuid"
	pb "github.com/qdrant/go-client/qdrant"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/index"
	"github.com/kairos-mcp/kairos/core/protocol"
)

// vectorName is the vector of a step: the embedding of its passage.
const vectorName = "dense"

// Payload fields that this program reads itself. The others are for programs that
// look into Qdrant, by the names of the earlier server.
const (
	fieldStep     = "memory_uuid"
	fieldSpace    = "space_id"
	fieldChainKey = "chain_key" // see chainKey
	fieldRevision = "revision"  // of the entry that wrote the point
	fieldPassage  = "passage"   // hash
	fieldChain    = "chain"
	chainID       = "id" // in fieldChain
)

// indexedFields are the fields that filters use.
var indexedFields = map[string]pb.FieldType{
	fieldStep: pb.FieldType_FieldTypeKeyword, fieldSpace: pb.FieldType_FieldTypeKeyword, fieldChainKey: pb.FieldType_FieldTypeKeyword,
	fieldRevision: pb.FieldType_FieldTypeInteger,
}

// derived is the namespace of ids that are not the UUID of a step.
var derived = uuid.MustParse("5a3f4a55-1c62-4f0e-9d5b-3c0a7f1f6b2e")

func derivedID(parts ...string) string {
	return uuid.NewSHA1(derived, []byte(strings.Join(parts, "\n"))).String()
}

// chainKey identifies a protocol in all spaces.
func chainKey(e index.Entry) string { return derivedID("chain", e.Space, e.ChainID) }

// pointID is the id of a step: its UUID, by which other programs look it up.
func pointID(space, step string) string {
	id, err := uuid.Parse(step)
	if err != nil || id == uuid.Nil {
		return secondID(space, step)
	}
	return id.String()
}

// secondID is the id of a step whose UUID a step of another space had first.
func secondID(space, step string) string { return derivedID("step", space, step) }

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

// pointsOf are the points of a document, one for each step.
func pointsOf(d index.Document) []*pb.PointStruct {
	out := make([]*pb.PointStruct, len(d.Chain.Steps))
	for i, step := range d.Chain.Steps {
		hash := protocol.PassageHash(d.Chain.Passage(i))
		vectors := map[string]*pb.Vector{}
		if v := d.Vectors[hash]; len(v) > 0 {
			vectors[vectorName] = pb.NewVectorDense(v)
		}
		p := payloadOf(d, i)
		p[fieldPassage], p[fieldRevision] = text(hash), number(d.Revision)
		out[i] = &pb.PointStruct{Id: pb.NewID(pointID(d.Space, step.UUID)), Vectors: pb.NewVectorsMap(vectors), Payload: p}
	}
	return out
}

// payloadOf has the fields that the earlier server had for a step.
func payloadOf(d index.Document, i int) payload {
	c, step := d.Chain, d.Chain.Steps[i]
	p := payload{
		"kind": text("step"), fieldSpace: text(d.Space), fieldChainKey: text(chainKey(d.Entry)),
		fieldStep: text(step.UUID), "label": text(step.Label), "tags": texts(step.Tags), "text": text(step.Text),
		"llm_model_id": text(c.ModelID), "created_at": text(moment(c.CreatedAt)), "updated_at": text(moment(c.UpdatedAt)),
		fieldChain: pb.NewValueFromFields(payload{
			chainID: text(c.ID), "label": text(c.Title), "step_index": number(int64(i + 1)), "step_count": number(int64(len(c.Steps))),
		}),
	}
	if challenge := valueOf(step.Challenge); challenge != nil {
		p["proof_of_work"] = challenge
	}
	if q, ok := d.Quality[step.UUID]; ok {
		addQuality(p, q)
	}
	return p
}

// valueOf converts JSON to a payload value, or nil.
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

func addQuality(p payload, q api.Quality) {
	p["quality_metadata"] = pb.NewValueFromFields(payload{"step_quality_score": number(int64(q.Score)), "step_quality": text(q.Tier)})
	metrics := payload{
		"retrievalCount": number(q.RetrievalCount), "successCount": number(q.SuccessCount), "partialCount": number(q.PartialCount),
		"failureCount": number(q.FailureCount), "qualityBonus": pb.NewValueDouble(q.QualityBonus),
		"lastRater": text(q.LastRater), "usageContext": text(q.UsageContext),
	}
	if !q.LastRated.IsZero() {
		metrics["lastRated"] = text(moment(q.LastRated))
	}
	p["quality_metrics"] = pb.NewValueFromFields(metrics)
}
