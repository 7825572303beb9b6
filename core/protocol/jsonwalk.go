package protocol

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxDepth bounds the nesting of a challenge.
const maxDepth = 64

// jsonError is an error in a JSON text with its byte offset.
type jsonError struct {
	offset  int
	pointer string
	message string
}

func (e *jsonError) Error() string { return e.message }

// jsonWalker visits the members and strings of a JSON text with their positions,
// so that the text can be edited in place.
type jsonWalker struct {
	raw  []byte // valid JSON
	pos  int    // everything before has been visited
	path []byte // the pointer of the value that is visited
	// onString is called for each string value; start and end are its quotes.
	onString func(pointer string, start, end int, value string)
	// onMember is called for each member after its value; key, start and end are the
	// offsets of its key, of its value and of its end.
	onMember func(pointer string, key, start, end int)
	// onValue is called for each value before its content; false ends the walk.
	onValue func(pointer string, start int) bool
}

// walkJSON visits the whole text; it fails on invalid JSON, duplicate keys,
// excessive nesting, long keys and trailing data.
func walkJSON(raw []byte, w jsonWalker) error {
	w.raw = raw
	if err := json.Unmarshal(raw, new(json.RawMessage)); err != nil {
		return w.locate(err)
	}
	return w.value(0)
}

// EditStrings returns the JSON with each string value replaced by the result of
// edit, which gets its JSON pointer. Keys and everything else stay verbatim.
func EditStrings(raw json.RawMessage, edit func(pointer, text string) string) (json.RawMessage, error) {
	var out bytes.Buffer
	done := 0
	var failed error
	err := walkJSON(raw, jsonWalker{onString: func(pointer string, start, end int, value string) {
		edited := edit(pointer, value)
		if edited == value {
			return
		}
		text, err := quote(edited)
		failed = errors.Join(failed, err)
		out.Write(raw[done:start])
		out.Write(text)
		done = end
	}})
	if err := errors.Join(err, failed); err != nil {
		return nil, err
	}
	out.Write(raw[done:])
	return out.Bytes(), nil
}

// locate finds the place where the text is invalid JSON.
func (w *jsonWalker) locate(err error) error {
	offset := len(bytes.TrimRight(w.raw, " \t\r\n"))
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		offset = min(offset, int(syntax.Offset)-1)
	}
	return &jsonError{max(offset, 0), "", err.Error()}
}

// value visits one value.
func (w *jsonWalker) value(depth int) error {
	start := w.next(" \t\r\n")
	if len(w.path) > maxPointer {
		return &jsonError{start, string(w.path[:maxPointer]), fmt.Sprintf("the keys that lead to a value have more than %d bytes together", maxPointer)}
	}
	if w.onValue != nil && !w.onValue(string(w.path), start) {
		return &jsonError{start, string(w.path), "too many values"}
	}
	switch c := w.raw[start]; c {
	case '{', '[':
		if depth >= maxDepth {
			return &jsonError{start, string(w.path), fmt.Sprintf("nested deeper than %d levels", maxDepth)}
		}
		w.pos++
		if c == '{' {
			return w.object(depth)
		}
		return w.array(depth)
	case '"':
		text := w.quoted()
		if w.onString != nil {
			w.onString(string(w.path), start, w.pos, unquote(text))
		}
	default:
		for w.pos < len(w.raw) && strings.IndexByte(" \t\r\n,]}", w.raw[w.pos]) < 0 {
			w.pos++
		}
	}
	return nil
}

// object visits the members after the opening brace.
func (w *jsonWalker) object(depth int) error {
	seen, outer := map[string]bool{}, len(w.path)
	for {
		at := w.next(" \t\r\n,")
		if w.raw[at] == '}' {
			w.pos++
			return nil
		}
		key := unquote(w.quoted())
		w.path = append(append(w.path, '/'), pointerEscaper.Replace(key)...)
		if seen[key] {
			return &jsonError{at, string(w.path), fmt.Sprintf("duplicate key %q", cut(key))}
		}
		seen[key] = true
		start := w.next(" \t\r\n:")
		if err := w.value(depth + 1); err != nil {
			return err
		}
		if w.onMember != nil {
			w.onMember(string(w.path), at, start, w.pos)
		}
		w.path = w.path[:outer]
	}
}

// array visits the elements after the opening bracket.
func (w *jsonWalker) array(depth int) error {
	outer := len(w.path)
	for i := int64(0); ; i++ {
		if w.raw[w.next(" \t\r\n,")] == ']' {
			w.pos++
			return nil
		}
		w.path = strconv.AppendInt(append(w.path, '/'), i, 10)
		if err := w.value(depth + 1); err != nil {
			return err
		}
		w.path = w.path[:outer]
	}
}

// quoted reads a string with its quotes.
func (w *jsonWalker) quoted() []byte {
	start := w.pos
	for w.pos++; w.raw[w.pos] != '"'; w.pos++ {
		if w.raw[w.pos] == '\\' {
			w.pos++
		}
	}
	w.pos++
	return w.raw[start:w.pos]
}

// unquote decodes a valid string.
func unquote(quoted []byte) string {
	if inner := quoted[1 : len(quoted)-1]; bytes.IndexByte(inner, '\\') < 0 && utf8.Valid(inner) {
		return string(inner)
	}
	var s string
	_ = json.Unmarshal(quoted, &s) // it is valid
	return s
}

var pointerEscaper = strings.NewReplacer("~", "~0", "/", "~1")

// next advances to the next byte that is not one of the given ones, and returns
// its offset. The text is valid, so there is one.
func (w *jsonWalker) next(others string) int {
	for strings.IndexByte(others, w.raw[w.pos]) >= 0 {
		w.pos++
	}
	return w.pos
}

// member is one member of an object, verbatim, with its offsets in the text.
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
