package qdrant_test

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"testing"

	pb "github.com/qdrant/go-client/qdrant"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/store/qdrant"
	"github.com/kairos-mcp/kairos/core/store/qdrant/qdranttest"
	"github.com/kairos-mcp/kairos/core/store/storetest"
)

var write = flag.Bool("write-fixture", false, "write testdata/v1.json anew; only before the first release of a schema")

const fixture = "testdata/v1.json"

// writeFixture stores what the fixture holds, with the present program.
func writeFixture(t *testing.T, address string) {
	t.Helper()
	name := collection(t, address)
	s := open(t, qdrant.Options{URL: address, Collection: name})
	first := storetest.NewChain(space, "Released", "Walrus", "Gone later")
	save(t, s, first, storetest.NewChain(space, "Deleted", "One"))
	second := storetest.NewChain(space, "Released", "Walrus", "Narwhal")
	second.Steps[0].UUID = first.Steps[0].UUID
	if _, err := s.SaveChains(t.Context(), []library.Change{{Chain: second, Replaces: 1}}); err != nil {
		t.Fatal(err)
	}
	if err := s.DeleteChain(t.Context(), space, storetest.NewChain(space, "Deleted").ID, 1); err != nil {
		t.Fatal(err)
	}
	if err := s.Rate(t.Context(), space, []library.Rating{{Step: first.Steps[0].UUID, Outcome: library.OutcomeSuccess, Score: 6, Tier: "high", Rater: "r"}}); err != nil {
		t.Fatal(err)
	}
	var lines []json.RawMessage
	for _, p := range points(t, dialed(t, address), name) {
		if p.GetPayload()["kind"].GetStringValue() == "intent" {
			continue
		}
		b, err := protojson.Marshal(&pb.PointStruct{Id: p.GetId(), Payload: p.GetPayload()})
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, b)
	}
	b, err := json.MarshalIndent(lines, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(fixture, append(b, '\n'), 0o600); err != nil {
		t.Fatal(err)
	}
}

