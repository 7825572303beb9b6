package qdrant_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	pb "github.com/qdrant/go-client/qdrant"

	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/store/qdrant"
	"github.com/kairos-mcp/kairos/core/store/qdrant/qdranttest"
	"github.com/kairos-mcp/kairos/core/store/storetest"
)

// other is a program that knows nothing of this one but where the earlier
// server kept its steps: in the named collection, under the step's UUID.
type other struct {
	client     *pb.Client
	collection string
}

// step is the payload of a step as JSON values; nil: there is none.
func (o other) step(t *testing.T, id string) map[string]any {
	t.Helper()
	found, err := o.client.Get(t.Context(), &pb.GetPoints{CollectionName: o.collection, Ids: []*pb.PointId{pb.NewID(id)}, WithPayload: pb.NewWithPayload(true)})
	if err != nil {
		t.Fatalf("Get(%s) = %v, want nil", id, err)
	}
	if len(found) == 0 {
		return nil
	}
	out := map[string]any{}
	for name, v := range found[0].GetPayload() {
		out[name] = qdrant.Plain(v)
	}
	return out
}

// eventually waits until nothing is wrong: the points of steps follow a save.
func eventually(t *testing.T, wrong func() string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		says := wrong()
		if says == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(says)
		}
	}
}

// wantSteps waits until each step of the chain is as it should be, and none of
// the gone ones is there.
func (o other) wantSteps(t *testing.T, c protocol.Chain, gone ...string) {
	t.Helper()
	eventually(t, func() string {
		for i, step := range c.Steps {
			got := o.step(t, step.UUID)
			if got == nil {
				return "step " + step.Label + " has no point"
			}
			want := map[string]any{
				"memory_uuid": step.UUID, "label": step.Label, "text": step.Text, "llm_model_id": c.ModelID, "space_id": c.Space,
				"created_at": c.CreatedAt.UTC().Format(time.RFC3339Nano), "updated_at": c.UpdatedAt.UTC().Format(time.RFC3339Nano),
				"chain": map[string]any{"id": c.ID, "label": c.Title, "step_index": int64(i + 1), "step_count": int64(len(c.Steps))},
			}
			for name, v := range want {
				if diff := cmp.Diff(v, got[name]); diff != "" {
					return fmt.Sprintf("step %s, %s (-want +got):\n%s", step.Label, name, diff)
				}
			}
			if tags, ok := got["tags"].([]any); !ok || len(tags) != len(step.Tags) {
				return fmt.Sprintf("step %s has tags %v, want %v", step.Label, got["tags"], step.Tags)
			}
			if got["task"] == "" || got["type"] == "" || got["task"] == nil || got["type"] == nil {
				return fmt.Sprintf("step %s has task %v and type %v, want both", step.Label, got["task"], got["type"])
			}
			if _, has := got["proof_of_work"].(map[string]any); has != (len(step.Challenge) > 0) {
				return fmt.Sprintf("step %s has challenge %v, want %s", step.Label, got["proof_of_work"], step.Challenge)
			}
		}
		for _, id := range gone {
			if got := o.step(t, id); got != nil {
				return fmt.Sprintf("removed step %s has a point still: %v", id, got)
			}
		}
		return ""
	})
}

func (o other) wantQuality(t *testing.T, id string, score int64, tier string, successes int64) {
	t.Helper()
	want := map[string]any{"step_quality_score": score, "step_quality": tier}
	eventually(t, func() string {
		got := o.step(t, id)
		metrics, _ := got["quality_metrics"].(map[string]any)
		if diff := cmp.Diff(want, got["quality_metadata"]); diff != "" || metrics["successCount"] != successes {
			return fmt.Sprintf("step %s shows %v and %v, want %v and %d successes", id, got["quality_metadata"], metrics, want, successes)
		}
		return ""
	})
}

// random gives a chain the step UUIDs that the engine gives.
func random(c protocol.Chain) protocol.Chain {
	for i := range c.Steps {
		c.Steps[i].UUID = uuid.NewString()
	}
	return c
}

func change(t *testing.T, s *qdrant.Store, c protocol.Chain, replaces int64) {
	t.Helper()
	if _, err := s.SaveChains(t.Context(), []library.Change{{Chain: c, Replaces: replaces}}); err != nil {
		t.Fatalf("SaveChains(%s) = %v, want nil", c.Title, err)
	}
}

