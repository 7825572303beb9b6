package qdrant_test

import (
	"fmt"
	"testing"

	"github.com/google/uuid"
	pb "github.com/qdrant/go-client/qdrant"

	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/store/qdrant"
	"github.com/kairos-mcp/kairos/core/store/qdrant/qdranttest"
	"github.com/kairos-mcp/kairos/core/store/storetest"
)

// Every save leaves a list of its new words. Many short ones become few, and
// words are still completed and corrected.
func TestManyListsOfWordsArePutTogether(t *testing.T) {
	address := qdranttest.Start(t)
	name := collection(t, address)
	c := dialed(t, address)
	s := open(t, qdrant.Options{URL: address, Collection: name})
	save(t, s, storetest.NewChain(space, "Zebrafish", "Feeding"))
	var lists []*pb.PointStruct
	for i := range 300 {
		lists = append(lists, &pb.PointStruct{
			Id: pb.NewID(uuid.NewString()), Vectors: pb.NewVectorsMap(map[string]*pb.Vector{}),
			Payload: pb.NewValueMap(map[string]any{"kind": "words", "list": fmt.Sprintf("other%d feeding", i)}),
		})
	}
	if _, err := c.Upsert(t.Context(), &pb.UpsertPoints{CollectionName: name + "_index", Points: lists, Wait: pb.PtrOf(true)}); err != nil {
		t.Fatal(err)
	}
	if err := s.Sweep(t.Context()); err != nil {
		t.Fatalf("Sweep = %v", err)
	}
	n := 0
	for _, p := range points(t, c, name+"_index") {
		if p.GetPayload()["kind"].GetStringValue() == "words" {
			n++
		}
	}
	if n != 1 {
		t.Errorf("after Sweep there are %d lists, want 1", n)
	}
	fresh := open(t, qdrant.Options{URL: address, Collection: name})
	for _, asked := range []string{"zebraf", "zebarfish"} {
		hits, err := fresh.Search(t.Context(), library.Query{Text: asked, Spaces: []string{space}, Limit: 5})
		if err != nil || len(hits) != 1 {
			t.Errorf("Search(%s) = %v, %v, want the protocol", asked, hits, err)
		}
	}
}
