package qdrant_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	pb "github.com/qdrant/go-client/qdrant"

	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/store/qdrant/client"
	"github.com/kairos-mcp/kairos/core/store/qdrant/qdranttest"
)

// step is the payload of a step as JSON values, as a program finds it that knows
// the collection and the UUID; nil: there is none.
func (f *fed) step(id string) map[string]any {
	f.t.Helper()
	found, err := f.raw.Get(f.t.Context(), &pb.GetPoints{CollectionName: f.collection, Ids: []*pb.PointId{pb.NewID(id)}, WithPayload: pb.NewWithPayload(true)})
	if err != nil {
		f.t.Fatalf("Get(%s) = %v, want nil", id, err)
	}
	if len(found) == 0 {
		return nil
	}
	out := map[string]any{}
	for name, v := range found[0].GetPayload() {
		out[name] = client.Plain(v)
	}
	return out
}

// wantSteps checks that each step of the chain is as it should be, and none of the
// gone ones is there.
func (f *fed) wantSteps(c protocol.Chain, gone ...string) {
	f.t.Helper()
	f.deliver()
	for i, step := range c.Steps {
		got := f.step(step.UUID)
		if got == nil {
			f.t.Errorf("step %s has no point", step.Label)
			continue
		}
		want := map[string]any{
			"memory_uuid": step.UUID, "label": step.Label, "text": step.Text, "llm_model_id": c.ModelID, "space_id": c.Space,
			"created_at": c.CreatedAt.UTC().Format(time.RFC3339Nano), "updated_at": c.UpdatedAt.UTC().Format(time.RFC3339Nano),
			"chain": map[string]any{"id": c.ID, "label": c.Title, "step_index": int64(i + 1), "step_count": int64(len(c.Steps))},
		}
		for name, v := range want {
			if diff := cmp.Diff(v, got[name]); diff != "" {
				f.t.Errorf("step %s, %s (-want +got):\n%s", step.Label, name, diff)
			}
		}
		if tags, ok := got["tags"].([]any); !ok || len(tags) != len(step.Tags) {
			f.t.Errorf("step %s has tags %v, want %v", step.Label, got["tags"], step.Tags)
		}
		if _, has := got["proof_of_work"].(map[string]any); has != (len(step.Challenge) > 0) {
			f.t.Errorf("step %s has challenge %v, want %s", step.Label, got["proof_of_work"], step.Challenge)
		}
	}
	for _, id := range gone {
		if got := f.step(id); got != nil {
			f.t.Errorf("removed step %s has a point still: %v", id, got)
		}
	}
}

func (f *fed) wantQuality(id string, score int64, tier string, successes int64) {
	f.t.Helper()
	f.deliver()
	got := f.step(id)
	metrics, _ := got["quality_metrics"].(map[string]any)
	want := map[string]any{"step_quality_score": score, "step_quality": tier}
	if diff := cmp.Diff(want, got["quality_metadata"]); diff != "" || metrics["successCount"] != successes {
		f.t.Errorf("step %s shows %v and %v, want %v and %d successes", id, got["quality_metadata"], metrics, want, successes)
	}
}

// A program that looks into Qdrant itself, as the earlier server's clients do,
// finds a point for each step whatever is done to its protocol.
func TestOtherProgramsFindTheStepsInQdrant(t *testing.T) {
	for name, embedded := range map[string]bool{"with vectors": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			f := feed(t, qdranttest.Start(t))
			first, pair := chain(space, "Walrus care", "Feed", "Wash", "Dry"), chain(space, "Otter care", "Feed")
			first.Steps[0].Challenge = json.RawMessage(`{"type":"shell","shell":{"cmd":"make feed","timeout_seconds":30}}`)
			first.Steps[1].Challenge = nil
			f.save(first, 0)
			f.save(pair, 0)
			if embedded {
				f.embed(model, 4, first, pair)
			}
			f.wantSteps(first)
			f.wantSteps(pair)
			f.wantQuality(first.Steps[0].UUID, 2, "standard", 0) // as minted: clients look at once

			rate := func(step string, score int, tier string) {
				t.Helper()
				must(t, f.store.Rate(t.Context(), space, []library.Rating{{Step: step, Outcome: library.OutcomeSuccess, Score: score, Tier: tier, Rater: "r"}}))
			}
			rate(first.Steps[0].UUID, 6, "excellent")
			f.wantQuality(first.Steps[0].UUID, 6, "excellent", 1)

			// Minted again: one step keeps its identity and what it has earned.
			second := chain(space, "Walrus care", "Feed well", "Comb")
			second.Steps[0].UUID = first.Steps[0].UUID
			second.UpdatedAt = second.UpdatedAt.Add(time.Hour)
			f.save(second, 1)
			f.wantSteps(second, first.Steps[1].UUID, first.Steps[2].UUID)
			f.wantQuality(first.Steps[0].UUID, 6, "excellent", 1)
			rate(first.Steps[0].UUID, 1, "basic")
			f.wantQuality(first.Steps[0].UUID, 1, "basic", 2)

			f.delete(second, 2)
			f.wantSteps(pair, first.Steps[0].UUID, second.Steps[1].UUID)
			f.save(first, 0) // restored
			f.wantSteps(first, second.Steps[1].UUID)
			f.wantQuality(first.Steps[0].UUID, 1, "basic", 2)
			f.good(2)
		})
	}
}

