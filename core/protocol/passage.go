package protocol

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// maxPassage is how many characters of a step are embedded: more than models with
// a short context read, and enough for the others.
const maxPassage = 8000

// Passage is the text that represents step i in comparisons by meaning: the names
// and the summary of the protocol, then the step. It is deterministic, because vectors are stored
// by its hash, and at most 8,000 characters long.
func (c Chain) Passage(i int) string {
	s := c.Steps[i]
	var lines []string
	add := func(text string) {
		if text = strings.TrimSpace(text); text != "" {
			lines = append(lines, text)
		}
	}
	add(c.Title)
	add(c.AltTitle)
	add(c.Slug)
	add(strings.Join(c.Triggers, "\n"))
	add(firstRunes(c.Summary, maxPassage/8)) // most of it is for the step
	add(strings.Join(c.Tags, ", "))
	add(s.Heading())
	add(s.Body())
	return firstRunes(strings.Join(lines, "\n"), maxPassage)
}

// firstRunes returns at most the first n characters of s.
func firstRunes(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}

// PassageHash identifies a passage: the hexadecimal SHA-256 of its bytes.
func PassageHash(passage string) string {
	sum := sha256.Sum256([]byte(passage))
	return hex.EncodeToString(sum[:])
}
