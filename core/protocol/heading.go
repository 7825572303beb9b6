package protocol

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"github.com/kairos-mcp/kairos/sdk/plain"
)

const separators = `[\s\p{Zs}:.)\-–—·•]`

// The prefixes that number a step: "STEP 1 —", "3.", "007 —", "2b)".
var numberings = []*regexp.Regexp{
	regexp.MustCompile(`^(?i:step)[\s\p{Zs}]+\d+(?:` + separators + `+|$)`),
	regexp.MustCompile(`^\d+[\s\p{Zs}]*[:.)\-–—·•]` + separators + `*`),
	regexp.MustCompile(`^\d+[A-Za-z][\s\p{Zs}]*[:.)–—·•]` + separators + `*`),
}

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

// warnLabels names what the labels of a protocol lose besides the numbers of its
// steps, which count up in the order of the steps.
func warnLabels(p *parse, headings []heading, steps []Step) {
	numbers := make([]int, len(headings))
	for i, h := range headings {
		numbers[i] = numberOf(h.text)
	}
	for i, h := range headings {
		n, lost := numbers[i], strings.TrimSpace(strings.TrimSuffix(h.text, steps[i].Label))
		counts := n >= 0 && (n == i+1 || n == i || i > 0 && n == numbers[i-1]+1 || i+1 < len(numbers) && n == numbers[i+1]-1)
		if lost == "" || counts || numberings[0].MatchString(h.text) {
			continue
		}
		p.warn(h.start, steps[i].Label, fmt.Sprintf("the label loses %q: people read the whole heading, replies to agents name the label; "+
			"begin the heading with a word to keep it", lost))
	}
}

// stepNumber matches a heading that begins with the number of its step, and not with
// more than that.
var stepNumber = regexp.MustCompile(`^(?:(?i:step)[\s\p{Zs}]+)?(\d{1,6})(?:[\s\p{Zs}]*[:.)\-–—·•]+[\s\p{Zs}]+|[.):])[^\d]`)

// numberOf is the number of the step with which a heading begins; -1: it has none.
func numberOf(heading string) int {
	m := stepNumber.FindStringSubmatch(heading)
	if m == nil {
		return -1
	}
	n, _ := strconv.Atoi(m[1]) // the pattern admits digits only
	return n
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
