package decision

import (
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"sync"

	"github.com/kairos-mcp/kairos/sdk/fields"
)

// Problem is one error in a tree.
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

// LoadError is the error of Compile: all problems in the order of the file.
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
		names = append(names, jsonName(t.Field(i)))
		names = append(names, jsonNames(t.Field(i).Type)...)
	}
	return names
}

// jsonName returns the JSON name of a field, which is also its name in CEL.
func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
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

// suggest returns ", did you mean …?" or an empty string.
func suggest(name string, known []string) string {
	if closest := fields.Closest(name, known); closest != "" {
		return fmt.Sprintf(", did you mean %q?", closest)
	}
	return ""
}
