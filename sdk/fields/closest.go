package fields

import (
	"fmt"
	"slices"
	"strings"
)

// Suggestion ends a message about a name that is not known with the name that
// was probably meant; empty if none is close.
func Suggestion(name string, known []string) string {
	if closest := Closest(name, known); closest != "" {
		return fmt.Sprintf("; did you mean %q?", closest)
	}
	return ""
}

// Closest is the one of the known names that somebody may have meant by a name
// that is not known: the one with the fewest typing errors in between, or else
// a short or a long form of the name. It is empty where none is close.
func Closest(name string, known []string) string {
	if len(name) > 64 {
		return ""
	}
	best, distance := "", min(len(name), max(1, len(name)/3)+1) // of one character nothing would be left
	short, shortDistance := "", len(name)+maxExpansion
	for _, k := range slices.Sorted(slices.Values(known)) {
		if strings.EqualFold(name, k) {
			return k
		}
		if len(k) > len(name)+maxExpansion {
			continue // far from any name of this length
		}
		d := editDistance(name, k)
		if d < distance {
			best, distance = k, d
		}
		if d < shortDistance && (abbreviates(k, name) || abbreviates(name, k)) {
			short, shortDistance = k, d
		}
	}
	if best == "" {
		return short
	}
	return best
}

// Misspelt is the one of the known names that a name is with one or two typing errors,
// or with letters of the other case. In a known name of three to five characters it is
// one error, in a shorter one none. It is empty if there is none, and for a name that is
// known.
func Misspelt(name string, known []string) string {
	if len(name) > 64 || slices.Contains(known, name) {
		return ""
	}
	best, fewest := "", 3
	for _, k := range slices.Sorted(slices.Values(known)) {
		if len(k) > len(name)+2 || len(name) > len(k)+2 {
			continue
		}
		allowed := min(len(k)/3, 2)
		if d := editDistance(strings.ToLower(name), strings.ToLower(k)); d <= allowed && d < fewest {
			best, fewest = k, d
		}
	}
	return best
}

// maxExpansion is how many characters an abbreviation leaves out at most.
const maxExpansion = 16

// abbreviates reports whether the short name is the long one with characters
// left out, as cmd is of command. Two names that begin differently, and a short
// name of one or two characters, are a coincidence.
func abbreviates(short, long string) bool {
	if len(short) < 3 || len(long) <= len(short) || len(long)-len(short) > maxExpansion || short[0] != long[0] {
		return false
	}
	at := 0
	for i := 0; i < len(long) && at < len(short); i++ {
		if long[i] == short[at] {
			at++
		}
	}
	return at == len(short)
}

// editDistance counts the insertions, deletions, replacements and swaps of
// neighbours between two names.
func editDistance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			replaced := rows[i-1][j-1]
			if a[i-1] != b[j-1] {
				replaced++
			}
			rows[i][j] = min(replaced, rows[i-1][j]+1, rows[i][j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
