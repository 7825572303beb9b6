package qdranttest

import (
	_ "embed"
	"encoding/json"
	"strings"
	"testing"

	pb "github.com/qdrant/go-client/qdrant"
)

//go:embed v1.json
var former string

// Former stores what the first release of this program wrote when it kept
// protocols in Qdrant, and returns the alias. replace has pairs of texts of which
// the first is replaced by the second.
func Former(t testing.TB, address string, replace ...string) string {
	t.Helper()
	var stored []struct {
		ID      string         `json:"id"`
		Payload map[string]any `json:"payload"`
	}
	if err := json.Unmarshal([]byte(strings.NewReplacer(replace...).Replace(former)), &stored); err != nil {
		t.Fatalf("qdranttest: %v", err)
	}
	points := make([]*pb.PointStruct, len(stored))
	for i, p := range stored {
		points[i] = &pb.PointStruct{Id: pb.NewID(p.ID), Vectors: pb.NewVectorsMap(map[string]*pb.Vector{}), Payload: pb.NewValueMap(p.Payload)}
	}
	name, c := Collection(t, address), Dial(t, address)
	if err := c.CreateCollection(t.Context(), &pb.CreateCollection{CollectionName: name + "_v1", VectorsConfig: pb.NewVectorsConfigMap(nil)}); err != nil {
		t.Fatalf("qdranttest: %v", err)
	}
	if _, err := c.Upsert(t.Context(), &pb.UpsertPoints{CollectionName: name + "_v1", Points: points, Wait: pb.PtrOf(true)}); err != nil {
		t.Fatalf("qdranttest: %v", err)
	}
	if err := c.CreateAlias(t.Context(), name, name+"_v1"); err != nil {
		t.Fatalf("qdranttest: %v", err)
	}
	return name
}
