package storetest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/index"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/protocol"
)

// Indexed is the contract of a store of protocols that feeds an index.
type Indexed interface {
	Protocols
	index.Store
}

// RunOutbox checks the contract of an outbox. open returns an empty store; the
// test closes it.
func RunOutbox(t *testing.T, open func(t *testing.T) Indexed) {
	runArea(t, "outbox", outboxCases, open)
}

var outboxCases = map[string]func(*testing.T, Indexed){
	"a database has one id":                       outboxIdentity,
	"nothing is marked before there is an index":  outboxBeforeFill,
	"a new index marks everything once":           outboxFill,
	"every change marks its protocol":             outboxMarks,
	"marks are ordered and one a protocol":        outboxOrder,
	"a save that fails marks nothing":             outboxFailure,
	"a mark that changed is not removed":          outboxMissed,
	"ratings alone do not count as behind":        outboxBehind,
	"the model is that of the last stored vector": outboxModel,
	"entries page through everything":             outboxEntries,
}

func mustFill(t *testing.T, s index.Outbox, id string) {
	t.Helper()
	if err := s.Fill(t.Context(), id); err != nil {
		t.Fatalf("Fill(%s) = %v, want nil", id, err)
	}
}

func pending(t *testing.T, s index.Outbox) []index.Entry {
	t.Helper()
	entries, err := s.Pending(t.Context(), 1000)
	if err != nil {
		t.Fatalf("Pending = %v, want nil", err)
	}
	return entries
}

// deliver removes all marks.
func deliver(t *testing.T, s index.Outbox) {
	t.Helper()
	if missed, err := s.Delivered(t.Context(), pending(t, s)); err != nil || len(missed) > 0 {
		t.Fatalf("Delivered = %v missed, %v, want none", missed, err)
	}
}

// wantMarked checks which protocols are marked, in order, and removes the marks.
func wantMarked(t *testing.T, s index.Outbox, after string, want ...protocol.Chain) {
	t.Helper()
	got, expected := []string{}, []string{}
	for _, e := range pending(t, s) {
		got = append(got, e.Space+" "+e.ChainID)
	}
	for _, c := range want {
		expected = append(expected, c.Space+" "+c.ID)
	}
	if !slices.Equal(got, expected) {
		t.Errorf("after %s these are marked:\n%q, want\n%q", after, got, expected)
	}
	deliver(t, s)
}

func outboxIdentity(t *testing.T, s Indexed) {
	first, err := s.DatabaseID(t.Context())
	if err != nil || len(first) < 16 {
		t.Fatalf("DatabaseID = %q, %v, want an id", first, err)
	}
	mustSave(t, s, NewChain(mine, "One", "One"))
	wantRead(t, "DatabaseID", first)(s.DatabaseID(t.Context()))
}

func outboxBeforeFill(t *testing.T, s Indexed) {
	c := NewChain(mine, "One", "One")
	mustSave(t, s, c)
	mustSaveVectors(t, s, model, vectorsFor(1, hashes(c)...))
	mustDelete(t, s, c, 1)
	wantMarked(t, s, "changes without an index")
}

func outboxFill(t *testing.T, s Indexed) {
	a, b := NewChain(mine, "A", "One"), NewChain(theirs, "B", "One")
	mustSave(t, s, a, b)
	mustFill(t, s, "index-1")
	wantMarked(t, s, "the first index", a, b)
	mustFill(t, s, "index-1")
	wantMarked(t, s, "the same index again")
	mustFill(t, s, "index-2")
	wantMarked(t, s, "another index", a, b)
}

