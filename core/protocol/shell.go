package protocol

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// shellWord is a value as one single-quoted POSIX shell word, for a place. A quoted
// word is safe only where the shell expects words: inside quotes, comments and the
// like it would be split.
func shellWord(value, place string) (string, error) {
	if strings.ContainsRune(value, 0) {
		return "", errors.New("a value for a command contains a NUL character")
	}
	if place != "" {
		return "", fmt.Errorf("a value is quoted when it is put into a command, so it cannot stand %s", place)
	}
	return "'" + strings.ReplaceAll(value, "'", `'\''`) + "'", nil
}

// shellReader reads a command from one template to the next. The zero value is at the
// start of a command.
type shellReader struct{ read int } // tokens up to here are complete, whatever follows

// placeAfter names the context that follows a piece of shell; empty: a quoted word
// is safe there. It knows less than a shell and rejects in doubt. The pieces that
// it is called with are beginnings of one command, each longer than the last.
func (s *shellReader) placeAfter(text string) string {
	const ahead = 3 // bytes that tell what a token is
	for i := s.read; i < len(text); {
		if i <= len(text)-ahead {
			s.read = i
		}
		length, place := shellToken(text[i:], i == 0 || strings.IndexByte(" \t\n;&|()", text[i-1]) >= 0)
		if place != "" {
			return place
		}
		i += length
	}
	return ""
}

// shellToken is the length of the first token of the text, or the context after it
// if it does not end or is not understood.
func shellToken(text string, atWord bool) (int, string) {
	switch {
	case text[0] == '#' && atWord:
		if end := strings.IndexByte(text, '\n'); end >= 0 {
			return end, ""
		}
		return 0, "in a comment"
	case text[0] == '\'':
		if end := strings.IndexByte(text[1:], '\''); end >= 0 {
			return end + 2, ""
		}
		return 0, inQuotes
	case text[0] == '"':
		return doubleQuoted(text)
	case text[0] == '\\' && len(text) == 1:
		return 0, "behind a backslash"
	case text[0] == '\\':
		return 2, ""
	case strings.HasPrefix(text, "<<<"):
		return 3, ""
	case strings.HasPrefix(text, "<<"):
		return 0, "behind a here-document"
	case text[0] == '`':
		return 0, "behind a backquote; use $(...) instead"
	case strings.HasPrefix(text, "$'"):
		return 0, "behind $'...'"
	case strings.HasPrefix(text, "(("):
		return 0, "behind ((...)); assign it to a variable first"
	}
	return 1, ""
}

const inQuotes = "inside quotes; take the quotes away, or assign it to a variable first"

// plainSubstitution is a substitution whose end is certain.
var plainSubstitution = regexp.MustCompile("^(?:\\$\\{[^{}$\"'`\\\\]*\\}|\\$\\([^()\"'`\\\\#<\n]*\\))")

// doubleQuoted parses a quoted string. Substitutions in it have quotes of their
// own: nothing is trusted after those that are not plain.
func doubleQuoted(text string) (int, string) {
	for i := 1; i < len(text); {
		rest := text[i:]
		switch {
		case rest[0] == '"':
			return i + 1, ""
		case rest[0] == '\\':
			i++
		case rest[0] == '`', strings.HasPrefix(rest, "$("), strings.HasPrefix(rest, "${"):
			plain := plainSubstitution.FindString(rest)
			if plain == "" || strings.Contains(plain, "case") {
				return 0, "behind a substitution in double quotes; assign it to a variable first"
			}
			i += len(plain) - 1
		}
		i++
	}
	return 0, inQuotes
}
