// Package tty is what programs need of the terminal at a stream: how wide it is,
// and that nobody's earlier keystrokes answer a question. It shows no forms.
package tty

import (
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// usualWidth is of a terminal that does not know its width.
const usualWidth = 80

// Width is how many columns the terminal at the stream has, or 0 without a terminal.
func Width(stream any) int {
	f, ok := stream.(*os.File)
	if !ok {
		return 0
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	switch {
	case err != nil:
		return 0
	case size.Col == 0:
		return usualWidth
	}
	return int(size.Col)
}

// Discard forgets what was typed at the terminal and not read yet: keys that were
// pressed before a question was seen do not answer it. Elsewhere it does nothing.
func Discard(stream any) {
	if f, ok := stream.(*os.File); ok {
		_ = discard(int(f.Fd())) // not a terminal: nobody typed
	}
}

// minWidth is the narrowest text that Wrap makes.
const minWidth = 20

// Wrap breaks the lines of a text at blanks, so that none has more than width
// characters. The rest of a broken line begins with indent. A command in backquotes
// stays whole, to be copied. A word that is longer than a line is left to the
// terminal; width 0: nothing is broken.
func Wrap(text string, width int, indent string) string {
	if width <= 0 {
		return text
	}
	width = max(width, minWidth)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = wrapLine(line, width, indent)
	}
	return strings.Join(lines, "\n")
}

func wrapLine(line string, width int, indent string) string {
	if utf8.RuneCountInString(line) <= width {
		return line
	}
	rest, begun := strings.CutPrefix(line, indent)
	lead := ""
	if begun {
		lead = indent
	}
	var lines []string
	words := wordsOf(rest)
	current := words[0]
	for _, word := range words[1:] {
		longer := current + " " + word
		if utf8.RuneCountInString(lead+longer) > width && strings.TrimSpace(current) != "" {
			lines = append(lines, lead+strings.TrimRight(current, " "))
			lead, current = indent, word
			continue
		}
		current = longer
	}
	return strings.Join(append(lines, lead+current), "\n")
}

// wordsOf splits a line at blanks outside of backquotes.
func wordsOf(line string) (words []string) {
	open := false
	for i, part := range strings.Split(line, " ") {
		if open && i > 0 {
			words[len(words)-1] += " " + part
		} else {
			words = append(words, part)
		}
		if strings.Count(part, "`")%2 == 1 {
			open = !open
		}
	}
	return words
}
