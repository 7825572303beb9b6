package search

import (
	"unicode/utf8"
)

// Typos is how many typing errors are tolerated in a word: none below four
// letters, one up to seven, two in longer words.
func Typos(word string) int {
	switch n := utf8.RuneCountInString(word); {
	case n < 4:
		return 0
	case n < 8:
		return 1
	default:
		return 2
	}
}

// Distance is the number of typing errors between two words: letters left out,
// added, changed, or swapped with their neighbour. It is limit+1 if there are more
// than limit.
func Distance(a, b string, limit int) int {
	if a == b {
		return 0
	}
	var bufA, bufB [maxWord]rune
	x, y := appendRunes(bufA[:0], a), appendRunes(bufB[:0], b)
	if len(x) < len(y) {
		x, y = y, x
	}
	if len(x)-len(y) > limit {
		return limit + 1
	}
	return min(aligned(x, y, limit), limit+1)
}

// aligned fills the table of distances row by row; it keeps three rows.
func aligned(x, y []rune, limit int) int {
	var space [3][maxWord + 1]int
	rows := [3][]int{space[0][:], space[1][:], space[2][:]}
	if len(y) > maxWord {
		for i := range rows {
			rows[i] = make([]int, len(y)+1)
		}
	}
	before, last, row := rows[0], rows[1], rows[2]
	for j := range y {
		last[j+1] = j + 1
	}
	last[0] = 0
	for i := range x {
		row[0] = i + 1
		best := row[0]
		for j := range y {
			cost := 1
			if x[i] == y[j] {
				cost = 0
			}
			d := min(last[j]+cost, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && x[i] == y[j-1] && x[i-1] == y[j] {
				d = min(d, before[j-1]+1)
			}
			row[j+1] = d
			best = min(best, d)
		}
		if best > limit {
			return limit + 1
		}
		before, last, row = last, row, before
	}
	return last[len(y)]
}

func appendRunes(to []rune, s string) []rune {
	for _, r := range s {
		to = append(to, r)
	}
	return to
}
