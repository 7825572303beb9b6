package protocol

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// maxDepth bounds the nesting of a challenge.
const maxDepth = 64

// jsonError is a fault in a JSON text with its byte offset.
type jsonError struct {
	offset  int
	pointer string
	message string
}

func (e *jsonError) Error() string { return e.message }

// jsonWalker visits the members and strings of a JSON text with their
// positions, so that the text can be changed without being written anew.
type jsonWalker struct {
	raw []byte
	dec *json.Decoder
	// onString is called for each string value; start and end are its quotes.
	onString func(pointer string, start, end int, value string)
	// onMember is called for each member, after its value was visited; key,
	// start and end are where its key and its value begin, and its end.
	onMember func(pointer string, key, start, end int)
	// onValue is called for each value before what is in it.
	onValue func(pointer string, start int)
}

// walkJSON visits the whole text; it fails on invalid JSON, duplicate keys,
// excessive nesting and anything behind the value.
func walkJSON(raw []byte, w jsonWalker) error {
	w.raw = raw
	// The decoder of tokens is lenient in places; this one is not.
	if err := json.Unmarshal(raw, new(json.RawMessage)); err != nil {
		return w.locate(err)
	}
	w.dec = json.NewDecoder(bytes.NewReader(raw))
	w.dec.UseNumber()
	if err := w.value("", 0); err != nil {
		return w.locate(err)
	}
	return nil
}

func (w *jsonWalker) locate(err error) error {
	var at *jsonError
	if errors.As(err, &at) {
		return at
	}
	offset := len(bytes.TrimRight(w.raw, " \t\r\n"))
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		offset = min(offset, int(syntax.Offset)-1)
	}
	return &jsonError{max(offset, 0), "", err.Error()}
}

// value visits one value.
func (w *jsonWalker) value(pointer string, depth int) error {
	start := w.skip(" \t\r\n:,")
	tok, err := w.dec.Token()
	if err != nil {
		return err
	}
	if w.onValue != nil {
		w.onValue(pointer, start)
	}
	switch tok := tok.(type) {
	case json.Delim:
		if depth >= maxDepth {
			return &jsonError{start, pointer, fmt.Sprintf("nested deeper than %d levels", maxDepth)}
		}
		if tok == '{' {
			return w.object(pointer, depth)
		}
		return w.array(pointer, depth)
	case string:
		if w.onString != nil {
			w.onString(pointer, start, int(w.dec.InputOffset()), tok)
		}
	}
	return nil
}

func (w *jsonWalker) object(pointer string, depth int) error {
	seen := map[string]bool{}
	for w.dec.More() {
		at := w.skip(" \t\r\n,")
		tok, err := w.dec.Token()
		if err != nil {
			return err
		}
		key, ok := tok.(string)
		if !ok {
			return &jsonError{at, pointer, "an object key must be a string"}
		}
		child := pointer + "/" + pointerEscaper.Replace(key)
		if seen[key] {
			return &jsonError{at, child, fmt.Sprintf("duplicate key %q", key)}
		}
		seen[key] = true
		start := w.skip(" \t\r\n:")
		if err := w.value(child, depth+1); err != nil {
			return err
		}
		if w.onMember != nil {
			w.onMember(child, at, start, int(w.dec.InputOffset()))
		}
	}
	_, err := w.dec.Token()
	return err
}

func (w *jsonWalker) array(pointer string, depth int) error {
	for i := 0; w.dec.More(); i++ {
		if err := w.value(pointer+"/"+strconv.Itoa(i), depth+1); err != nil {
			return err
		}
	}
	_, err := w.dec.Token()
	return err
}

var pointerEscaper = strings.NewReplacer("~", "~0", "/", "~1")

// skip is the offset of the next byte that is none of the given ones.
func (w *jsonWalker) skip(chars string) int {
	pos := int(w.dec.InputOffset())
	for pos < len(w.raw) && strings.IndexByte(chars, w.raw[pos]) >= 0 {
		pos++
	}
	return pos
}

// member is one member of an object, verbatim, and where it stands in the text.
type member struct {
	value      json.RawMessage
	key, start int // offsets of the key and of the value
}

// members returns the top-level members of an object.
func members(raw []byte) (map[string]member, error) {
	out := map[string]member{}
	err := walkJSON(raw, jsonWalker{onMember: func(pointer string, key, start, end int) {
		if strings.Count(pointer, "/") == 1 {
			name := strings.NewReplacer("~1", "/", "~0", "~").Replace(pointer[1:])
			out[name] = member{value: raw[start:end:end], key: key, start: start}
		}
	}})
	return out, err
}

func isObject(raw []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(raw, " \t\r\n"), []byte("{"))
}
