package quality

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
)

// Report is what a store answered to the queries of a set, in their order.
type Report struct{ Answers []Answer }

// Answer is what a store answered to a query.
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

// gain is the normalised discounted cumulative gain of the first ten. The last
// of the wanted protocols is worth one, each before it one more.
func (a Answer) gain() float64 {
	var got, ideal float64
	for i, title := range a.Query.Want {
		worth := float64(len(a.Query.Want) - i)
		ideal += worth / math.Log2(float64(i+2))
		if at := a.place(title); at >= 0 && at < 10 {
			got += worth / math.Log2(float64(at+2))
		}
	}
	return got / ideal
}

// String says what was asked, wanted and found.
func (a Answer) String() string {
	var found []string
	for _, f := range a.Found[:min(5, len(a.Found))] {
		found = append(found, fmt.Sprintf("%s %.2f", f.Title, f.Score))
	}
	return fmt.Sprintf("%s %q wants %q, found [%s]", a.Query.Kind, a.Query.Text, a.Query.Want, strings.Join(found, " | "))
}

// Figures are the figures of some queries. The first three are shares, 0..1, of
// the queries that want something.
type Figures struct {
	Queries      int
	Recall1      float64 // the best protocol comes first
	Recall5      float64 // it is among the first five
	NDCG10       float64
	FalseMatches int // queries that want nothing and found something
}

// Figures are those of the queries of the kinds; of all without one.
func (r Report) Figures(kinds ...Kind) Figures {
	var f Figures
	wanted := 0.0
	for _, a := range r.of(kinds) {
		f.Queries++
		if len(a.Query.Want) == 0 {
			if len(a.Found) > 0 {
				f.FalseMatches++
			}
			continue
		}
		wanted++
		f.NDCG10 += a.gain()
		if a.within(1) {
			f.Recall1++
		}
		if a.within(5) {
			f.Recall5++
		}
	}
	if wanted > 0 {
		f.Recall1, f.Recall5, f.NDCG10 = f.Recall1/wanted, f.Recall5/wanted, f.NDCG10/wanted
	}
	return f
}

func (r Report) of(kinds []Kind) []Answer {
	return slices.DeleteFunc(slices.Clone(r.Answers), func(a Answer) bool {
		return len(kinds) > 0 && !slices.Contains(kinds, a.Query.Kind)
	})
}

// Misses are the answers without the best protocol among the first five, and
// those to gibberish that found something.
func (r Report) Misses(kinds ...Kind) []Answer {
	return slices.DeleteFunc(r.of(kinds), func(a Answer) bool {
		if len(a.Query.Want) == 0 {
			return len(a.Found) == 0
		}
		return a.within(5)
	})
}

// SameTop is the share, 0..1, of the queries that want something for which both
// stores found the same protocol first, or both none.
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

// Print writes the figures as a table, a line for each kind.
func (r Report) Print(to io.Writer) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(cells ...any) { _, _ = fmt.Fprintf(w, strings.Repeat("%v\t", len(cells))+"\n", cells...) } // Flush has the error
	row("kind", "queries", "recall@1", "recall@5", "nDCG@10", "false matches")
	share := func(v float64) string { return fmt.Sprintf("%.3f", v) }
	for _, k := range Kinds() {
		f := r.Figures(k)
		if k == Gibberish {
			row(k, f.Queries, "", "", "", f.FalseMatches)
			continue
		}
		row(k, f.Queries, share(f.Recall1), share(f.Recall5), share(f.NDCG10), "")
	}
	f := r.Figures()
	row("all", f.Queries, share(f.Recall1), share(f.Recall5), share(f.NDCG10), f.FalseMatches)
	return w.Flush()
}