func outboxMarks(t *testing.T, s Indexed) {
	mustFill(t, s, "index")
	a, b := NewChain(mine, "A", "One", "Two"), NewChain(theirs, "B", "One")
	mustSave(t, s, a, b)
	wantMarked(t, s, "a save of two", a, b)
	mustSaveVectors(t, s, model, vectorsFor(1, hashes(a)...))
	wantMarked(t, s, "vectors", a)
	mustSaveVectors(t, s, model, vectorsFor(2, hashes(a)[0]))
	wantMarked(t, s, "a vector that replaces another", a)
	for _, outcome := range []library.Outcome{library.OutcomeStored, library.OutcomeSuccess} { // the first rating, and another one
		mustRate(t, s, theirs, library.Rating{Step: b.Steps[0].UUID, Outcome: outcome})
		wantMarked(t, s, "a rating", b)
	}
	mustReplace(t, s, a, 1)
	wantMarked(t, s, "a new revision", a)
	mustDelete(t, s, b, 1)
	wantMarked(t, s, "a deletion", b)
	mustReplace(t, s, b, 0)
	wantMarked(t, s, "a restored protocol", b)
	// Protocols that share a passage share its vector.
	shared := NewChain(theirs, "A", "One", "Other")
	mustSave(t, s, shared)
	deliver(t, s)
	mustSaveVectors(t, s, otherModel, vectorsFor(3, hashes(a)[0]))
	wantMarked(t, s, "the vector of a shared passage", a, shared)
}

func outboxOrder(t *testing.T, s Indexed) {
	mustFill(t, s, "index")
	a, b, c := NewChain(mine, "A", "One"), NewChain(mine, "B", "One"), NewChain(mine, "C", "One")
	mustSave(t, s, a)
	mustSave(t, s, b)
	mustSave(t, s, c)
	first := pending(t, s)
	mustReplace(t, s, a, 1)
	then := pending(t, s)
	if len(first) != 3 || len(then) != 3 || then[2].ChainID != a.ID || then[2].Revision <= first[2].Revision {
		t.Fatalf("marks are %+v and after another save of A %+v, want A last with a higher revision", first, then)
	}
	for i := range then[1:] {
		if then[i].Revision >= then[i+1].Revision {
			t.Errorf("marks are %+v, want rising revisions", then)
		}
	}
	if some, err := s.Pending(t.Context(), 2); err != nil || !slices.Equal(some, then[:2]) {
		t.Errorf("Pending(2) = %+v, %v, want %+v", some, err, then[:2])
	}
	deliver(t, s)
	mustReplace(t, s, b, 1)
	if last := pending(t, s); len(last) != 1 || last[0].Revision <= then[2].Revision {
		t.Errorf("after all were delivered a save is marked %+v, want a revision above %d", last, then[2].Revision)
	}
}

func outboxFailure(t *testing.T, s Indexed) {
	c := NewChain(mine, "A", "One")
	mustSave(t, s, c)
	mustFill(t, s, "index")
	deliver(t, s)
	_, err := s.SaveChains(t.Context(), append(fresh(NewChain(mine, "New", "One")), library.Change{Chain: c, Replaces: 7}))
	wantCode(t, "SaveChains(a new one, and one over a revision that is not stored)", err, fault.Conflict)
	wantCode(t, "DeleteChain(a revision that is not stored)", s.DeleteChain(t.Context(), mine, c.ID, 7), fault.Conflict)
	if _, err := s.SaveChains(cancelled(t), fresh(NewChain(mine, "Cancelled", "One"))); err == nil {
		t.Error("SaveChains(cancelled) = nil, want an error")
	}
	wantMarked(t, s, "saves that failed")
}

func outboxMissed(t *testing.T, s Indexed) {
	mustFill(t, s, "index")
	a, b := NewChain(mine, "A", "One"), NewChain(mine, "B", "One")
	mustSave(t, s, a, b)
	read := pending(t, s)
	mustReplace(t, s, a, 1)
	if missed, err := s.Delivered(t.Context(), read); err != nil || !slices.Equal(missed, read[:1]) {
		t.Errorf("Delivered = %+v, %v, want A missed, which has changed since", missed, err)
	}
	if left := pending(t, s); len(left) != 1 || left[0].ChainID != a.ID {
		t.Errorf("pending are %+v, want A still", left)
	}
	if missed, err := s.Delivered(t.Context(), read); err != nil || len(missed) != 2 {
		t.Errorf("Delivered again = %+v, %v, want both missed", missed, err)
	}
}

