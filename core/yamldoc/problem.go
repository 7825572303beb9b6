package yamldoc

import (
	"fmt"
	"strings"

	"github.com/kairos-mcp/kairos/sdk/fields"
)

// Problem is one error in a document.
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

// LoadError lists what is wrong with a document: all problems in the order of the file.
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

// Suggest returns ", did you mean …?" or an empty string.
func Suggest(name string, known []string) string {
	if closest := fields.Closest(name, known); closest != "" {
		return fmt.Sprintf(", did you mean %q?", closest)
	}
	return ""
}
