package storetest

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/protocol"
)

var historyCases = map[string]func(*testing.T, Protocols){
	"revisions count up and are never reused":               revisionsCountUp,
	"the revision of a given chain is ignored":              foreignRevision,
	"a save over another revision is refused":               saveOverOther,
	"one of many first saves wins":                          oneFirstSaveWins,
	"one of many replacements wins":                         oneReplacementWins,
	"a delete of another revision is refused":               deleteOther,
	"one change in conflict stops all of a save":            conflictStopsAll,
	"one save cannot store a protocol twice":                sameChainTwice,
	"versions describe what was stored when":                versionsTell,
	"old versions are read as they were saved":              oldVersions,
	"a deleted chain keeps its history":                     deletedHistory,
	"the newest hundred versions are kept":                  hundredVersions,
	"the history of a stored chain takes precedence":        storedHistoryWins,
	"a removed step leads to its chain":                     formerSteps,
	"the steps of a deleted chain lead to its last version": formerOfDeleted,
	"a step may move from one chain to another":             stepMoves,
}

func revisionsCountUp(t *testing.T, s Protocols) {
	c := NewChain(mine, "Counted", "One")
	other := NewChain(theirs, "Counted", "One")
	revisions, err := s.SaveChains(t.Context(), fresh(c, other))
	if err != nil || !slices.Equal(revisions, []int64{1, 1}) {
		t.Fatalf("SaveChains = %v, %v, want [1 1], nil", revisions, err)
	}
	for want := int64(2); want <= 4; want++ {
		if got := mustReplace(t, s, c, want-1); got != want {
			t.Fatalf("SaveChains over %d = revision %d, want %d", want-1, got, want)
		}
	}
	mustDelete(t, s, c, 4)
	if got := mustReplace(t, s, c, 0); got != 6 {
		t.Errorf("SaveChains after a deletion = revision %d, want 6: the deletion was 5", got)
	}
	wantStored(t, s, at(c, 6))
	wantStored(t, s, at(other, 1))
}

// wantStored checks that the chain is stored exactly like this.
func wantStored(t *testing.T, s library.Protocols, want protocol.Chain) {
	t.Helper()
	wantRead(t, fmt.Sprintf("Chain(%.60q)", want.Title), want)(s.Chain(t.Context(), []string{want.Space}, want.ID))
}

// wantVersion checks that the history has the chain at its revision.
func wantVersion(t *testing.T, s library.ProtocolHistory, spaces []string, want protocol.Chain) {
	t.Helper()
	wantRead(t, fmt.Sprintf("Version(%.60q, %d)", want.Title, want.Revision), want)(s.Version(t.Context(), spaces, want.ID, want.Revision))
}

func foreignRevision(t *testing.T, s Protocols) {
	c := NewChain(mine, "Imported", "One")
	mustSave(t, s, at(c, 77))
	wantStored(t, s, at(c, 1))
	wantRevisions(t, s, []string{mine}, c.ID, 1)
}

func saveOverOther(t *testing.T, s Protocols) {
	c, deleted := NewChain(mine, "Stored", "One"), NewChain(mine, "Deleted", "One")
	mustSave(t, s, c, deleted)
	mustReplace(t, s, c, 1)
	mustDelete(t, s, deleted, 1)
	for name, tc := range map[string]struct {
		title    string
		replaces int64
		want     fault.Code
	}{
		"none over a stored one":  {"Stored", 0, fault.DuplicateChain},
		"an older one":            {"Stored", 1, fault.Conflict},
		"one to come":             {"Stored", 3, fault.Conflict},
		"a negative one":          {"Stored", -1, fault.Conflict},
		"one where none ever was": {"Never", 1, fault.Conflict},
		"a deleted one":           {"Deleted", 1, fault.Conflict},
		"its deletion":            {"Deleted", 2, fault.Conflict},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := s.SaveChains(t.Context(), []library.Change{{Chain: NewChain(mine, tc.title, "New"), Replaces: tc.replaces}})
			wantCode(t, "SaveChains", err, tc.want)
		})
	}
	wantStored(t, s, at(c, 2))
	wantListed(t, s, "Stored")
}

