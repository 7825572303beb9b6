package main

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// reference is a template that the host replaces by one quoted word.
var reference = regexp.MustCompile(`\{\{\s*((?:input|steps)\.[^\s{}]+)\s*\}\}`)

// mark stands around the number of a reference while the command is parsed. Parsers
// keep it as a part of a word.
const mark = "\x01"

// readsNoOptions are programs whose words cannot do anything else than be printed or
// compared, from that word on.
var readsNoOptions = map[string]int{"echo": 1, "printf": 2, "[": 1}

// optionsInValues warns of values that a program may read as an option, because they
// are a word's beginning: a value is one word, and "--version" is one, too.
func optionsInValues(pointer, command string) (found []driver.Diagnostic) {
	var names []string
	marked := reference.ReplaceAllStringFunc(strings.ReplaceAll(command, mark, ""), func(r string) string {
		names = append(names, reference.FindStringSubmatch(r)[1])
		return mark + strconv.Itoa(len(names)-1) + mark
	})
	for _, words := range commandsOf(marked) {
		for i, w := range words {
			name, begins := beginning(w, names)
			switch {
			case !begins:
			case i == 0:
				found = append(found, driver.Warning(pointer, fmt.Sprintf("{{ %s }} is the first word of a command, so whoever gives the value chooses the program", name)))
			case mayBeOption(words[:i]):
				found = append(found, driver.Warning(pointer, fmt.Sprintf(
					"{{ %s }} begins a word, so %s may read a value such as --version as an option: write -- before it where the program knows that, "+
						"or begin the word otherwise (./{{…}}, --name={{…}})", name, withNames(words[0], names))))
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

// beginning is the reference that a word begins with.
func beginning(word string, names []string) (name string, begins bool) {
	number, begins := strings.CutPrefix(word, mark)
	number, _, _ = strings.Cut(number, mark)
	at, err := strconv.Atoi(number)
	if !begins || err != nil || at < 0 || at >= len(names) { // $'\x01' may forge a mark
		return "", false
	}
	return names[at], true
}

// withNames is a word with the references instead of their numbers.
func withNames(word string, names []string) string {
	for i, name := range names {
		word = strings.ReplaceAll(word, mark+strconv.Itoa(i)+mark, name)
	}
	return word
}

// commandsOf returns the words of each simple command of a text, without redirections and
// assignments. It is for warnings: of a text that cannot be parsed to its end it returns
// the commands before the error, and of one that is too large none.
func commandsOf(text string) (all [][]string) {
	if !parsable(text) {
		return nil
	}
	defer func() { _ = recover() }() // the parser is not ours, and must not end the driver
	eachNode(text, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CallExpr:
			if len(n.Args) > 0 {
				all = append(all, wordsOf(n.Args))
			}
		case *syntax.DeclClause:
			words := []string{n.Variant.Value}
			for _, a := range n.Args {
				if a.Naked && a.Value != nil {
					words = append(words, wordOf(a.Value))
				}
			}
			all = append(all, words)
		}
		return true
	})
	return all
}
