package storetest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/protocol"
)

// wantFormer checks the result of Former for a removed step.
func wantFormer(t *testing.T, s library.Protocols, step string, want library.Former) {
	t.Helper()
	wantNoStep(t, s, step)
	want.Chain = withoutTexts(want.Chain)
	wantRead(t, "Former", want)(s.Former(t.Context(), []string{theirs, mine}, step))
}

func wantNoFormer(t *testing.T, s library.Protocols, spaces []string, step string) {
	t.Helper()
	_, err := s.Former(t.Context(), spaces, step)
	wantCode(t, fmt.Sprintf("Former(%v)", spaces), err, fault.NotFound)
}

func withoutTexts(c protocol.Chain) protocol.Chain {
	c.Steps = slices.Clone(c.Steps)
	for i := range c.Steps {
		c.Steps[i].Text = ""
	}
	return c
}

func formerSteps(t *testing.T, s Protocols) {
	first := NewChain(mine, "Shrinks", "One", "Two", "Three")
	mustSave(t, s, first)
	wantNoFormer(t, s, []string{mine}, first.Steps[1].UUID)
	wantNoFormer(t, s, []string{mine}, "never heard of")
	second := first
	second.Steps = slices.Delete(slices.Clone(first.Steps), 1, 2)
	mustReplace(t, s, second, 1)
	wantFormer(t, s, first.Steps[1].UUID, library.Former{Chain: at(second, 2)})
	wantNoFormer(t, s, []string{mine}, first.Steps[0].UUID)
	third := NewChain(mine, "Shrinks", "Other")
	mustReplace(t, s, third, 2)
	for _, step := range first.Steps {
		wantFormer(t, s, step.UUID, library.Former{Chain: at(third, 3)})
	}
	// A restored step is not a former one.
	mustReplace(t, s, first, 3)
	for _, step := range first.Steps {
		wantNoFormer(t, s, []string{mine}, step.UUID)
	}
	wantFormer(t, s, third.Steps[0].UUID, library.Former{Chain: at(first, 4)})
}

func formerOfDeleted(t *testing.T, s Protocols) {
	c := NewChain(mine, "Deleted", "One", "Two")
	mustSave(t, s, c)
	mustReplace(t, s, c, 1)
	mustDelete(t, s, c, 2)
	for _, step := range c.Steps {
		wantFormer(t, s, step.UUID, library.Former{Chain: at(c, 2), Deleted: true})
	}
	again := NewChain(mine, "Deleted", "Again")
	mustReplace(t, s, again, 0)
	wantFormer(t, s, c.Steps[1].UUID, library.Former{Chain: at(again, 4)})
}

func stepMoves(t *testing.T, s Protocols) {
	a, b := NewChain(mine, "A", "One", "Moves"), NewChain(mine, "B", "One")
	mustSave(t, s, a, b)
	moving := a.Steps[1]
	less, more := a, b
	less.Steps, more.Steps = slices.Clone(a.Steps[:1]), append(slices.Clone(b.Steps), moving)
	// The chain that gets the step comes first.
	if _, err := s.SaveChains(t.Context(), []library.Change{{Chain: more, Replaces: 1}, {Chain: less, Replaces: 1}}); err != nil {
		t.Fatalf("SaveChains = %v, want nil", err)
	}
	got, i, err := s.StepChain(t.Context(), []string{mine}, moving.UUID)
	if err != nil || got.Title != "B" || i != 1 {
		t.Errorf("StepChain = step %d of %q, %v, want 1 of B", i, got.Title, err)
	}
	wantNoFormer(t, s, []string{mine}, moving.UUID)
}

// oddSteps are ids that look like UUIDs in other forms, or like their bytes.
func oddSteps(t *testing.T, s Protocols) {
	ids := []string{
		"7d4c320a-909c-459a-ad77-ff426a1c8a48", "7D4C320A-909C-459A-AD77-FF426A1C8A48", "7d4c320a909c459aad77ff426a1c8a48",
		"sixteen letters.", "7d4c320a-909c-459a-ad77-ff426a1c8a4", "ü", " ",
	}
	c := NewChain(mine, "Odd steps", ids...)
	for i := range ids {
		c.Steps[i].UUID = ids[i]
	}
	mustSave(t, s, c)
	for i, id := range ids {
		if got, step, err := s.StepChain(t.Context(), []string{mine}, id); err != nil || step != i || got.ID != c.ID {
			t.Errorf("StepChain(%q) = %q, %d, %v, want step %d of its chain", id, got.Title, step, err, i)
		}
		other := NewChain(mine, "Takes a step", "One")
		other.Steps[0].UUID = id
		_, err := s.SaveChains(t.Context(), []library.Change{{Chain: other}})
		wantCode(t, "SaveChains(step of another chain)", err, fault.InvalidArgument)
	}
	less := c
	less.Steps = c.Steps[:1]
	mustReplace(t, s, less, 1)
	for _, id := range ids[1:] {
		wantFormer(t, s, id, library.Former{Chain: at(less, 2)})
	}
}
