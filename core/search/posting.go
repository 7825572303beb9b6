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
func (d Document) Postings() []Posting {
	out := make([]Posting, 0, d.words+2*len(d.names))
	for w := d.walk(); w.next(); {
		out = append(out, Posting{w.term(), w.best()})
	}
	for _, n := range d.names {
		for _, t := range n.terms() {
			out = append(out, Posting{t, InName})
		}
	}
	slices.SortFunc(out, func(a, b Posting) int {
		return cmp.Or(strings.Compare(a.Term, b.Term), cmp.Compare(b.Standing, a.Standing))
	})
	return slices.CompactFunc(out, func(a, b Posting) bool { return a.Term == b.Term })
}
