package terminal

import (
	"math"
	"unicode/utf8"
)

// mark sets a line of ours off from the others: by a sign and a colour on a
// terminal, by a word elsewhere.
type mark struct {
	sign, word string
	// sgr is how the sign looks, or the whole line where there is none: parameters
	// of SELECT GRAPHIC RENDITION (ECMA-48, section 8.3.117).
	sgr string
}

var (
	markStep    = mark{sgr: "1"}
	markSolved  = mark{sign: "✓", word: "solved", sgr: "32"}
	markRefused = mark{sign: "✗ not accepted:", word: "not accepted:", sgr: "31"}
)

// look is how a person's terminal shows marks; the zero value is plain text.
type look struct {
	signs, colours bool
}

// columns is how many are left behind the mark in a line of a terminal.
func (l look) columns(m mark) int {
	if !l.signs {
		return math.MaxInt
	}
	return 80 - l.lead(m)
}

// lead is how many columns the mark takes.
func (l look) lead(m mark) int {
	sign := m.word
	if l.signs {
		sign = m.sign
	}
	if sign == "" {
		return 0
	}
	return utf8.RuneCountInString(sign + " ")
}

func (l look) of(m mark, text string) string {
	lead := m.word
	if l.signs {
		lead = m.sign
	}
	if lead == "" {
		return l.paint(m, text)
	}
	return l.paint(m, lead) + " " + text
}

func (l look) paint(m mark, text string) string {
	if !l.colours || m.sgr == "" {
		return text
	}
	return "\x1b[" + m.sgr + "m" + text + "\x1b[0m"
}
