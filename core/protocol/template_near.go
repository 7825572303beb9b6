package protocol

import (
	"regexp"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/sdk/fields"
)

const (
	notATemplate = " is not a template and stays as it is"
	templatesAre = "; templates are {{ input.<path> }} and {{ steps.<name>.<path> }}"
)

// The words with which people begin what other programs write as {{ input... }} and
// {{ steps... }}.
var (
	inputWords = []string{"input", "inputs", "param", "params", "parameters", "arg", "args", "arguments", "var", "vars", "variables"}
	stepWords  = []string{"step", "steps", "outputs"}
)

var (
	// indexed is an index of a path in brackets.
	indexed = regexp.MustCompile(`\[\s*["']?([\w-]+)["']?\s*\]`)
	// aPath is a word with others behind dots.
	aPath = regexp.MustCompile(`^[\p{L}_][\p{L}\p{N}_-]*(?:\.[\p{L}\p{N}_-]+)*$`)
	// otherBraces is a reference in the form of another program: {input.x}, ${input.x}.
	otherBraces = regexp.MustCompile(`[$%#]?\{\s*((?:inputs?|steps?)\.[\w.-]*\w)\s*\}`)
	// goWords stand alone in the braces of the templates of Go, as in kubectl -o go-template.
	goWords = []string{"end", "else", "break", "continue"}
)

// eachNear visits text that looks like a template but is not one, with what to say
// about it. In a challenge, where values are filled in, more looks like one than in
// the text of a step, which may be about anything.
func (d declared) eachNear(s string, challenge bool, visit func(message string, at int)) {
	eachBraced(s, func(start, end int) bool {
		text := s[start:end]
		switch {
		case !templatePattern.MatchString(text):
			if meant, near := d.meant(strings.Trim(text, "{} \t\r\n"), challenge); near {
				visit(text+notATemplate+meant, start)
			}
		case challenge && strings.HasSuffix(s[:start], "$"):
			visit("$"+text+" is filled behind a $ that stays; write "+text+" alone", start-1)
		}
		return true
	})
	if !challenge || !strings.Contains(s, "input") && !strings.Contains(s, "step") {
		return
	}
	for _, m := range otherBraces.FindAllStringSubmatchIndex(s, maxFindings) {
		if m[0] > 0 && s[m[0]-1] == '{' || strings.HasPrefix(s[m[1]:], "}") {
			continue // it is part of double braces
		}
		meant, _ := d.meant(s[m[2]:m[3]], true)
		visit(s[m[0]:m[1]]+notATemplate+meant, m[0])
	}
}

// meant ends a message about the inside of braces with the template that it is nearly;
// false: it is nearly none.
func (d declared) meant(inside string, challenge bool) (string, bool) {
	path, filter, _ := strings.Cut(inside, "|")
	path = strings.TrimLeft(indexed.ReplaceAllString(strings.TrimSpace(path), ".$1"), "$")
	dotted := strings.HasPrefix(path, ".")
	path = strings.Trim(path, ".")
	if !aPath.MatchString(path) {
		head := strings.FieldsFunc(path, func(r rune) bool { return r == ' ' || r == '.' })
		return templatesAre, len(head) > 0 && (isWord(head[0], inputWords, challenge) || isWord(head[0], stepWords, challenge))
	}
	head, rest, deep := strings.Cut(path, ".")
	isInput, isSteps := isWord(head, inputWords, challenge), isWord(head, stepWords, challenge)
	_, isStep := d.position[sameName(strings.ToLower(head))]
	switch {
	case isInput && deep:
		return didYouMean("{{ input." + rest + " }}"), true
	case isSteps && strings.Contains(rest, "."):
		return didYouMean("{{ steps." + rest + " }}"), true
	case isSteps && deep:
		return didYouMean("{{ steps." + rest + ".<path> }}"), true
	case isInput || isSteps:
		return templatesAre, true
	case isStep && deep:
		return didYouMean("{{ steps." + path + " }}"), true
	case isStep && !dotted:
		return didYouMean("{{ steps." + path + ".<path> }}"), true
	case d.inputs[head] || challenge && !deep && !dotted && filter == "" && !slices.Contains(goWords, path):
		return didYouMean("{{ input." + path + " }}"), true
	}
	return "", false
}

func didYouMean(template string) string { return "; did you mean " + template + "?" }

// isWord reports whether a word is one of the words, or one of the first two misspelt.
// In the text of a step only those two count.
func isWord(word string, words []string, challenge bool) bool {
	return fields.Misspelt(word, words[:2]) != "" || slices.Contains(words[:2], word) || challenge && slices.Contains(words, strings.ToLower(word))
}