func outboxBehind(t *testing.T, s Indexed) {
	mustFill(t, s, "index")
	a, b := NewChain(mine, "A", "One"), NewChain(mine, "B", "One")
	mustSave(t, s, a, b)
	wantBehind := func(after string, want int) {
		t.Helper()
		wantRead(t, "Behind after "+after, want)(s.Behind(t.Context(), 2))
	}
	rate := func(c protocol.Chain) {
		t.Helper()
		mustRate(t, s, mine, library.Rating{Step: c.Steps[0].UUID, Outcome: library.OutcomeSuccess})
	}
	wantBehind("a save", 2)
	rate(a)
	wantBehind("a rating of a protocol that is behind", 2)
	mustSave(t, s, NewChain(mine, "C", "One"))
	wantBehind("a save of more than is asked for", 2)
	deliver(t, s)
	wantBehind("delivery", 0)
	rate(a)
	rate(b)
	wantBehind("ratings alone", 0)
	wantMarked(t, s, "ratings alone", a, b)
}

func outboxModel(t *testing.T, s Indexed) {
	wantRead(t, "Model", index.Model{})(s.Model(t.Context()))
	c := NewChain(mine, "A", "One", "Two")
	mustSave(t, s, c)
	for seed, name := range []string{model, otherModel, model} {
		mustSaveVectors(t, s, name, vectorsFor(float32(seed+1), hashes(c)[0]))
		wantRead(t, "Model", index.Model{Name: name, Length: 8})(s.Model(t.Context()))
	}
}

func outboxEntries(t *testing.T, s Indexed) {
	mustFill(t, s, "index")
	want := []string{}
	for i := range 7 {
		c := NewChain([]string{mine, theirs}[i%2], fmt.Sprint("Protocol ", i), "One")
		mustSave(t, s, c)
		want = append(want, c.Space+" "+c.ID)
	}
	last := pending(t, s)[6].Revision
	var got []string
	for cursor := ""; ; {
		page, next, err := s.Entries(t.Context(), cursor, 3)
		if err != nil || len(page) > 3 {
			t.Fatalf("Entries(%q) = %d, %v, want at most 3", cursor, len(page), err)
		}
		for _, e := range page {
			got = append(got, e.Space+" "+e.ChainID)
			if e.Revision != last {
				t.Errorf("Entries gives revision %d, want %d, the last one", e.Revision, last)
			}
		}
		if cursor = next; next == "" {
			break
		}
	}
	slices.Sort(want)
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("Entries = %q, want %q", got, want)
	}
	_, _, err := s.Entries(t.Context(), "no cursor", 3)
	wantCode(t, "Entries(no cursor)", err, fault.InvalidArgument)
}

// fillFirst turns on the outbox of a store that has one.
func fillFirst(t *testing.T, open func(t *testing.T) Protocols) {
	t.Helper()
	s := open(t)
	if o, ok := s.(Indexed); ok {
		mustFill(t, o, "kill")
	}
	mustClose(t, s)
}

// wantMarksOf checks that the outbox of a store that has one names exactly what was
// stored since the state before, and empties it.
func wantMarksOf(t *testing.T, s Protocols, before, found progress) {
	t.Helper()
	o, ok := s.(Indexed)
	if !ok {
		return
	}
	var want []string
	if found.one > before.one {
		want = append(want, NewChain(mine, alone).ID)
	}
	if found.all > before.all {
		for _, title := range parts {
			want = append(want, NewChain(mine, title).ID)
		}
	}
	var got []string
	for _, e := range pending(t, o) {
		got = append(got, e.ChainID)
	}
	slices.Sort(want)
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("from %+v to %+v these are marked: %q, want %q", before, found, got, want)
	}
	deliver(t, o)
}
