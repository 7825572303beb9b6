package storetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/protocol"
)

var listCases = map[string]func(*testing.T, Protocols){
	"chains are listed by title without texts": listChains,
	"pages of any size give all in order":      listPages,
	"equal titles are ordered by id":           listEqualTitles,
	"a wrong cursor or limit is refused":       listRefuses,
	"a cursor survives changes elsewhere":      listUnderChange,
	"a list is exact while others write":       listWhileWriting,
	"the count is exact":                       countExact,
}

// listed returns the titles of a space, read in pages of a size.
func listed(t *testing.T, s library.Protocols, space string, limit int) []string {
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
	wantSame(t, "List", []protocol.Chain{at(a, 1), at(b, 1)}, got, without)
	for _, c := range got {
		for _, step := range c.Steps {
			if step.Text != "" {
				t.Errorf("List: step %q has text %q, want none", step.Label, step.Text)
			}
		}
	}
}

func listPages(t *testing.T, s Protocols) {
	var want []string
	for i := range 23 {
		title := fmt.Sprintf("%c title %d", []rune("ÄBcdé会 a")[i%8], i)
		want = append(want, title)
		mustSave(t, s, NewChain(mine, title, "One"), NewChain(theirs, title, "One"))
	}
	slices.Sort(want)
	for _, limit := range []int{1, 2, 7, 22, 23, 24, 1000} {
		wantSame(t, fmt.Sprintf("List in pages of %d", limit), want, listed(t, s, mine, limit))
	}
	if got := listed(t, s, "user:test:nobody", 3); len(got) != 0 {
		t.Errorf("List(no such space) = %q, want none", got)
	}
}

func listEqualTitles(t *testing.T, s Protocols) {
	var want []string
	for _, id := range []string{"c", "a", "d", "b"} {
		c := NewChain(mine, "Same", "One")
		c.ID = id
		mustSave(t, s, c)
		want = append(want, id)
	}
	slices.Sort(want)
	var got []string
	for cursor := ""; ; {
		chains, next, err := s.List(t.Context(), mine, cursor, 1)
		if err != nil || len(chains) != 1 || len(got) > len(want) {
			t.Fatalf("List = %d chains, %v, want 1, nil", len(chains), err)
		}
		got = append(got, chains[0].ID)
		if cursor = next; next == "" {
			break
		}
	}
	if !slices.Equal(want, got) {
		t.Errorf("List of equal titles = %q, want %q", got, want)
	}
}

func listRefuses(t *testing.T, s Protocols) {
	mustSave(t, s, NewChain(mine, "A", "One"))
	for _, cursor := range []string{"nonsense", "%%%", "AAAA", "{}"} {
		_, _, err := s.List(t.Context(), mine, cursor, 10)
		wantCode(t, fmt.Sprintf("List(cursor %q)", cursor), err, fault.InvalidArgument)
	}
	for _, limit := range []int{0, -1} {
		_, _, err := s.List(t.Context(), mine, "", limit)
		wantCode(t, fmt.Sprintf("List(limit %d)", limit), err, fault.InvalidArgument)
	}
}

// listUnderChange checks that chains which exist all the time are listed exactly
// once.
func listUnderChange(t *testing.T, s Protocols) {
	chains := make([]protocol.Chain, 6)
	for i := range chains {
		chains[i] = NewChain(mine, fmt.Sprintf("%d", i), "One")
	}
	mustSave(t, s, chains...)
	page, cursor, err := s.List(t.Context(), mine, "", 3)
	if err != nil || len(page) != 3 || cursor == "" {
		t.Fatalf("List = %d chains, cursor %q, %v, want 3, more", len(page), cursor, err)
	}
	mustDelete(t, s, chains[0], 1)  // listed already
	mustDelete(t, s, chains[2], 1)  // the cursor's own
	mustDelete(t, s, chains[4], 1)  // still to come
	mustReplace(t, s, chains[5], 1) // still to come
	mustSave(t, s, NewChain(mine, "00", "One"), NewChain(mine, "45", "One"))
	rest, next, err := s.List(t.Context(), mine, cursor, 10)
	if err != nil || next != "" {
		t.Fatalf("List(after) = next %q, %v, want the end", next, err)
	}
	var got []string
	for _, c := range rest {
		got = append(got, fmt.Sprintf("%s@%d", c.Title, c.Revision))
	}
	if want := []string{"3@1", "45@1", "5@2"}; !slices.Equal(want, got) {
		t.Errorf("List(after changes) = %q, want %q", got, want)
	}
}

func listWhileWriting(t *testing.T, s Protocols) {
	var want []string
	for i := range 40 {
		title := fmt.Sprintf("stays %02d", i)
		want = append(want, title)
		mustSave(t, s, NewChain(mine, title, "One"))
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			c := NewChain(mine, fmt.Sprintf("stays %02d and goes", i%40), "One")
			revisions, err := s.SaveChains(t.Context(), fresh(c))
			if err == nil {
				err = s.DeleteChain(t.Context(), mine, c.ID, revisions[0])
			}
			if err != nil {
				t.Errorf("write beside the list = %v, want nil", err)
				return
			}
		}
	}()
	for range 5 {
		got := slices.DeleteFunc(listed(t, s, mine, 3), func(title string) bool { return strings.HasSuffix(title, "goes") })
		wantSame(t, "List while others write", want, got)
	}
	close(stop)
	<-stopped
}

func countExact(t *testing.T, s Protocols) {
	wantCount(t, s, mine, 0)
	var chains []protocol.Chain
	for i := range 30 {
		chains = append(chains, NewChain(mine, fmt.Sprintf("%d", i), "One", "Two"))
	}
	mustSave(t, s, chains...)
	mustSave(t, s, NewChain(theirs, "1", "One"))
	wantCount(t, s, mine, 30)
	mustReplace(t, s, chains[3], 1)
	wantCount(t, s, mine, 30)
	mustDelete(t, s, chains[4], 1)
	wantCount(t, s, mine, 29)
	wantCount(t, s, theirs, 1)
	mustReplace(t, s, chains[4], 0)
	wantCount(t, s, mine, 30)
}
