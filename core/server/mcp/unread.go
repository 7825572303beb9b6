package mcp

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// byteOrderMark is what some editors and shells put in front of UTF-8.
var byteOrderMark = []byte("\xef\xbb\xbf")

// unreadID finds the id of a request that cannot be decoded, so that its error reaches the
// call that waits for it. It is nil where anything is in doubt: an error with the id of an
// answer would be taken for the reply to another request.
func unreadID(text []byte) json.RawMessage {
	f := finder{text: bytes.TrimSpace(bytes.TrimPrefix(text, byteOrderMark))}
	if len(f.text) == 0 || f.text[0] != '{' {
		return nil
	}
	f.find()
	if f.methods != 1 || f.ids != 1 || !utf8.Valid(f.id) || !json.Valid(f.id) {
		return nil
	}
	return f.id
}

// finder reads the members of an object one after the other, without what is in them.
type finder struct {
	text         []byte
	id           []byte
	ids, methods int
}

func (f *finder) find() {
	depth, key, inKey := 0, "", false
	for i := 0; i < len(f.text); {
		start := i
		switch c := f.text[i]; c {
		case '{', '[':
			depth++
			inKey = depth == 1
			i++
			continue
		case '}', ']':
			if depth--; depth == 0 {
				return
			}
			i++
			continue
		case ',', ':':
			if depth == 1 {
				inKey = c == ','
			}
			i++
			continue
		case ' ', '\t', '\r', '\n':
			i++
			continue
		case '"':
			i = afterString(f.text, i)
		default:
			i = afterWord(f.text, i)
		}
		switch part := f.text[start:i]; {
		case depth == 1 && inKey:
			key = string(part)
		case depth == 1:
			f.member(key, part)
		}
	}
}

func (f *finder) member(key string, value []byte) {
	switch key {
	case `"id"`:
		f.id = value
		f.ids++
	case `"method"`:
		if value[0] == '"' {
			f.methods++
		}
	}
}

// afterString returns where the string that begins at i has ended.
func afterString(text []byte, i int) int {
	for i++; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(text)
}

// afterWord returns where the number or word that begins at i has ended.
func afterWord(text []byte, i int) int {
	if n := bytes.IndexAny(text[i:], "\",:{}[] \t\r\n"); n > 0 {
		return i + n
	}
	return len(text)
}
