package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/protocol"
)

var protocolCases = map[string]func(*testing.T, Protocols){
	"a chain is read as it was saved":             chainRoundTrip,
	"a step leads to its chain":                   stepLeadsToChain,
	"a chain that was read is the caller's":       aReadChainIsTheCallers,
	"a missing protocol is not found":             protocolNotThere,
	"an id is taken once in a space":              duplicateChain,
	"replacing leaves nothing of the old chain":   replaceChain,
	"a refused chain leaves nothing":              refusedChain,
	"a save of many chains is all or nothing":     allOrNoneOfManyChains,
	"a deleted chain is gone":                     deleteChain,
	"no read leaves its spaces":                   spacesIsolated,
	"the first space that has a chain wins":       firstSpaceWins,
	"a step id belongs to one chain of a space":   stepTaken,
	"a step id need not be a UUID":                oddSteps,
	"a cancelled save of a chain changes nothing": cancelledSaveChain,
	"no read of the history leaves its spaces":    historyIsolated,
	"a chain of ten thousand steps":               tenThousandSteps,
	"a title of five thousand characters":         veryLongTitle,
}

func chainRoundTrip(t *testing.T, s Protocols) {
	for name, c := range map[string]protocol.Chain{
		"full":       NewChain(mine, "Round trip", "One", "Two"),
		"unicode":    NewChain(mine, "Prüfung — 日本語 'quoted' \"twice\" \x01 🐙", "Schritt %_\\ 1"),
		"minimal":    {ID: "id", Space: mine, Steps: []protocol.Step{{UUID: "u"}}},
		"many steps": NewChain(mine, "Many", make([]string, 300)...),
	} {
		t.Run(name, func(t *testing.T) {
			mustSave(t, s, c)
			wantStored(t, s, at(c, 1))
		})
	}
}

// aReadChainIsTheCallers: the later reads may come from a cache.
func aReadChainIsTheCallers(t *testing.T, s Protocols) {
	c := NewChain(mine, "Changed by its reader", "One", "Two")
	mustSave(t, s, c)
	for range 3 {
		byID, err := s.Chain(t.Context(), []string{mine}, c.ID)
		if err != nil {
			t.Fatal(err)
		}
		byStep, _, err := s.StepChain(t.Context(), []string{mine}, c.Steps[1].UUID)
		if err != nil {
			t.Fatal(err)
		}
		for _, got := range []protocol.Chain{byID, byStep} {
			if diff := cmp.Diff(at(c, 1), got); diff != "" {
				t.Fatalf("the chain (-want +got):\n%s", diff)
			}
			got.Steps[0].Label, got.Inputs[0], got.Steps[0].Challenge[0] = "changed", 'x', 'x'
		}
	}
}

func stepLeadsToChain(t *testing.T, s Protocols) {
	c := NewChain(mine, "Leads", "One", "Two", "Three")
	mustSave(t, s, NewChain(mine, "Other", "One"), c)
	for i, step := range c.Steps {
		got, index, err := s.StepChain(t.Context(), []string{theirs, mine}, step.UUID)
		if err != nil || index != i {
			t.Fatalf("StepChain(step %d) = index %d, %v, want %d, nil", i, index, err, i)
		}
		wantSame(t, fmt.Sprintf("StepChain(step %d)", i), at(c, 1), got)
	}
}

func protocolNotThere(t *testing.T, s Protocols) {
	mustSave(t, s, NewChain(mine, "There", "One"))
	for _, id := range []string{"", "nothing", "' OR 1=1 --"} {
		wantNoStep(t, s, id)
		wantNoChain(t, s, id)
		wantCode(t, "DeleteChain", s.DeleteChain(t.Context(), mine, id, 1), fault.NotFound)
	}
	_, err := s.Chain(t.Context(), nil, NewChain(mine, "There").ID)
	wantCode(t, "Chain(no space)", err, fault.NotFound)
}

func duplicateChain(t *testing.T, s Protocols) {
	first, second := NewChain(mine, "Twice", "One"), NewChain(mine, "Twice", "Other")
	mustSave(t, s, first)
	_, err := s.SaveChains(t.Context(), fresh(second))
	wantCode(t, "SaveChains(second)", err, fault.DuplicateChain)
	wantStored(t, s, at(first, 1))
	wantNoStep(t, s, second.Steps[0].UUID)
	// The same title in another space is another protocol.
	mustSave(t, s, NewChain(theirs, "Twice", "One"))
}

