package storetest

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/kairos-mcp/kairos/core/library"
)

var changeCases = map[string]func(*testing.T, Protocols){
	"an empty library has no changes":              changesOfNothing,
	"each protocol is listed with its last change": changesListed,
	"a deletion is a change":                       changesOfDeletions,
	"a deleted protocol that comes back is there":  changesComeBack,
	"the vectors of a protocol are a change":       changesOfVectors,
	"a save that fails changes nothing":            changesFailed,
	"pages continue after the last number":         changesInPages,
	"no change appears before one that was listed": changesInOrder,
	"a cancelled list of changes fails":            changesCancelled,
}

// changedAs is a change in a word: its title, or "-" and the id of a deleted protocol.
func changedAs(c library.Changed) string {
	if c.Chain == nil {
		return c.Space + " -" + c.ChainID
	}
	return fmt.Sprintf("%s %s %d", c.Space, c.Chain.Title, c.Chain.Revision)
}

// wantChanges checks what changed after a number, and returns the last one.
func wantChanges(t *testing.T, s library.Changes, since int64, want ...string) int64 {
	t.Helper()
	last, err := s.LastChange(t.Context())
	if err != nil {
		t.Fatalf("LastChange = %v, want nil", err)
	}
	changes, err := s.Changed(t.Context(), since, 1000)
	if err != nil {
		t.Fatalf("Changed(%d) = %v, want nil", since, err)
	}
	var got []string
	for i, c := range changes {
		got = append(got, changedAs(c))
		if c.Damage != nil || c.Number <= since || c.Number > last || i > 0 && c.Number <= changes[i-1].Number {
			t.Errorf("Changed(%d) has number %d (%v), want numbers that grow up to %d", since, c.Number, c.Damage, last)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("Changed(%d) = %q, want %q", since, got, want)
	}
	return last
}

func changesOfNothing(t *testing.T, s Protocols) {
	last := wantChanges(t, s, 0)
	if again := wantChanges(t, s, last); again != last {
		t.Errorf("LastChange = %d after %d, want the same", again, last)
	}
}

func changesListed(t *testing.T, s Protocols) {
	herons, otters := NewChain(mine, "Herons", "One", "Two"), NewChain(theirs, "Otters", "One")
	mustSave(t, s, herons)
	mustSave(t, s, otters)
	last := wantChanges(t, s, 0, mine+" Herons 1", theirs+" Otters 1")
	wantChanges(t, s, last)
	mustReplace(t, s, herons, 1)
	wantChanges(t, s, last, mine+" Herons 2")
	wantChanges(t, s, 0, theirs+" Otters 1", mine+" Herons 2")
	changes, err := s.Changed(t.Context(), last, 1)
	if err != nil || len(changes) != 1 {
		t.Fatalf("Changed = %v, %v, want one change", changes, err)
	}
	wantSame(t, "the chain of a change", at(herons, 2), *changes[0].Chain)
}

func changesOfDeletions(t *testing.T, s Protocols) {
	herons, otters := NewChain(mine, "Herons", "One"), NewChain(mine, "Otters", "One")
	mustSave(t, s, herons, otters)
	last := wantChanges(t, s, 0, mine+" Herons 1", mine+" Otters 1")
	mustDelete(t, s, herons, 1)
	wantChanges(t, s, last, mine+" -"+herons.ID)
	wantChanges(t, s, 0, mine+" Otters 1", mine+" -"+herons.ID)
}

func changesComeBack(t *testing.T, s Protocols) {
	herons := NewChain(mine, "Herons", "One")
	mustSave(t, s, herons)
	mustDelete(t, s, herons, 1)
	last := wantChanges(t, s, 0, mine+" -"+herons.ID)
	mustSave(t, s, herons)
	wantChanges(t, s, last, mine+" Herons 3")
	wantChanges(t, s, 0, mine+" Herons 3")
	mustDelete(t, s, herons, 3)
	wantChanges(t, s, 0, mine+" -"+herons.ID) // the last deletion alone
}

func changesOfVectors(t *testing.T, s Protocols) {
	herons, otters := NewChain(mine, "Herons", "One", "Two"), NewChain(mine, "Otters", "One")
	mustSave(t, s, herons, otters)
	last := wantChanges(t, s, 0, mine+" Herons 1", mine+" Otters 1")
	vectors := map[string][]float32{}
	for i, hash := range hashes(herons) {
		vectors[hash] = []float32{1, float32(i)}
	}
	if err := s.SaveVectors(t.Context(), model, vectors); err != nil {
		t.Fatalf("SaveVectors = %v, want nil", err)
	}
	last = wantChanges(t, s, last, mine+" Herons 1")
	mustSave(t, s, NewChain(mine, "Walruses", "One"))
	wantChanges(t, s, last, mine+" Walruses 1")
}

func changesFailed(t *testing.T, s Protocols) {
	herons := NewChain(mine, "Herons", "One")
	mustSave(t, s, herons)
	last := wantChanges(t, s, 0, mine+" Herons 1")
	if _, err := s.SaveChains(t.Context(), fresh(NewChain(mine, "Otters", "One"), herons)); err == nil {
		t.Error("SaveChains of a chain that is stored = nil, want an error")
	}
	wantChanges(t, s, last)
}

func changesInPages(t *testing.T, s Protocols) {
	var want, got []string
	for i := range 7 {
		c := NewChain(mine, fmt.Sprintf("Number %d", i), "One")
		mustSave(t, s, c)
		if i%3 == 0 {
			mustDelete(t, s, c, 1)
		}
	}
	for i := range 7 {
		title := fmt.Sprintf("Number %d", i)
		if i%3 == 0 {
			want = append(want, mine+" -"+NewChain(mine, title).ID)
			continue
		}
		want = append(want, mine+" "+title+" 1")
	}
	for since := int64(0); ; {
		changes, err := s.Changed(t.Context(), since, 2)
		if err != nil || len(changes) > 2 {
			t.Fatalf("Changed(%d) = %d changes, %v, want at most 2", since, len(changes), err)
		}
		if len(changes) == 0 {
			break
		}
		for _, c := range changes {
			got, since = append(got, changedAs(c)), c.Number
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("all pages = %q, want %q", got, want)
	}
}

// changesInOrder reads changes while several writers make them. A reader that continues
// after the last number it saw must not miss any.
func changesInOrder(t *testing.T, s Protocols) {
	const writers, each = 4, 10
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := range each {
				if _, err := s.SaveChains(t.Context(), fresh(NewChain(mine, fmt.Sprintf("Number %d of %d", i, w), "One"))); err != nil {
					t.Errorf("SaveChains = %v, want nil", err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	seen, since := map[string]bool{}, int64(0)
	for finished := false; ; {
		changes, err := s.Changed(t.Context(), since, 3)
		if err != nil {
			t.Fatalf("Changed(%d) = %v, want nil", since, err)
		}
		for _, c := range changes {
			seen[c.ChainID], since = true, c.Number
		}
		if len(changes) > 0 {
			continue
		}
		if finished {
			break
		}
		select {
		case <-done:
			finished = true // and one more look
		default:
		}
	}
	if len(seen) != writers*each {
		t.Errorf("a reader that followed saw %d protocols, want %d", len(seen), writers*each)
	}
}

func changesCancelled(t *testing.T, s Protocols) {
	mustSave(t, s, NewChain(mine, "Herons", "One"))
	_, err := s.Changed(cancelled(t), 0, 1)
	wantCancelled(t, "Changed", err)
	_, err = s.LastChange(cancelled(t))
	wantCancelled(t, "LastChange", err)
}
