package protocol

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"github.com/kairos-mcp/kairos/sdk/plain"
)

const (
	separators = `[\s\p{Zs}:.)\-–—·•]`
	maxName    = 64
)

// The prefixes that number a step: "STEP 1 —", "3.", "007 —", "2b)".
var numberings = []*regexp.Regexp{
	regexp.MustCompile(`^(?i:step)[\s\p{Zs}]+\d+(?:` + separators + `+|$)`),
	regexp.MustCompile(`^\d+[\s\p{Zs}]*[:.)\-–—·•]` + separators + `*`),
	regexp.MustCompile(`^\d+[A-Za-z][\s\p{Zs}]*[:.)–—·•]` + separators + `*`),
}

var namePattern = regexp.MustCompile(`^[a-z_][a-z0-9_]*$`)

// sanitise removes all numbering from a step heading, as long as readable text is
// left.
func sanitise(label string) string {
	label = strings.TrimSpace(label)
	for {
		next := label
		for _, re := range numberings {
			if rest := strings.TrimSpace(next[len(re.FindString(next)):]); readable(rest) {
				next = rest
			}
		}
		if next == label {
			return label
		}
		label = next
	}
}

func readable(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool {
		return !unicode.IsSpace(r) && !plain.Hidden(r) && !strings.ContainsRune("#:.)-–—·•", r)
	}) >= 0
}

// orNothing is the text of a heading; empty if nothing of it can be seen.
func orNothing(text string) string {
	if plain.Empty(text) {
		return ""
	}
	return text
}

// Slug returns the name that a label gives a step: [a-z0-9_]+, not starting with a
// digit, at most 64 characters; empty if the label has no such characters.
func Slug(label string) string {
	var b strings.Builder
	gap := false
	for _, r := range strings.ToLower(label) {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') {
			gap = true
			continue
		}
		if gap && b.Len() > 0 {
			b.WriteByte('_')
		}
		gap = false
		b.WriteRune(r)
	}
	s := b.String()
	if s != "" && s[0] <= '9' {
		s = "_" + s
	}
	if len(s) > maxName {
		s = s[:maxName]
	}
	return strings.TrimRight(s, "_")
}

// nameSteps names each step: by its challenge, else by the slug of its label, else
// by its position. Names of challenges take precedence, so that a label elsewhere
// never takes one.
func nameSteps(steps []Step) []Diagnostic {
	var found []Diagnostic
	taken := map[string]bool{}
	for i := range steps {
		name := ownName(steps[i])
		if name == "" {
			continue
		}
		if taken[name] {
			found = append(found, steps[i].problem("/name", fmt.Sprintf("name %q is already the name of another step", name)))
		}
		taken[name] = true
		steps[i].Name = name
	}
	next := map[string]int{}
	for i := range steps {
		if steps[i].Name != "" {
			continue
		}
		base := Slug(steps[i].Label)
		if base == "" {
			base = fmt.Sprintf("step_%d", i+1)
		}
		steps[i].Name = unique(base, taken, next)
		taken[steps[i].Name] = true
	}
	return found
}

// unique is the base, or the base with the next free number, starting at 2.
func unique(base string, taken map[string]bool, next map[string]int) string {
	if !taken[base] {
		return base
	}
	for n := max(2, next[base]); ; n++ {
		if name := fmt.Sprintf("%s_%d", base, n); !taken[name] {
			next[base] = n + 1
			return name
		}
	}
}

func ownName(s Step) string {
	c, err := CommonOf(s.Challenge)
	if err != nil || !namePattern.MatchString(c.Name) {
		return ""
	}
	return c.Name
}
