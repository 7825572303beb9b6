package yamldoc_test

import (
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/yamldoc"
)

func TestAColonWithoutABlankIsPartOfAText(t *testing.T) {
	for text, want := range map[string]any{
		"a: {b: [group:eng, user:acme:ada@example.org], c: [x]}": map[string]any{"a": map[string]any{"b": []any{"group:eng", "user:acme:ada@example.org"}, "c": []any{"x"}}},
		"- {by: [group:release], not: runner}":                   []any{map[string]any{"by": []any{"group:release"}, "not": "runner"}},
		"a: {b: [group:7, team:true]}":                           map[string]any{"a": map[string]any{"b": []any{"group:7", "team:true"}}},
		"a: {b: [group: eng]}":                                   map[string]any{"a": map[string]any{"b": []any{map[string]any{"group": "eng"}}}},
		"a: {b: [{x: 1, y: 2}]}":                                 map[string]any{"a": map[string]any{"b": []any{map[string]any{"x": uint64(1), "y": uint64(2)}}}},
		"a: {b: [{\"group\":eng}]}":                              map[string]any{"a": map[string]any{"b": []any{map[string]any{"group": "eng"}}}},
		"a:\n  b:\n    - group:eng\n    - c: d":                  map[string]any{"a": map[string]any{"b": []any{"group:eng", map[string]any{"c": "d"}}}},
		"a: {b: &x [group:eng], c: *x}":                          map[string]any{"a": map[string]any{"b": []any{"group:eng"}, "c": []any{"group:eng"}}},
	} {
		d := yamldoc.Document{What: "the text"}
		root := d.Parse([]byte(text))
		if err := d.Err(); err != nil {
			t.Errorf("Parse(%s) = %v", text, err)
			continue
		}
		var got any
		if err := yaml.NewDecoder(strings.NewReader("")).DecodeFromNode(root, &got); err != nil {
			t.Errorf("decode %s: %v", text, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s is read as (-want +got):\n%s", text, diff)
		}
	}
}
