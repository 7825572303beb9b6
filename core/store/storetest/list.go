package storetest

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/kairos-mcp/kairos/core/engine"
	"github.com/kairos-mcp/kairos/core/protocol"
)

var listCases = map[string]func(*testing.T, Protocols){
	"chains are listed by title without texts": listChains,
}

// listed returns the titles of a space, read in pages of a size.
func listed(t *testing.T, s engine.Protocols, space string, limit int) []string {
	t.Helper()
	var titles []string
	for cursor := ""; ; {
		chains, next, err := s.List(t.Context(), space, cursor, limit)
		if err != nil || len(chains) > limit {
			t.Fatalf("List(%q, limit %d) = %d chains, %v, want at most the limit, nil", cursor, limit, len(chains), err)
		}
		for _, c := range chains {
			titles = append(titles, c.Title)
		}
		if next == "" {
			return titles
		}
		cursor = next
	}
}

func listChains(t *testing.T, s Protocols) {
	a, b := NewChain(mine, "A", "One", "Two"), NewChain(mine, "B", "One")
	mustSave(t, s, b, NewChain(theirs, "AA", "One"), a)
	got, next, err := s.List(t.Context(), mine, "", 10)
	if err != nil || next != "" {
		t.Fatalf("List = next %q, %v, want the end, nil", next, err)
	}
	without := cmpopts.IgnoreFields(protocol.Step{}, "Text")
	if diff := cmp.Diff([]protocol.Chain{at(a, 1), at(b, 1)}, got, without); diff != "" {
		t.Errorf("List (-want +got):\n%s", diff)
	}
	for _, c := range got {
		for _, step := range c.Steps {
			if step.Text != "" {
				t.Errorf("List: step %q has text %q, want none", step.Label, step.Text)
			}
		}
	}
}