// race saves different chains over a revision concurrently. One of them must be stored,
// and all others fail with the code.
func race(t *testing.T, s Protocols, title string, replaces int64, want fault.Code) {
	t.Helper()
	var won atomic.Int64
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			c := NewChain(mine, title, fmt.Sprintf("Step of %d", i))
			switch _, err := s.SaveChains(t.Context(), []library.Change{{Chain: c, Replaces: replaces}}); {
			case err == nil:
				won.Add(1)
			case fault.CodeOf(err) != want:
				t.Errorf("writer %d = %v, want nil or code %s", i, err, want)
			}
		})
	}
	all.Wait()
	if won.Load() != 1 {
		t.Errorf("%d of 8 saves over revision %d succeeded, want 1", won.Load(), replaces)
	}
	wantWholeOfOne(t, s, NewChain(mine, title).ID, replaces+1)
}

func oneFirstSaveWins(t *testing.T, s Protocols) { race(t, s, "First", 0, fault.DuplicateChain) }

func oneReplacementWins(t *testing.T, s Protocols) {
	mustSave(t, s, NewChain(mine, "Replaced", "Step at first"))
	race(t, s, "Replaced", 1, fault.Conflict)
}

// wantWholeOfOne checks that the chain of one writer is stored with its step, and
// is the only one among the changes.
func wantWholeOfOne(t *testing.T, s Protocols, id string, revision int64) {
	t.Helper()
	got, err := s.Chain(t.Context(), []string{mine}, id)
	if err != nil || got.Revision != revision || len(got.Steps) != 1 {
		t.Fatalf("Chain = revision %d with %d steps, %v, want revision %d with 1", got.Revision, len(got.Steps), err, revision)
	}
	byStep, _, err := s.StepChain(t.Context(), []string{mine}, got.Steps[0].UUID)
	if err != nil || !cmp.Equal(got, byStep) {
		t.Errorf("StepChain = %v, %v, want the chain", byStep, err)
	}
	wantChanges(t, s, 0, changedAs(library.Changed{Space: mine, Chain: &got}))
}

func deleteOther(t *testing.T, s Protocols) {
	c := NewChain(mine, "Kept", "Zebra")
	mustSave(t, s, c)
	mustReplace(t, s, c, 1)
	for _, replaces := range []int64{0, 1, 3} {
		wantCode(t, fmt.Sprintf("DeleteChain(revision %d)", replaces), s.DeleteChain(t.Context(), mine, c.ID, replaces), fault.Conflict)
	}
	wantStored(t, s, at(c, 2))
}

func conflictStopsAll(t *testing.T, s Protocols) {
	a, b := NewChain(mine, "A", "Zebra"), NewChain(mine, "B", "One")
	mustSave(t, s, a, b)
	mustReplace(t, s, b, 1)
	changes := []library.Change{
		{Chain: NewChain(mine, "A", "Giraffe"), Replaces: 1},
		{Chain: NewChain(mine, "C", "Giraffe")},
		{Chain: NewChain(mine, "B", "Giraffe"), Replaces: 1},
		{Chain: NewChain(mine, "D", "Giraffe")},
	}
	_, err := s.SaveChains(t.Context(), changes)
	wantCode(t, "SaveChains(one in conflict)", err, fault.Conflict)
	wantStored(t, s, at(a, 1))
	wantStored(t, s, at(b, 2))
	wantListed(t, s, "A", "B")
	wantChanges(t, s, 0, mine+" A 1", mine+" B 2")
	wantRevisions(t, s, []string{mine}, a.ID, 1)
	changes[2].Replaces = 2
	if revisions, err := s.SaveChains(t.Context(), changes); err != nil || !slices.Equal(revisions, []int64{2, 1, 3, 1}) {
		t.Errorf("SaveChains(none in conflict) = %v, %v, want [2 1 3 1], nil", revisions, err)
	}
}

func sameChainTwice(t *testing.T, s Protocols) {
	_, err := s.SaveChains(t.Context(), fresh(NewChain(mine, "Twice", "One"), NewChain(mine, "Twice", "Two")))
	wantCode(t, "SaveChains(one title twice)", err, fault.DuplicateChain)
	wantCount(t, s, mine, 0)
}

