package protocol

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// How many tags a step has at most, of each kind.
const (
	maxHeadingTags = 6
	maxWordTags    = 8
	maxCodeTags    = 5
)

var (
	bulletLine = regexp.MustCompile(`^\s*[-*+]\s+(.*)`)
	codeName   = regexp.MustCompile(`\b(?:function|func(?:\s+\([^)]*\))?|def|fn|class|const|interface|type|struct|import(?:\s+\{)?)` +
		`\s+([A-Za-z_][A-Za-z0-9_]{2,48})\b`)
	codeWords = []string{"from", "return", "function", "class", "const", "interface", "type", "struct", "import", "async", "static"}
)

// Tags returns the search tags of a step: words of its heading and bullets,
// then names from its code.
func Tags(s Step) []string {
	var tags []string
	add := func(tag string, limit int) {
		if len(tags) < limit && !slices.Contains(tags, tag) {
			tags = append(tags, tag)
		}
	}
	first, _, _ := strings.Cut(s.Text, "\n")
	for i, w := range words(first, 3) {
		if i < maxHeadingTags {
			add(w, maxWordTags)
		}
	}
	for line := range strings.Lines(s.Text) {
		if len(tags) >= maxWordTags {
			break
		}
		if m := bulletLine.FindStringSubmatch(line); m != nil {
			for _, w := range firstTwo(words(m[1], 4)) {
				add(w, maxWordTags)
			}
		}
	}
	limit := len(tags) + maxCodeTags
	for _, name := range codeNames(s.Text) {
		add(name, limit)
	}
	return tags
}

// words are the lower-cased words of at least n characters.
func words(s string, n int) []string {
	fields := strings.FieldsFunc(strings.ToLower(s), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	return slices.DeleteFunc(fields, func(w string) bool { return len([]rune(w)) < n })
}

func firstTwo(s []string) []string { return s[:min(2, len(s))] }

// codeNames are the names that fenced code declares or imports.
func codeNames(text string) []string {
	if !strings.Contains(text, "```") && !strings.Contains(text, "~~~") {
		return nil
	}
	var out []string
	for _, f := range outlineOf(text).fences {
		for _, m := range codeName.FindAllStringSubmatch(f.content, -1) {
			if name := strings.ToLower(m[1]); !slices.Contains(codeWords, name) {
				out = append(out, name)
			}
		}
	}
	return out
}
