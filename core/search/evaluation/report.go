package evaluation

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/kairos-mcp/kairos/core/search"
)

// Report has the answers of a store to the queries of a set, in order.
type Report struct{ Answers []Answer }

// Answer is the answer of a store to a query.
type Answer struct {
	Query Query
	Found []Found // best first
}

// Found is one protocol that was found.
type Found struct {
	Title string
	Score float64
}

// place is the 0-based place of a title; -1: not found.
func (a Answer) place(title string) int {
	return slices.IndexFunc(a.Found, func(f Found) bool { return f.Title == title })
}

// within reports whether the best protocol is among the first n that were found.
func (a Answer) within(n int) bool {
	at := a.place(a.Query.Want[0])
	return at >= 0 && at < n
}

// right reports whether the first match is one of the expected protocols.
func (a Answer) right() bool {
	return len(a.Found) > 0 && slices.Contains(a.Query.Want, a.Found[0].Title)
}

// sure reports whether the first match would be begun without asking.
func (a Answer) sure() bool {
	switch len(a.Found) {
	case 0:
		return false
	case 1:
		return search.Sure(a.Found[0].Score, 0)
	}
	return search.Sure(a.Found[0].Score, a.Found[1].Score)
}

// String describes the query, its expected and its found protocols.
func (a Answer) String() string {
	var found []string
	for _, f := range a.Found[:min(5, len(a.Found))] {
		found = append(found, fmt.Sprintf("%s %.2f", f.Title, f.Score))
	}
	return fmt.Sprintf("%s %q wants %q, found [%s]", a.Query.Kind, a.Query.Text, a.Query.Want, strings.Join(found, " | "))
}

// Figures are metrics over some queries. The first three are shares, 0..1, of the
// queries that should find something.
type Figures struct {
	Queries      int
	Recall1      float64 // the best protocol comes first
	Recall5      float64 // it is among the first five
	MRR          float64 // mean of one divided by its place, 0 beyond the tenth
	FalseMatches int     // queries that should find nothing and found something
	Sure         int     // queries whose first match would be begun without asking
	SureWrong    int     // those of them whose first match is wrong
}

// Figures computes the figures of the queries of the kinds, or of all queries.
func (r Report) Figures(kinds ...Kind) Figures {
	var f Figures
	wanted := 0.0
	for _, a := range r.of(kinds) {
		f.Queries++
		if a.sure() {
			f.Sure++
			if !a.right() {
				f.SureWrong++
			}
		}
		if len(a.Query.Want) == 0 {
			if len(a.Found) > 0 {
				f.FalseMatches++
			}
			continue
		}
		wanted++
		if at := a.place(a.Query.Want[0]); at >= 0 && at < 10 {
			f.MRR += 1 / float64(at+1)
		}
		if a.within(1) {
			f.Recall1++
		}
		if a.within(5) {
			f.Recall5++
		}
	}
	if wanted > 0 {
		f.MRR, f.Recall1, f.Recall5 = f.MRR/wanted, f.Recall1/wanted, f.Recall5/wanted
	}
	return f
}

func (r Report) of(kinds []Kind) []Answer {
	return slices.DeleteFunc(slices.Clone(r.Answers), func(a Answer) bool {
		return len(kinds) > 0 && !slices.Contains(kinds, a.Query.Kind)
	})
}

// Of is the report of the queries of one half.
func (r Report) Of(half Half) Report {
	return Report{slices.DeleteFunc(slices.Clone(r.Answers), func(a Answer) bool { return a.Query.Half() != half })}
}

// Misses returns the answers without the best protocol among the first five, and
// those that found something although they should not.
func (r Report) Misses(kinds ...Kind) []Answer {
	return slices.DeleteFunc(r.of(kinds), func(a Answer) bool {
		if len(a.Query.Want) == 0 {
			return len(a.Found) == 0
		}
		return a.within(5)
	})
}

// SameTop is the share, 0..1, of the queries for which both stores agree on the
// first match, or on finding none. Queries that should find nothing do not count.
func (r Report) SameTop(other Report) float64 {
	same, all := 0.0, 0.0
	for i, a := range r.Answers {
		if len(a.Query.Want) == 0 {
			continue
		}
		all++
		if a.top() == other.Answers[i].top() {
			same++
		}
	}
	return same / all
}

func (a Answer) top() string {
	if len(a.Found) == 0 {
		return ""
	}
	return a.Found[0].Title
}

// Table is the figures as a table, a line for each kind and half.
func (r Report) Table() string {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(cells ...any) { _, _ = fmt.Fprintf(w, strings.Repeat("%v\t", len(cells))+"\n", cells...) } // a Builder takes all
	row("kind", "half", "queries", "recall@1", "recall@5", "MRR", "false matches", "sure", "sure and wrong")
	for _, k := range append(Kinds(), all) {
		for _, half := range []Half{Tune, HeldOut} {
			kinds := []Kind{k}
			if k == all {
				kinds = nil
			}
			if f := r.Of(half).Figures(kinds...); f.Queries > 0 {
				row(append([]any{k, half}, f.cells(k)...)...)
			}
		}
	}
	_ = w.Flush()
	return out.String()
}

// all names the row of all kinds in a table.
const all Kind = "all"

// cells are the figures that apply to queries of the kind.
func (f Figures) cells(k Kind) []any {
	share := func(part, of int) string { return fmt.Sprintf("%d (%.0f %%)", part, 100*float64(part)/float64(of)) }
	out := []any{f.Queries, "", "", "", "", f.Sure, f.SureWrong}
	if !k.wantsNothing() {
		for i, v := range []float64{f.Recall1, f.Recall5, f.MRR} {
			out[1+i] = fmt.Sprintf("%.3f", v)
		}
	}
	switch {
	case k.wantsNothing():
		out[4] = share(f.FalseMatches, f.Queries)
	case k == all:
		out[4] = f.FalseMatches
	}
	return out
}
