package sqlite_test

import (
	"testing"

	"github.com/kairos-mcp/kairos/core/store/storetest"
)

func TestTheIndexOfPassagesIsMadeWithTheFirstVector(t *testing.T) {
	s, path := fresh(t)
	c := storetest.NewChain("user:a", "Rotating credentials", "One", "Two")
	must(t, save(s, c))
	const indexed = `SELECT 1 FROM sqlite_schema WHERE name = 'steps_passage'`
	if rows := raw(t, path, indexed); len(rows) > 0 {
		t.Errorf("there is an index of passages before there is a vector")
	}
	missing, err := s.Missing(t.Context(), "model", 9)
	if err != nil || len(missing) != 2 {
		t.Fatalf("Missing = %v, %v, want two passages", missing, err)
	}
	must(t, s.SaveVectors(t.Context(), "model", map[string][]float32{missing[0].Hash: {1, 2}}))
	if rows := raw(t, path, indexed); len(rows) != 1 {
		t.Errorf("the index of passages is missing")
	}
	if missing, err := s.Missing(t.Context(), "model", 9); err != nil || len(missing) != 1 {
		t.Errorf("Missing = %v, %v, want the other passage", missing, err)
	}
}