// Two spaces may have imported one protocol: the first keeps the UUIDs for other
// programs, and both are found.
func TestTwoSpacesMayHaveTheSameSteps(t *testing.T) {
	f := feed(t, qdranttest.Start(t))
	ours := chain(space, "Walrus care", "Feed", "Wash")
	copied := ours
	copied.Space = theirs
	f.save(ours, 0)
	f.deliver()
	f.save(copied, 0)
	f.embed(model, 4, ours)
	f.wantSteps(ours)
	f.good(2)
	if got := f.find(pointing(4, 0), model); got != ours.Title {
		t.Errorf("a search in the first space finds %q, want the protocol", got)
	}
	near, err := f.index.Nearest(t.Context(), []string{theirs}, library.Embedding{Model: model, Vector: pointing(4, 0)}, 10)
	if err != nil || len(near.Found) != 2 {
		t.Errorf("Nearest in the second space = %+v, %v, want both steps", near, err)
	}
	f.delete(copied, 1)
	f.wantSteps(ours)
	f.good(1)
}

// A step that moves to another protocol keeps its point.
func TestAStepMovesToAnotherProtocol(t *testing.T) {
	f := feed(t, qdranttest.Start(t))
	before := chain(space, "Walrus care", "Feed", "Wash")
	f.save(before, 0)
	f.deliver()
	after := chain(space, "Walrus and otter care", "Feed", "Wash")
	for i := range after.Steps {
		after.Steps[i].UUID = before.Steps[i].UUID
	}
	f.delete(before, 1)
	f.save(after, 0)
	f.wantSteps(after)
	f.good(1)
}

func TestCompareFindsWhatIsWrongAndRebuildCorrectsIt(t *testing.T) {
	f := feed(t, qdranttest.Start(t))
	var chains []protocol.Chain
	for i := range 70 { // more than a batch
		c := chain(space, fmt.Sprint("Protocol ", i), "One", "Two")
		f.save(c, 0)
		chains = append(chains, c)
	}
	f.embed(model, 4, chains...)
	f.good(70)
	missing, wrong, vectorless := chains[3].Steps[0].UUID, chains[69].Steps[1].UUID, chains[7].Steps[0].UUID
	if _, err := f.raw.Delete(t.Context(), &pb.DeletePoints{CollectionName: f.collection, Wait: pb.PtrOf(true), Points: pb.NewPointsSelector(pb.NewID(missing))}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.raw.SetPayload(t.Context(), &pb.SetPayloadPoints{
		CollectionName: f.collection, Wait: pb.PtrOf(true), Payload: pb.NewValueMap(map[string]any{"label": "Changed"}), PointsSelector: pb.NewPointsSelector(pb.NewID(wrong)),
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.raw.DeleteVectors(t.Context(), &pb.DeletePointVectors{
		CollectionName: f.collection, Wait: pb.PtrOf(true), PointsSelector: pb.NewPointsSelector(pb.NewID(vectorless)), Vectors: &pb.VectorsSelector{Names: []string{"dense"}},
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.raw.Upsert(t.Context(), &pb.UpsertPoints{CollectionName: f.collection, Wait: pb.PtrOf(true), Points: []*pb.PointStruct{{
		Id: pb.NewID("00000000-0000-4000-8000-000000000001"), Vectors: pb.NewVectorsMap(map[string]*pb.Vector{}), Payload: pb.NewValueMap(map[string]any{"label": "Stray"}),
	}}}); err != nil {
		t.Fatal(err)
	}
	r, err := f.feeder.Compare(t.Context(), func(int) {})
	if err != nil || r.Missing != 1 || r.Wrong != 2 || r.Stray != 1 || len(r.Of) != 3 || r.Steps != 140 {
		t.Errorf("Compare = %+v, %v, want one step missing, two wrong, one stray", r, err)
	}
	rebuilt := 0
	if err := f.feeder.Rebuild(t.Context(), func(n int) { rebuilt += n }); err != nil || rebuilt != 70 {
		t.Errorf("Rebuild = %d protocols, %v, want 70", rebuilt, err)
	}
	f.good(70)
}