// A program that looks into Qdrant itself, as the earlier server's clients do,
// finds a point for each step whatever is done to its protocol.
func TestOtherProgramsFindTheStepsInQdrant(t *testing.T) {
	address := qdranttest.Start(t)
	name := collection(t, address)
	s := open(t, qdrant.Options{URL: address, Collection: name})
	look := other{dialed(t, address), name}

	first := random(storetest.NewChain(space, "Walrus care", "Feed", "Wash", "Dry"))
	pair := random(storetest.NewChain(space, "Otter care", "Feed"))
	first.Steps[0].Challenge = json.RawMessage(`{"type":"shell","shell":{"cmd":"make feed","timeout_seconds":30}}`)
	first.Steps[1].Challenge = nil
	save(t, s, first, pair)
	look.wantSteps(t, first)
	look.wantSteps(t, pair)

	rate := func(step string, score int, tier string) {
		t.Helper()
		if err := s.Rate(t.Context(), space, []library.Rating{{Step: step, Outcome: library.OutcomeSuccess, Score: score, Tier: tier, Rater: "r"}}); err != nil {
			t.Fatalf("Rate = %v, want nil", err)
		}
	}
	rate(first.Steps[0].UUID, 6, "excellent")
	look.wantQuality(t, first.Steps[0].UUID, 6, "excellent", 1)

	// Minted again: one step keeps its identity and what it has earned.
	second := random(storetest.NewChain(space, "Walrus care", "Feed well", "Comb"))
	second.Steps[0].UUID = first.Steps[0].UUID
	second.UpdatedAt = second.UpdatedAt.Add(time.Hour)
	change(t, s, second, 1)
	look.wantSteps(t, second, first.Steps[1].UUID, first.Steps[2].UUID)
	look.wantQuality(t, first.Steps[0].UUID, 6, "excellent", 1)
	rate(first.Steps[0].UUID, 1, "basic")
	look.wantQuality(t, first.Steps[0].UUID, 1, "basic", 2)

	if err := s.DeleteChain(t.Context(), space, second.ID, 2); err != nil {
		t.Fatalf("DeleteChain = %v, want nil", err)
	}
	look.wantSteps(t, pair, first.Steps[0].UUID, second.Steps[1].UUID)
	change(t, s, first, 0) // restored
	look.wantSteps(t, first, second.Steps[1].UUID)
	look.wantQuality(t, first.Steps[0].UUID, 1, "basic", 2)
}

// The points for other programs are nothing to this one: they are not listed,
// counted or found, and no UUID of a step takes the place of a protocol.
func TestPointsOfStepsAreNothingToTheStoreItself(t *testing.T) {
	address := qdranttest.Start(t)
	name := collection(t, address)
	s := open(t, qdrant.Options{URL: address, Collection: name})
	look := other{dialed(t, address), name}
	c := random(storetest.NewChain(space, "Walrus care", "Feed", "Wash"))
	save(t, s, c)
	look.wantSteps(t, c)
	if n, err := s.Count(t.Context(), space); err != nil || n != 1 {
		t.Errorf("Count = %d, %v, want 1", n, err)
	}
	if chains, _, err := s.List(t.Context(), space, "", 10); err != nil || len(chains) != 1 {
		t.Errorf("List = %d chains, %v, want 1", len(chains), err)
	}
	// A leftover point does not find a step that no chain has any more.
	stray := uuid.NewString()
	if _, err := look.client.Upsert(t.Context(), &pb.UpsertPoints{CollectionName: name, Wait: pb.PtrOf(true), Points: []*pb.PointStruct{{
		Id: pb.NewID(stray), Vectors: pb.NewVectorsMap(map[string]*pb.Vector{}), Payload: pb.NewValueMap(map[string]any{
			"kind": "step", "space_id": space, "memory_uuid": stray, "label": "Stray", "text": "## Stray",
		}),
	}}}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.StepChain(t.Context(), []string{space}, stray); err == nil {
		t.Error("StepChain(a point without a protocol) = nil, want an error")
	}

	var manifest string
	for _, p := range points(t, look.client, name) {
		if p.GetPayload()["kind"].GetStringValue() == "manifest" {
			manifest = p.GetId().GetUuid()
		}
	}
	greedy := random(storetest.NewChain("user:test:theirs", "Greedy", "One", "Two"))
	greedy.Steps[0].UUID, greedy.Steps[1].UUID = manifest, c.Steps[0].UUID
	save(t, s, greedy)
	change(t, s, c, 1)
	if got, err := s.Chain(t.Context(), []string{space}, c.ID); err != nil || got.Revision != 2 {
		t.Errorf("Chain after another's step took its id = revision %d, %v, want 2", got.Revision, err)
	}
	look.wantSteps(t, c) // the space that had the UUID first keeps its point
}

// Steps of protocols that an earlier program has stored get their points when
// the store is first used.
func TestStepsWithoutPointsGetThem(t *testing.T) {
	address := qdranttest.Start(t)
	name := collection(t, address)
	look := other{dialed(t, address), name}
	c := random(storetest.NewChain(space, "Walrus care", "Feed", "Wash"))
	before := open(t, qdrant.Options{URL: address, Collection: name})
	save(t, before, c)
	look.wantSteps(t, c)
	if err := before.Rate(t.Context(), space, []library.Rating{{Step: c.Steps[1].UUID, Outcome: library.OutcomeSuccess, Score: 3, Tier: "high", Rater: "r"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := look.client.Delete(t.Context(), &pb.DeletePoints{
		CollectionName: name, Wait: pb.PtrOf(true), Points: pb.NewPointsSelectorFilter(&pb.Filter{
			Must: []*pb.Condition{pb.NewMatchKeywords("kind", "step", "shown")},
		}),
	}); err != nil {
		t.Fatal(err)
	}
	if n, err := open(t, qdrant.Options{URL: address, Collection: name}).Count(t.Context(), space); err != nil || n != 1 {
		t.Fatalf("Count = %d, %v, want 1", n, err)
	}
	look.wantSteps(t, c)
	look.wantQuality(t, c.Steps[1].UUID, 3, "high", 1)
}
