package main

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// actionSchema declares what actionOf states. A rule has no options: they are written in
// many ways, and stand where they like.
const actionSchema = `{"type":"object","properties":{"command":{"type":"array",` +
	`"description":"the simple commands of the script, each a list of its words: [fly, deploy] matches every command that begins so",` +
	`"items":{"type":"array","items":{"type":"string","minLength":1,"pattern":"^[^-]"},"minItems":1}}}}`

// openMark begins a word whose text is known only when the command runs.
const openMark = "\x00"

// openWords are the words of a command as wordsOf has them, with a mark in front of those
// that variables, substitutions or patterns are part of.
func openWords(words []*syntax.Word) []string {
	var out []string
	for w := range expanded(words) {
		text := wordOf(w)
		if open(w.Parts, false) {
			text = openMark + text
		}
		out = append(out, text)
	}
	return out
}

// open reports whether the text of the parts is known only when the command runs.
func open(parts []syntax.WordPart, quoted bool) bool {
	literal := "" // a backslash may stand in another literal than what it escapes
	for i, p := range parts {
		switch p := p.(type) {
		case *syntax.SglQuoted:
		case *syntax.Lit:
			literal += p.Value
			if !quoted && (hasPattern(literal) || i == 0 && strings.HasPrefix(literal, "~")) {
				return true
			}
		case *syntax.DblQuoted:
			if open(p.Parts, true) {
				return true
			}
		default:
			return true
		}
	}
	return false
}

// hasPattern reports whether a literal has a character of a pattern that is not escaped.
func hasPattern(text string) bool {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '*', '?', '[', '{':
			return true
		}
	}
	return false
}

func isOpen(word string) bool { return strings.HasPrefix(word, openMark) }

// written are the words without marks.
func written(words []string) []string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = strings.TrimPrefix(w, openMark)
	}
	return out
}

// stated is a command as the action has it.
func stated(words []string) []any {
	out := make([]any, len(words))
	for i, w := range words {
		if out[i] = w; isOpen(w) {
			out[i] = driver.Unparsed{Text: strings.TrimPrefix(w, openMark)}
		}
	}
	return out
}

// reading is another way to read a command. Only rules compare it: that somebody
// approved it says nothing about the command that it looks like.
type reading struct {
	Words []any `json:"reads_as"`
}

// maxReadings bounds the readings of one command.
const maxReadings = 8

// readings are the ways in which the command may be meant besides the one that is
// written: its program without a folder, and what follows the options in front of a
// subcommand, whose values look like subcommands.
func readings(words []string) (all [][]string) {
	name := words[0]
	if !isOpen(name) && strings.Contains(name, "/") {
		name = path.Base(name)
		all = append(all, append([]string{name}, words[1:]...))
	}
	if _, flagsOnly := switches[name]; flagsOnly {
		return append(all, slices.DeleteFunc(slices.Clone(words), func(w string) bool { return strings.HasPrefix(w, "-") }))
	}
	keep := []string{name}
	switch {
	case isOpen(name), shells[name]:
		return all
	case wrappers[name]:
		keep = nil // what is behind the options is a command itself
		if len(words) > 2 && !strings.HasPrefix(words[1], "-") {
			return append(all, slices.Clone(words[2:]))
		}
	}
	// The first word behind a wrapper may be its own, such as the time of timeout.
	for at := 2; at < len(words) && len(all) < maxReadings && afterOptions(words[:at]); at++ {
		if !strings.HasPrefix(words[at], "-") {
			all = append(all, append(slices.Clone(keep), words[at:]...))
		}
	}
	return all
}

// afterOptions reports whether the words behind the program may all be options and
// their values.
func afterOptions(words []string) bool {
	before := false // an option that may take a value
	for _, w := range words[1:] {
		option := strings.HasPrefix(w, "-")
		if !option && !before {
			return false
		}
		before = option
	}
	return true
}

// runsUnread reports whether the command runs something that is not written in it: a
// file, standard input, or arguments that come from there. Rest is what it runs in turn
// as far as that is written.
func runsUnread(words, rest []string) bool {
	switch name := words[0]; {
	case shells[name]:
		return len(rest) == 0
	case name == "source", name == ".", name == "xargs", name == "parallel":
		return true
	}
	return false
}
