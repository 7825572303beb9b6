package qdranttest

import (
	"context"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"
	pb "github.com/qdrant/go-client/qdrant"
)

// Dial returns a client of the server, to see what is stored there past this
// program.
func Dial(t testing.TB, address string) *pb.Client {
	t.Helper()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatalf("qdranttest: address %q: %v", address, err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatalf("qdranttest: address %q: %v", address, err)
	}
	c, err := pb.NewClient(&pb.Config{Host: host, Port: n, PoolSize: 1, SkipCompatibilityCheck: true})
	if err != nil {
		t.Fatalf("qdranttest: %v", err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Collection returns a name that no other test uses. Collections whose names begin
// with it are removed with the test.
func Collection(t testing.TB, address string) string {
	t.Helper()
	name, c := "t"+uuid.NewString(), Dial(t, address)
	t.Cleanup(func() {
		ctx := context.Background() // the test's has ended
		all, err := c.ListCollections(ctx)
		if err != nil {
			t.Logf("list collections to remove: %v", err)
		}
		for _, found := range all {
			if strings.HasPrefix(found, name) {
				if err := c.DeleteCollection(ctx, found); err != nil {
					t.Logf("remove collection %s: %v", found, err)
				}
			}
		}
	})
	return name
}

// Fill makes a collection with one dense vector a point, as the earlier KAIROS
// server did, and a point with each of the payloads. A payload's memory_uuid is
// the id of its point, unless an earlier one has it.
func Fill(t testing.TB, address, collection string, payloads []map[string]any) {
	t.Helper()
	c := Dial(t, address)
	if err := c.CreateCollection(t.Context(), &pb.CreateCollection{
		CollectionName: collection, VectorsConfig: pb.NewVectorsConfig(&pb.VectorParams{Size: 4, Distance: pb.Distance_Cosine}),
	}); err != nil {
		t.Fatalf("qdranttest: make collection %s: %v", collection, err)
	}
	points, taken := make([]*pb.PointStruct, len(payloads)), map[string]bool{}
	for i, p := range payloads {
		id, _ := p["memory_uuid"].(string)
		if _, err := uuid.Parse(id); err != nil || taken[id] {
			id = uuid.NewString()
		}
		taken[id] = true
		points[i] = &pb.PointStruct{Id: pb.NewID(id), Payload: pb.NewValueMap(p), Vectors: pb.NewVectors(0, 0, 1, float32(i))}
	}
	if _, err := c.Upsert(t.Context(), &pb.UpsertPoints{CollectionName: collection, Points: points, Wait: pb.PtrOf(true)}); err != nil {
		t.Fatalf("qdranttest: fill collection %s: %v", collection, err)
	}
}
