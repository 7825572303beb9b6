package decision

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Problem is one thing wrong with a tree.
type Problem struct {
	File    string `json:"file"`
	Line    int    `json:"line"` // 1-based
	Column  int    `json:"column"`
	Rule    string `json:"rule,omitempty"` // "challenges[1].evidence[0]", with the rule's name if it has one
	Message string `json:"message"`
}

func (p Problem) String() string {
	if p.Rule == "" {
		return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Message)
	}
	return fmt.Sprintf("%s:%d: %s: %s", p.File, p.Line, p.Rule, p.Message)
}

// LoadError is the error of Compile: everything that is wrong, in the order of the file.
type LoadError struct {
	Problems []Problem
}

// Error lists the problems, one line each.
func (e *LoadError) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// undefinedName finds the name in CEL's messages about unknown facts.
var undefinedName = regexp.MustCompile(`^(?:undefined field|undeclared reference to) '([^']+)'`)

// factNames are the names that a condition may have meant.
var factNames = sync.OnceValue(func() []string { return jsonNames(reflect.TypeFor[Facts]()) })

func jsonNames(t reflect.Type) []string {
	if t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	var names []string
	for i := range t.NumField() {
		names = append(names, t.Field(i).Tag.Get("json"))
		names = append(names, jsonNames(t.Field(i).Type)...)
	}
	return names
}

func explainUndefined(message string) string {
	message = strings.TrimSuffix(message, " (in container '')")
	if strings.Contains(message, "did you mean") {
		return message
	}
	if m := undefinedName.FindStringSubmatch(message); m != nil {
		return message + suggest(m[1], factNames())
	}
	return message
}

// suggest returns `, did you mean "x"?` for the closest of the known names,
// and nothing when none is close.
func suggest(name string, known []string) string {
	if len(name) > 64 {
		return ""
	}
	best, distance := "", max(1, len(name)/3)+1
	for _, k := range slices.Sorted(slices.Values(known)) {
		if d := editDistance(name, k); d < distance {
			best, distance = k, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(", did you mean %q?", best)
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
