package quality

import (
	"regexp"
	"strings"
)

// sign reports whether a text has a property that moves a scale.
type sign func(source) bool

// source is the text of a step, as it is and in lower case.
type source struct{ text, lower string }

// The signs of each scale. Each counts once however often it occurs, so that a
// long text is not better than a short one that says the same.
var (
	concrete = []sign{
		pattern("`[^`\n]+`", "`"), // code
		func(s source) bool { return fenced(s.text) },
		number(`\d+(?:\.\d+)?\s*(?:%|ms|s|min|h|MB|GB)\b`), // a quantity
		listed,
	}
	vague = []sign{
		word("something", "somehow", "stuff", "things", "whatever"), pattern(`(?i)\b(?:etc\.?|and so on)(?:\s|$)`, "etc", "and so on"),
		word("maybe", "perhaps", "probably", "roughly"), word("as needed", "as appropriate", "as necessary"),
	}
	experience = []sign{
		word("because", "so that", "otherwise", "or else"), word("never", "avoid", "do not", "don't", "beware", "careful"),
		word("unless", "except", "only if", "edge case", "corner case"),
		word("roll back", "rollback", "recover", "undo", "fall back", "fallback", "revert"),
	}
	everyday   = []sign{word("hello world", "hello, world", "lorem ipsum", "foo bar", "foobar"), word("todo", "tbd", "fixme")}
	general    = []sign{word("any", "every", "each", "all", "whichever"), word("for example", "such as", "e.g.")}
	particular = []sign{
		word("localhost", "127.0.0.1"), pattern(`(?:^|\s)/(?:home|Users|tmp)/\S`, "/home/", "/users/", "/tmp/"),
		number(`\d{1,3}(?:\.\d{1,3}){3}\b`), pattern(`[\w.+-]@[\w-]+\.\w`, "@"),
	}
	lasting  = []sign{word("always", "principle", "invariant", "policy", "convention"), word("must", "has to", "have to")}
	fleeting = []sign{
		word("today", "tomorrow", "yesterday", "this week", "right now", "currently", "at the moment"),
		word("temporary", "temporarily", "workaround", "hack"), number(`(?:19|20)\d\d-\d\d-\d\d\b`), word("deprecated", "legacy", "beta"),
	}
)

// word is the sign that one of the words occurs, in capitals or not.
func word(words ...string) sign {
	return func(s source) bool { return hasWord(s.lower, words) }
}

// pattern is the sign that an expression matches. Each match has one of the hints
// in lower case, so that most texts are not searched with the expression.
func pattern(expression string, hints ...string) sign {
	re := regexp.MustCompile(expression)
	return func(s source) bool {
		for _, hint := range hints {
			if strings.Contains(s.lower, hint) {
				return re.MatchString(s.text)
			}
		}
		return false
	}
}

// number is the sign that an expression matches where a number begins.
func number(expression string) sign {
	re := regexp.MustCompile("^(?:" + expression + ")")
	return func(s source) bool {
		for i := range len(s.lower) {
			if isDigit(s.lower[i]) && (i == 0 || !wordByte(s.lower[i-1])) && re.MatchString(s.text[i:]) {
				return true
			}
		}
		return false
	}
}

// listed reports whether a line begins with a bullet or a number of a list.
func listed(s source) bool {
	for line := range strings.Lines(s.text) {
		line = strings.TrimLeft(line, " \t\r\f\v")
		mark := strings.TrimLeft(line, "0123456789")
		marks := "-*+"
		if len(mark) < len(line) {
			marks = ".)"
		}
		if len(mark) > 1 && strings.IndexByte(marks, mark[0]) >= 0 && strings.IndexByte(" \t\r\n\f", mark[1]) >= 0 {
			return true
		}
	}
	return false
}

func isDigit(b byte) bool { return '0' <= b && b <= '9' }
