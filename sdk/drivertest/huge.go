package drivertest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// hugeVariants are copies of a request with a very long or very deep document,
// by the name of what was done.
func hugeVariants(request any) map[string]any {
	texts := map[string]string{
		"100,000 nested lists":       strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000),
		"a list of 100,000":          "[" + strings.Repeat("0,", 99_999) + "0]",
		"5,000 nested objects":       strings.Repeat(`{"a":`, 5_000) + "1" + strings.Repeat("}", 5_000),
		"a number of 100,000 digits": strings.Repeat("9", 100_000),
	}
	out := map[string]any{}
	for _, r := range innermost(request, quoted(hugeBytes)) {
		out["a text of 8 MiB"] = r
	}
	for name, text := range texts {
		for i, r := range withDocument(request, json.RawMessage(text)) {
			out[fmt.Sprintf("%s, %d", name, i+1)] = r
		}
	}
	return out
}

// largeVariants are copies of a request with a document that a host could send.
func largeVariants(request any) []any { return innermost(request, quoted(largeSize)) }

// innermost is the copy in which the value stands where a text is expected: the
// one that gets furthest.
func innermost(request any, value string) []any {
	all := withDocument(request, json.RawMessage(value))
	return all[max(0, len(all)-1):]
}

func quoted(n int) string { return `"` + strings.Repeat("a", n) + `"` }

// withDocument puts a value where a document is expected, and into the
// document that is there.
func withDocument(request any, value json.RawMessage) []any {
	var out []any
	switch req := request.(type) {
	case driver.ValidateRequest:
		for _, document := range placed(req.Challenge, value) {
			out = append(out, driver.ValidateRequest{Challenge: document})
		}
	case driver.AdvanceRequest:
		for i := range req.Answers {
			for _, document := range placed(req.Answers[i].Value, value) {
				r := req
				r.Answers = slices.Clone(req.Answers)
				r.Answers[i].Value = document
				out = append(out, r)
			}
		}
		r := req
		r.Challenge = value
		out = append([]any{r}, out...) // the answers last: they are what a host passes on
	case driver.RenderRequest:
		schema, display := req, req
		schema.Input.Schema, display.Input.Display = value, value
		out = append(out, schema, display)
	case driver.InterpretRequest:
		for _, document := range placed(req.Raw, value) {
			r := req
			r.Raw, r.ClientError = document, nil
			out = append(out, r)
		}
	}
	return out
}

// placed is the value itself and the document with the value in it: at a key,
// or a key of an object in it, that is a text where there is one.
func placed(document, value json.RawMessage) []json.RawMessage {
	out := []json.RawMessage{value}
	var object map[string]json.RawMessage
	if json.Unmarshal(document, &object) != nil {
		return out
	}
	var first json.RawMessage
	for _, key := range slices.Sorted(maps.Keys(object)) {
		changed, isText := holed(object[key])
		isText = isText && key != "type"
		if first == nil || isText {
			first = with(object, key, changed)
		}
		if isText {
			break
		}
	}
	if first == nil {
		return out
	}
	// The value is put in as text: it is long, and encoding it again would take
	// longer than the call.
	return append(out, bytes.Replace(first, hole, value, 1))
}

// hole marks the place of the value.
var hole = json.RawMessage(`"kairos-the-value-goes-here"`)

// holed is a value with the hole in it, or the hole, and whether a text was there.
func holed(child json.RawMessage) (json.RawMessage, bool) {
	var object map[string]json.RawMessage
	if json.Unmarshal(child, &object) != nil || len(object) == 0 {
		return hole, bytes.HasPrefix(child, []byte(`"`))
	}
	keys := slices.Sorted(maps.Keys(object))
	for _, key := range keys {
		if bytes.HasPrefix(object[key], []byte(`"`)) {
			return with(object, key, hole), true
		}
	}
	return with(object, keys[0], hole), false
}
