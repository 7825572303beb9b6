package embedtest_test

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/embedding/embedtest"
)

func cosine(a, b string, dimension int) float64 {
	x, y := embedtest.Vector(a, dimension), embedtest.Vector(b, dimension)
	var dot float64
	for i := range x {
		dot += float64(x[i]) * float64(y[i])
	}
	return dot
}

func TestVectorsAreTheSameEveryTimeAndOfUnitLength(t *testing.T) {
	for _, text := range []string{"Rotate the credential", "löschen", "日本語", "", "!!!", "a"} {
		if diff := cmp.Diff(embedtest.Vector(text, 256), embedtest.Vector(text, 256)); diff != "" {
			t.Errorf("Vector(%q) changes: %s", text, diff)
		}
		if c := cosine(text, text, 256); math.Abs(c-1) > 1e-5 {
			t.Errorf("Vector(%q) has length %v, want 1", text, math.Sqrt(c))
		}
	}
}

func TestWhatMeansTheSameIsNearAndWhatDoesNotIsFar(t *testing.T) {
	const query = "delete an old backup"
	for name, tc := range map[string]struct {
		text     string
		min, max float64
	}{
		"other forms":    {"deleting old backups", 0.6, 1},
		"synonyms":       {"erase an outdated snapshot", 0.5, 1},
		"German":         {"Eine alte Sicherung löschen", 0.5, 1},
		"a typo":         {"delet an odl backp", 0.25, 1},
		"something else": {"bake sourdough bread with rye flour", -0.2, 0.25},
		"gibberish":      {"xqzvw blorfnag kkjjx", -0.2, 0.2},
	} {
		for _, dimension := range []int{256, 1024} {
			if got := cosine(query, tc.text, dimension); got < tc.min || got > tc.max {
				t.Errorf("%s: cosine(%q, %q) with %d dimensions = %.2f, want %.2f to %.2f", name, query, tc.text, dimension, got, tc.min, tc.max)
			}
		}
	}
}
