package protocol

import (
	"iter"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The largest numbers of tags of a step.
const (
	maxHeadingTags = 6
	maxWordTags    = 8
	maxCodeTags    = 5
)

// maxTagged is how many bytes of a step's text are read for tags, so that a long
// step costs little more than a short one.
const maxTagged = 128 << 10

var (
	bulletLine = regexp.MustCompile(`^\s*[-*+]\s+(.*)`)
	declares   = []string{"function", "func", "def", "fn", "class", "const", "interface", "type", "struct", "import"}
	codeWords  = []string{"from", "return", "function", "class", "const", "interface", "type", "struct", "import", "async", "static"}
)

// Tags returns the search tags of a step: words of its heading and bullets,
// then names from its code. Only the first maxTagged bytes of the text count.
func Tags(s Step) []string {
	text := beginning(s.Text, maxTagged)
	var tags []string
	add := func(tag string, limit int) {
		if len(tags) < limit && !slices.Contains(tags, tag) {
			tags = append(tags, tag)
		}
	}
	first, _, _ := strings.Cut(text, "\n")
	if _, headed := s.ownHeading(); headed {
		first = s.Label
	}
	for i, w := range words(first, 3) {
		if i < maxHeadingTags {
			add(w, maxWordTags)
		}
	}
	for line := range strings.Lines(text) {
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
	for name := range codeNames(text) {
		if add(name, limit); len(tags) == limit {
			break
		}
	}
	return tags
}

// beginning is the first n bytes of s, without a character that would be cut in
// two.
func beginning(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// words are the lower-cased words of at least n characters.
func words(s string, n int) []string {
	fields := strings.FieldsFunc(strings.ToLower(s), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	return slices.DeleteFunc(fields, func(w string) bool { return len([]rune(w)) < n })
}

func firstTwo(s []string) []string { return s[:min(2, len(s))] }

// codeNames yields the names that fenced code declares or imports.
func codeNames(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		if !strings.Contains(text, "```") && !strings.Contains(text, "~~~") {
			return
		}
		for _, f := range outlineOf(text).fences {
			for name := range declaredNames(f.content) {
				if name = strings.ToLower(name); !slices.Contains(codeWords, name) && !yield(name) {
					return
				}
			}
		}
	}
}

// declaredNames yields the names of 3 to 49 characters that follow a word of
// declares. It takes one pass, because code can be long: a regular expression
// takes ten times as long.
func declaredNames(code string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for code != "" {
			var word string
			word, code = nextWord(code)
			if !slices.Contains(declares, word) {
				continue
			}
			name, rest := leadingWord(strings.TrimLeft(beforeName(word, code), blanks))
			if len(name) < 3 || len(name) > 49 || name[0] <= '9' {
				continue
			}
			code = rest
			if !yield(name) {
				return
			}
		}
	}
}

const (
	blanks      = " \t\n\f\r"
	maxReceiver = 200 // bytes
)

// beforeName is the text after a declaring word, without the receiver of a func or
// the brace of an import. It begins with a blank; it is empty if no name follows.
func beforeName(word, rest string) string {
	inner := strings.TrimLeft(rest, blanks)
	switch {
	case inner == rest:
		return ""
	case word == "func" && strings.HasPrefix(inner, "("):
		rest = inner[strings.IndexByte(inner[:min(len(inner), maxReceiver)], ')')+1:]
	case word == "import" && strings.HasPrefix(inner, "{"):
		rest = inner[1:]
	}
	if rest == "" || strings.IndexByte(blanks, rest[0]) < 0 {
		return ""
	}
	return rest
}

// nextWord returns the first word of s and the rest.
func nextWord(s string) (word, rest string) {
	i := 0
	for i < len(s) && !wordByte(s[i]) {
		i++
	}
	return leadingWord(s[i:])
}

// leadingWord returns the word that s begins with and the rest.
func leadingWord(s string) (word, rest string) {
	n := 0
	for n < len(s) && wordByte(s[n]) {
		n++
	}
	return s[:n], s[n:]
}

func wordByte(b byte) bool {
	return 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9' || b == '_'
}
