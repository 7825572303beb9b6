package protocol

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/aymanbagabas/go-udiff"
)

// Changes is the unified diff from one document to another, for people to read;
// empty: they are the same. A challenge on one line is compared value by value.
func Changes(fromName, toName, from, to string) string {
	if from == to {
		return ""
	}
	diff := udiff.Unified(fromName, toName, unfold(from), unfold(to))
	if diff == "" { // they differ in how a challenge is written
		diff = udiff.Unified(fromName, toName, from, to)
	}
	return diff
}

// unfold writes the JSON objects of a document that are on one line with a value on
// each line.
func unfold(document string) string {
	lines := strings.Split(document, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "{") {
			lines[i] = unfoldLine(line)
		}
	}
	return strings.Join(lines, "\n")
}

func unfoldLine(line string) string {
	var out bytes.Buffer
	if json.Indent(&out, []byte(line), "", "  ") != nil {
		return line // not JSON, or not all of it
	}
	return out.String()
}