// released stores what the first release wrote, without a search index, and
// returns the collection's name.
func released(t *testing.T, address string) string {
	t.Helper()
	if *write {
		writeFixture(t, address)
	}
	b, err := os.ReadFile(fixture)
	if err != nil {
		t.Fatal(err)
	}
	var lines []json.RawMessage
	if err := json.Unmarshal(b, &lines); err != nil {
		t.Fatal(err)
	}
	var stored []*pb.PointStruct
	for _, line := range lines {
		p := new(pb.PointStruct)
		if err := protojson.Unmarshal(line, p); err != nil {
			t.Fatal(err)
		}
		p.Vectors = pb.NewVectorsMap(map[string]*pb.Vector{})
		stored = append(stored, p)
	}
	name := collection(t, address)
	c := dialed(t, address)
	if err := c.CreateCollection(t.Context(), &pb.CreateCollection{CollectionName: name + "_v1", VectorsConfig: pb.NewVectorsConfigMap(nil)}); err != nil {
		t.Fatal(err)
	}
	for field, kind := range map[string]pb.FieldType{"title_key": pb.FieldType_FieldTypeInteger, "kind": pb.FieldType_FieldTypeKeyword} {
		if _, err := c.CreateFieldIndex(t.Context(), &pb.CreateFieldIndexCollection{CollectionName: name + "_v1", FieldName: field, FieldType: kind.Enum(), Wait: pb.PtrOf(true)}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Upsert(t.Context(), &pb.UpsertPoints{CollectionName: name + "_v1", Points: stored, Wait: pb.PtrOf(true)}); err != nil {
		t.Fatal(err)
	}
	if err := c.CreateAlias(t.Context(), name, name+"_v1"); err != nil {
		t.Fatal(err)
	}
	return name
}

// A collection as the first release wrote it, without a search index, is read
// whole; the index is made anew.
func TestTheFirstReleasedSchemaIsRead(t *testing.T) {
	address := qdranttest.Start(t)
	name := released(t, address)
	s := open(t, qdrant.Options{URL: address, Collection: name})
	wantReleased(t, s)
	if _, err := s.SaveChains(t.Context(), []library.Change{{Chain: storetest.NewChain(space, "Released", "Now"), Replaces: 2}}); err != nil {
		t.Errorf("SaveChains over what the first release wrote = %v, want nil", err)
	}
}

// wantReleased checks that what the first release wrote is read whole.
func wantReleased(t *testing.T, s *qdrant.Store) {
	t.Helper()
	id := storetest.NewChain(space, "Released").ID
	got, err := s.Chain(t.Context(), []string{space}, id)
	if err != nil || got.Revision != 2 || len(got.Steps) != 2 || got.Steps[1].Label != "Narwhal" {
		t.Fatalf("Chain = revision %d, %d steps, %v, want revision 2 with walrus and narwhal", got.Revision, len(got.Steps), err)
	}
	before, err := s.Version(t.Context(), []string{space}, id, 1)
	if err != nil || len(before.Steps) != 2 || before.Steps[1].Label != "Gone later" {
		t.Fatalf("Version(1) = %v, %v, want what was stored first", before, err)
	}
	if f, err := s.Former(t.Context(), []string{space}, before.Steps[1].UUID); err != nil || f.Chain.ID != id || f.Deleted {
		t.Errorf("Former(removed step) = %v, %v, want the chain", f, err)
	}
	if versions, err := s.Versions(t.Context(), []string{space}, storetest.NewChain(space, "Deleted").ID); err != nil || len(versions) != 2 || !versions[0].Deleted {
		t.Errorf("Versions(deleted) = %v, %v, want the deletion and what was before", versions, err)
	}
	if q, err := s.Quality(t.Context(), space, []string{got.Steps[0].UUID}); err != nil || q[got.Steps[0].UUID].SuccessCount != 1 {
		t.Errorf("Quality = %v, %v, want one success", q, err)
	}
	if chains, _, err := s.List(t.Context(), space, "", 10); err != nil || len(chains) != 1 || chains[0].ID != id {
		t.Errorf("List = %v, %v, want the one that is not deleted", chains, err)
	}
	hits, err := s.Search(t.Context(), library.Query{Text: "narwhal", Spaces: []string{space}, Limit: 5})
	if err != nil || len(hits) != 1 || hits[0].Chain.ID != id {
		t.Errorf("Search(narwhal) = %v, %v, want the chain", hits, err)
	}
}

// migrated is a program of the next schema version, which counts in each
// protocol how often it was migrated.
func migrated(t *testing.T, o qdrant.Options, fail func() error) *qdrant.Store {
	t.Helper()
	s, err := qdrant.OpenMigrated(o, func(p *pb.PointStruct) (*pb.PointStruct, error) {
		if p.GetPayload()["kind"].GetStringValue() == "manifest" {
			p.Payload["migrations"] = pb.NewValueInt(p.GetPayload()["migrations"].GetIntegerValue() + 1)
		}
		return p, fail()
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// The next schema version takes what the first release wrote along, all of it
// or nothing, and programs of the first version then refuse to continue.
func TestAMigrationTakesAllAlong(t *testing.T) {
	address := qdranttest.Start(t)
	name := released(t, address)
	o := qdrant.Options{URL: address, Collection: name}

	points0, cut := 0, errors.New("cut short")
	broken := migrated(t, o, func() error {
		if points0++; points0 > 2 {
			return cut
		}
		return nil
	})
	if _, err := broken.Count(t.Context(), space); !errors.Is(err, cut) {
		t.Fatalf("Count with a migration that fails = %v, want %v", err, cut)
	}
	// Nothing has changed for the first version, which continues.
	first := open(t, o)
	wantReleased(t, first)
	late := random(storetest.NewChain(space, "Zebra", "Stored late"))
	save(t, first, late)

	next := migrated(t, o, func() error { return nil })
	if _, err := next.SaveChains(t.Context(), []library.Change{{Chain: storetest.NewChain("user:test:theirs", "New", "One")}}); err != nil {
		t.Fatalf("SaveChains after a migration = %v, want nil", err)
	}
	if got, err := next.Chain(t.Context(), []string{space}, late.ID); err != nil || len(got.Steps) != 1 {
		t.Errorf("Chain(stored after a migration was cut short) = %v, %v, want it", got, err)
	}
	if err := next.DeleteChain(t.Context(), space, late.ID, 1); err != nil {
		t.Errorf("DeleteChain after a migration = %v, want nil", err)
	}
	wantReleased(t, next)
	c := dialed(t, address)
	counted := 0
	for _, p := range points(t, c, name) {
		if n := p.GetPayload()["migrations"].GetIntegerValue(); n > 1 {
			t.Errorf("a protocol was migrated %d times, want once", n)
		} else if n == 1 {
			counted++
		}
	}
	if counted == 0 {
		t.Error("no protocol was migrated")
	}
	got, err := next.Chain(t.Context(), []string{space}, storetest.NewChain(space, "Released").ID)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, func() string {
		for _, p := range points(t, c, name) {
			if p.GetPayload()["memory_uuid"].GetStringValue() == got.Steps[0].UUID && p.GetPayload()["kind"].GetStringValue() == "step" {
				return ""
			}
		}
		return "after a migration the steps have no points"
	})
	_, err = open(t, o).Count(t.Context(), space)
	wantFault(t, "Count by the first version", err, fault.StoreFailed, "newer version")
	// A second program of the next version finds it done.
	wantReleased(t, migrated(t, o, func() error { return errors.New("migrated again") }))
}
