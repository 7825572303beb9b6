package main

import (
	"slices"
	"strings"
	"unicode"
)

const (
	// longExtract is the length in letters from which a passage taken whole
	// from the step counts as a copy; shorter ones may be honest ("all tests passed").
	longExtract = 40
	// run is the length in letters of the pieces in which texts are compared.
	run = 8
	// wholeBody is how much of the step's body has to be in a comment that
	// counts as a copy, and ownWords how much of that comment may be its own.
	wholeBody = 0.9
	ownWords  = 0.2
	// again is the length in letters from which a piece of a comment that stands in it
	// before is a repetition, and mostly how much of a comment that counts as filled up
	// is not one.
	again  = 4
	mostly = 0.6
)

// copied reports whether a comment only repeats the text of its step. Case,
// whitespace, punctuation and Markdown do not count. A comment without a
// letter or digit says nothing and counts as a copy too.
func copied(comment, stepText string) bool {
	c := letters(comment)
	if !slices.ContainsFunc(c, func(r rune) bool { return !unicode.IsMark(r) }) {
		return true
	}
	whole, b := letters(stepText), letters(body(stepText))
	heading := whole[:len(whole)-len(b)]
	for _, text := range [][]rune{whole, b, heading} {
		if len(text) > 0 && string(c) == string(text) {
			return true
		}
	}
	if (len(c) >= longExtract || (len(c) >= run && 2*len(c) >= len(b))) && strings.Contains(string(whole), string(c)) {
		return true
	}
	// In this order: the pieces of a step are few, those of a comment may be millions.
	return 1-covered(c, whole) <= ownWords && covered(b, c) >= wholeBody
}

// once counts the letters of a comment that do not repeat what stands before them, as
// far as enough. repeats reports that these are too few, because the rest is repetition:
// of "not done not done" half is.
func once(comment []rune, enough int) (n int, repeats bool) {
	seen := make(map[[again]rune]bool)
	until := 0 // end of what is a repetition
	for i := range comment {
		if i+again <= len(comment) {
			piece := [again]rune(comment[i : i+again])
			if seen[piece] {
				until = i + again
			}
			seen[piece] = true
		}
		if i >= until {
			n++
		}
		if n >= enough {
			return n, false
		}
	}
	return n, float64(n) < mostly*float64(len(comment))
}

// letters are the letters and digits of a text in lower case.
func letters(text string) []rune {
	var out []rune
	for _, r := range text {
		if unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) {
			out = append(out, unicode.ToLower(r))
		}
	}
	return out
}

// covered is the share of a text that stands in pieces of it also found in the other.
func covered(text, other []rune) float64 {
	if len(text) < run {
		return 0
	}
	pieces := make(map[string]bool, len(other))
	for i := 0; i+run <= len(other); i++ {
		pieces[string(other[i:i+run])] = true
	}
	count, until := 0, 0 // until: end of what has been counted
	for i := 0; i+run <= len(text); i++ {
		if pieces[string(text[i:i+run])] {
			count += i + run - max(i, until)
			until = i + run
		}
	}
	return float64(count) / float64(len(text))
}
