package protocol

import "strings"

// PartSize is how many bytes a part of a text has at most.
const PartSize = 4 << 10

// Parts cuts a text into parts that agent programs show whole. Joined they are the text. A cut is
// made between paragraphs where that leaves no small part, else between lines, and in a
// line only where it is longer than a part.
func Parts(text string) []string {
	var parts []string
	for len(text) > PartSize {
		n := partEnd(text[:PartSize], text)
		parts, text = append(parts, text[:n]), text[n:]
	}
	return append(parts, text)
}

// partEnd is where the first part of a text ends that has more than the window.
func partEnd(window, text string) int {
	if i := strings.LastIndex(window, "\n\n"); i >= PartSize/2 {
		return i + len("\n\n")
	}
	if i := strings.LastIndexByte(window, '\n'); i >= 0 {
		return i + 1
	}
	if n := len(beginning(text, PartSize)); n > 0 {
		return n
	}
	return PartSize // it is not UTF-8
}