func versionsTell(t *testing.T, s Protocols) {
	before := time.Now()
	c := NewChain(mine, "Told", "One")
	mustSave(t, s, c)
	second := NewChain(mine, "Told", "One", "Two")
	second.Title, second.ModelID = "TOLD", "model-2"
	mustReplace(t, s, second, 1)
	mustDelete(t, s, c, 2)
	third := NewChain(mine, "Told", "One", "Two", "Three")
	mustReplace(t, s, third, 0)
	got := wantRevisions(t, s, []string{mine}, c.ID, 4, 3, 2, 1)
	last := time.Now()
	for i := range got {
		if got[i].SavedAt.Before(before.Add(-time.Second)) || got[i].SavedAt.After(last.Add(time.Second)) {
			t.Errorf("version %d was saved at %v, want between %v and now", got[i].Revision, got[i].SavedAt, before)
		}
		last = got[i].SavedAt
		got[i].SavedAt = time.Time{}
	}
	got[1].Title = "" // the title of a deletion does not matter
	want := []library.Version{
		{Revision: 4, Title: "Told", StepCount: 3, ModelID: "model-1"},
		{Revision: 3, Deleted: true},
		{Revision: 2, Title: "TOLD", StepCount: 2, ModelID: "model-2"},
		{Revision: 1, Title: "Told", StepCount: 1, ModelID: "model-1"},
	}
	wantSame(t, "Versions", want, got)
}

func oldVersions(t *testing.T, s Protocols) {
	var saved []protocol.Chain
	for i := range int64(4) {
		c := NewChain(mine, "Old", make([]string, i+1)...)
		c.Description = fmt.Sprintf("As version %d said.", i+1)
		mustReplace(t, s, c, i)
		saved = append(saved, at(c, i+1))
	}
	for _, want := range saved {
		wantVersion(t, s, []string{theirs, mine}, want)
	}
	for _, revision := range []int64{-1, 0, 5} {
		_, err := s.Version(t.Context(), []string{mine}, saved[0].ID, revision)
		wantCode(t, fmt.Sprintf("Version(%d)", revision), err, fault.NotFound)
	}
	_, err := s.Version(t.Context(), []string{mine}, "nothing", 1)
	wantCode(t, "Version(nothing)", err, fault.NotFound)
	_, err = s.Versions(t.Context(), []string{mine}, "nothing")
	wantCode(t, "Versions(nothing)", err, fault.NotFound)
}

func deletedHistory(t *testing.T, s Protocols) {
	c := NewChain(mine, "Gone", "One")
	mustSave(t, s, c)
	mustDelete(t, s, c, 1)
	if versions := wantRevisions(t, s, []string{mine}, c.ID, 2, 1); !versions[0].Deleted || versions[1].Deleted {
		t.Errorf("Versions = %v, want a deletion above a version", versions)
	}
	wantVersion(t, s, []string{mine}, at(c, 1))
	_, err := s.Version(t.Context(), []string{mine}, c.ID, 2)
	wantCode(t, "Version(the deletion)", err, fault.NotFound)
}

func hundredVersions(t *testing.T, s Protocols) {
	const saves = 105
	for i := range int64(saves) {
		c := NewChain(mine, "Often", "One")
		c.Description = fmt.Sprintf("Version %d.", i+1)
		mustReplace(t, s, c, i)
	}
	id := NewChain(mine, "Often").ID
	versions, err := s.Versions(t.Context(), []string{mine}, id)
	if err != nil || len(versions) < 100 {
		t.Fatalf("Versions = %d, %v, want at least 100", len(versions), err)
	}
	for i, v := range versions {
		want := int64(saves - i)
		if v.Revision != want {
			t.Fatalf("version %d of the list is revision %d, want %d", i, v.Revision, want)
		}
		if i >= 100 {
			continue
		}
		got, err := s.Version(t.Context(), []string{mine}, id, want)
		if err != nil || got.Description != fmt.Sprintf("Version %d.", want) {
			t.Errorf("Version(%d) = %q, %v, want its description", want, got.Description, err)
		}
	}
}

func storedHistoryWins(t *testing.T, s Protocols) {
	gone, here := NewChain(mine, "Both", "One"), NewChain(theirs, "Both", "One", "Two")
	mustSave(t, s, gone, here)
	mustDelete(t, s, gone, 1)
	if versions := wantRevisions(t, s, []string{mine, theirs}, gone.ID, 1); versions[0].StepCount != 2 {
		t.Errorf("Versions(both spaces) = %v, want those of the chain that is stored", versions)
	}
	got, err := s.Version(t.Context(), []string{mine, theirs}, gone.ID, 1)
	if err != nil || got.Space != theirs {
		t.Errorf("Version(both spaces) = one of %q, %v, want of %q", got.Space, err, theirs)
	}
}
