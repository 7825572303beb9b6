package main

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// reference is a template that the host replaces by one quoted word.
var reference = regexp.MustCompile(`\{\{\s*((?:input|steps)\.[^\s{}]+)\s*\}\}`)

// mark stands around a reference while words are told apart.
const mark = "\x00"

// readsNoOptions are programs whose words cannot do anything else than be printed or
// compared, from that word on.
var readsNoOptions = map[string]int{"echo": 1, "printf": 2, "[": 1}

// optionsInValues warns of values that a program may read as an option, because they
// are a word's beginning: a value is one word, and "--version" is one, too.
func optionsInValues(pointer, command string) (found []driver.Diagnostic) {
	for _, words := range commandsOf(reference.ReplaceAllString(command, mark+"$1"+mark)) {
		for i, w := range words {
			value, begins := strings.CutPrefix(w, mark)
			value, _, _ = strings.Cut(value, mark)
			switch {
			case !begins:
			case i == 0:
				found = append(found, driver.Warning(pointer, fmt.Sprintf("{{ %s }} is the first word of a command, so whoever gives the value chooses the program", value)))
			case mayBeOption(words[:i]):
				found = append(found, driver.Warning(pointer, fmt.Sprintf(
					"{{ %s }} begins a word, so %s may read a value such as --version as an option: write -- before it where the program knows that, "+
						"or begin the word otherwise (./{{…}}, --name={{…}})", value, strings.ReplaceAll(words[0], mark, ""))))
			}
		}
	}
	return found
}

// mayBeOption reports whether a program may take a word after these for an option.
func mayBeOption(before []string) bool {
	from, harmless := readsNoOptions[path.Base(before[0])]
	return !slices.Contains(before, "--") && (!harmless || len(before) < from)
}

// commandsOf splits a text into simple commands and those into words, as far as quotes,
// separators and blanks tell. Targets of redirections, and assignments in
// front, are left out. It is for warnings: the text is not parsed.
func commandsOf(text string) (all [][]string) {
	var words []string
	var word strings.Builder
	inWord, target := false, false
	var quote rune
	endWord := func() {
		assigns := len(words) == 0 && assignment.MatchString(word.String())
		if inWord && !target && !assigns {
			words = append(words, word.String())
		}
		if inWord {
			target = false
		}
		word.Reset()
		inWord = false
	}
	escaped := false
	for _, r := range text {
		switch {
		case escaped:
			escaped = false
			word.WriteRune(r)
		case r == '\\' && quote != '\'':
			escaped, inWord = true, true
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, inWord = r, true
		case r == ' ' || r == '\t':
			endWord()
		case strings.ContainsRune(";|&\n()`", r):
			endWord()
			all, words = append(all, words), nil
		case r == '>' || r == '<':
			endWord()
			target = true
		default:
			inWord = true
			word.WriteRune(r)
		}
	}
	endWord()
	return append(all, words)
}

var assignment = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)