func replaceChain(t *testing.T, s Protocols) {
	first := NewChain(mine, "Replaced", "Zebra", "Stays", "Elephant")
	second := NewChain(mine, "Replaced", "Giraffe", "Stays")
	second.Steps[1].UUID = first.Steps[1].UUID // a caller may keep a step's id
	mustSave(t, s, first)
	mustReplace(t, s, second, 1)
	for _, gone := range []string{first.Steps[0].UUID, first.Steps[2].UUID} {
		wantNoStep(t, s, gone)
	}
	got, index, err := s.StepChain(t.Context(), []string{mine}, second.Steps[1].UUID)
	if err != nil || index != 1 || !cmp.Equal(at(second, 2), got) {
		t.Errorf("StepChain(kept step) = %v, index %d, %v, want the new chain, 1", got, index, err)
	}
}

func refusedChain(t *testing.T, s Protocols) {
	twice := NewChain(mine, "Bad", "Good label", "Bad label")
	twice.Steps[1].UUID = twice.Steps[0].UUID
	noID := NewChain(mine, "No id", "One")
	noID.ID = ""
	noSpace := NewChain("", "No space", "One")
	for name, c := range map[string]protocol.Chain{"same step id": twice, "no id": noID, "no space": noSpace} {
		_, err := s.SaveChains(t.Context(), fresh(c))
		wantCode(t, "SaveChains("+name+")", err, fault.InvalidArgument)
	}
	wantNoStep(t, s, twice.Steps[0].UUID)
	wantChanges(t, s, 0)
}

func deleteChain(t *testing.T, s Protocols) {
	c, kept := NewChain(mine, "Deleted", "Zebra"), NewChain(theirs, "Deleted", "Zebra")
	mustSave(t, s, c, kept)
	mustDelete(t, s, c, 1)
	wantNoChain(t, s, c.ID)
	wantNoStep(t, s, c.Steps[0].UUID)
	wantCode(t, "DeleteChain(again)", s.DeleteChain(t.Context(), mine, c.ID, 1), fault.NotFound)
	wantCount(t, s, theirs, 1) // of the same title
	mustSave(t, s, c)
}

func spacesIsolated(t *testing.T, s Protocols) {
	c := NewChain(theirs, "Secret zebra", "Hidden")
	mustSave(t, s, c, NewChain(mine, "Visible", "One"))
	_, _, err := s.StepChain(t.Context(), []string{mine}, c.Steps[0].UUID)
	_, _, absent := s.StepChain(t.Context(), []string{mine}, "absent")
	wantCode(t, "StepChain(foreign)", err, fault.NotFound)
	wantCode(t, "StepChain(absent)", absent, fault.NotFound)
	wantNoChain(t, s, c.ID)
	wantCode(t, "DeleteChain(foreign)", s.DeleteChain(t.Context(), mine, c.ID, 1), fault.NotFound)
	wantListed(t, s, "Visible")
}

func firstSpaceWins(t *testing.T, s Protocols) {
	a, b := NewChain(mine, "Both", "Mine"), NewChain(theirs, "Both", "Theirs")
	b.Steps[0].UUID = a.Steps[0].UUID
	mustSave(t, s, a, b)
	for _, tc := range []struct {
		spaces []string
		want   protocol.Chain
	}{{[]string{mine, theirs}, a}, {[]string{theirs, mine}, b}, {[]string{"empty", theirs}, b}} {
		got, err := s.Chain(t.Context(), tc.spaces, a.ID)
		if err != nil || got.Space != tc.want.Space {
			t.Errorf("Chain(%v) = space %q, %v, want %q", tc.spaces, got.Space, err, tc.want.Space)
		}
		got, _, err = s.StepChain(t.Context(), tc.spaces, a.Steps[0].UUID)
		if err != nil || got.Space != tc.want.Space {
			t.Errorf("StepChain(%v) = space %q, %v, want %q", tc.spaces, got.Space, err, tc.want.Space)
		}
	}
}

func stepTaken(t *testing.T, s Protocols) {
	a, b := NewChain(mine, "A", "One"), NewChain(mine, "B", "One", "Two")
	b.Steps[1].UUID = a.Steps[0].UUID
	mustSave(t, s, a)
	_, err := s.SaveChains(t.Context(), fresh(b))
	wantCode(t, "SaveChains(taken step id)", err, fault.InvalidArgument)
	got, _, err := s.StepChain(t.Context(), []string{mine}, a.Steps[0].UUID)
	if err != nil || got.Title != "A" {
		t.Errorf("StepChain = %q, %v, want A", got.Title, err)
	}
	wantNoChain(t, s, b.ID)
}

func cancelledSaveChain(t *testing.T, s Protocols) {
	kept, c := NewChain(mine, "Kept", "One"), NewChain(mine, "Cancelled", "One")
	mustSave(t, s, kept)
	if _, err := s.SaveChains(cancelled(t), fresh(c)); !errors.Is(err, context.Canceled) {
		t.Errorf("SaveChains(cancelled) = %v, want context.Canceled", err)
	}
	wantCancelled(t, "DeleteChain(cancelled)", s.DeleteChain(cancelled(t), mine, kept.ID, 1))
	wantListed(t, s, "Kept")
}

