package search

import (
	"cmp"
	"slices"
	"strings"
)

// Standing is the most important part of a chain that has a term.
type Standing uint8

// Standings, the least important first. The numbers are stored.
const (
	InText Standing = iota // or in the description
	InTags
	InLabel
	InName // title, alternative title, slug or trigger
)

var standingOf = [fields]Standing{InName, InName, InName, InName, InLabel, InTags, InTags, InText, InText}

// Weight is approximately what a word in such a place adds to a score.
func (s Standing) Weight() float64 {
	return [4]float64{fieldWeight[fieldText], fieldWeight[fieldTags], fieldWeight[fieldLabel], fieldWeight[fieldTitle]}[s&3]
}

// Posting is a term of a chain with its standing.
type Posting struct {
	Term     string
	Standing Standing
}

// Postings are the entries of a chain in an index that ranks by itself: the terms
// of Query.Words and Query.Names, distinct and sorted by term.
func (a Analysis) Postings() []Posting {
	out := make([]Posting, 0, len(a.entries)+2*len(a.names))
	for _, e := range a.entries {
		out = append(out, Posting{e.term, e.best()})
	}
	for _, n := range a.names {
		for _, t := range n.terms() {
			out = append(out, Posting{t, InName})
		}
	}
	slices.SortFunc(out, func(a, b Posting) int {
		return cmp.Or(strings.Compare(a.Term, b.Term), cmp.Compare(b.Standing, a.Standing))
	})
	return slices.CompactFunc(out, func(a, b Posting) bool { return a.Term == b.Term })
}

// best is the best standing of the word.
func (e *entry) best() Standing {
	best := InText
	for _, p := range e.places {
		best = max(best, standingOf[p.field()])
	}
	return best
}
