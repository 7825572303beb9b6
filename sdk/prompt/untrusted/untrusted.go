// Package untrusted puts values that strangers wrote into prompts for language
// models, so that they are seen to be data: labelled, and with an end that
// nothing in them can fake. It does not stop a model that follows orders
// found in data; it is what lets one tell them apart.
package untrusted

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// Block is a text that cannot be taken for more than the block it stands in: no
// line of it ends the block.
func Block(text string) string {
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fence + "data\n" + strings.Trim(text, "\r\n") + "\n" + fence
}

// Value is a JSON value inside a sentence, labelled by where it is from. It is
// one line, and nothing in it ends it.
func Value(from string, value json.RawMessage) (string, error) {
	var v any
	dec := json.NewDecoder(bytes.NewReader(value))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		return "", fmt.Errorf("a value for a prompt is not JSON: %w", err)
	}
	// Marshal writes < and > as escapes, so that the value holds no tag.
	b, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("encode a value for a prompt: %w", err)
	}
	return fmt.Sprintf("<data from=%q>%s</data>", from, b), nil
}