// allOrNoneOfManyChains: one document may hold several protocols.
func allOrNoneOfManyChains(t *testing.T, s Protocols) {
	mustSave(t, s, NewChain(mine, "Taken", "One"))
	other := NewChain(mine, "Fresh", "One")
	_, err := s.SaveChains(t.Context(), fresh(other, NewChain(mine, "Taken", "Two")))
	wantCode(t, "SaveChains(one is taken)", err, fault.DuplicateChain)
	wantNoChain(t, s, other.ID)
}

// historyIsolated: deleted chains, ratings and counts are as private as stored
// chains.
func historyIsolated(t *testing.T, s Protocols) {
	c := NewChain(theirs, "Secret", "Stays", "Goes")
	mustSave(t, s, c)
	less := c
	less.Steps = c.Steps[:1]
	mustReplace(t, s, less, 1)
	deleted := NewChain(theirs, "Secret and deleted", "One")
	mustSave(t, s, deleted)
	mustDelete(t, s, deleted, 1)
	mustRate(t, s, theirs, library.Rating{Step: c.Steps[0].UUID, Outcome: library.OutcomeSuccess})

	for name, spaces := range map[string][]string{"another space": {mine}, "no space": nil, "a part of the name": {"user:test:their"}} {
		t.Run(name, func(t *testing.T) {
			for _, step := range []string{c.Steps[0].UUID, c.Steps[1].UUID, deleted.Steps[0].UUID} {
				wantNoFormer(t, s, spaces, step)
			}
			for _, id := range []string{c.ID, deleted.ID} {
				_, err := s.Versions(t.Context(), spaces, id)
				wantCode(t, "Versions(foreign)", err, fault.NotFound)
				_, err = s.Version(t.Context(), spaces, id, 1)
				wantCode(t, "Version(foreign)", err, fault.NotFound)
			}
		})
	}
	wantListed(t, s)
	wantCount(t, s, mine, 0)
	wantQuality(t, s, mine, nil, c.Steps[0].UUID)
	mustRate(t, s, mine, library.Rating{Step: c.Steps[0].UUID, Outcome: library.OutcomeFailure})
	wantQuality(t, s, theirs, map[string]api.Quality{c.Steps[0].UUID: {SuccessCount: 1}}, c.Steps[0].UUID)
	// A title of theirs is free in mine, with a history of its own.
	mustSave(t, s, NewChain(mine, "Secret", "One"), NewChain(mine, "Secret and deleted", "One"))
	wantCode(t, "DeleteChain(their revision)", s.DeleteChain(t.Context(), mine, c.ID, 2), fault.Conflict)
	wantRevisions(t, s, []string{mine}, c.ID, 1)
}

func tenThousandSteps(t *testing.T, s Protocols) {
	labels := make([]string, 10_000)
	if testing.Short() {
		labels = labels[:1000]
	}
	for i := range labels {
		labels[i] = fmt.Sprintf("Step %d", i+1)
	}
	c := NewChain(mine, "Enormous", labels...)
	mustSave(t, s, c)
	wantStored(t, s, at(c, 1))
	last := c.Steps[len(c.Steps)-1]
	got, i, err := s.StepChain(t.Context(), []string{mine}, last.UUID)
	if err != nil || i != len(c.Steps)-1 || got.Title != c.Title {
		t.Errorf("StepChain(last) = step %d of %q, %v, want %d", i, got.Title, err, len(c.Steps)-1)
	}
	shorter := c
	shorter.Steps = c.Steps[:len(c.Steps)-1]
	mustReplace(t, s, shorter, 1)
	former, err := s.Former(t.Context(), []string{mine}, last.UUID)
	if err != nil || len(former.Chain.Steps) != len(shorter.Steps) {
		t.Errorf("Former(last) = %d steps, %v, want %d", len(former.Chain.Steps), err, len(shorter.Steps))
	}
	mustDelete(t, s, c, 2)
	wantVersion(t, s, []string{mine}, at(c, 1))
}

func veryLongTitle(t *testing.T, s Protocols) {
	long := strings.Repeat("Über lange Titel ", 5000/17+1)
	long = string([]rune(long)[:5000])
	c, other := NewChain(mine, long, "One"), NewChain(mine, long[:len(long)-1]+"2", "One")
	mustSave(t, s, NewChain(mine, "A", "One"), c, other, NewChain(mine, "z", "One"))
	wantStored(t, s, at(c, 1))
	want := []string{"A", long, other.Title, "z"}
	slices.Sort(want)
	wantListed(t, s, want...)
	mustReplace(t, s, c, 1)
	mustDelete(t, s, c, 2)
	if versions := wantRevisions(t, s, []string{mine}, c.ID, 3, 2, 1); versions[2].Title != long {
		t.Errorf("Versions = %v, want the whole title", versions)
	}
}
