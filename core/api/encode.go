package api

import (
	"bytes"
	"encoding/json"
	"sync"

	"github.com/kairos-mcp/kairos/sdk/plain"
)

// Encode is the JSON of every reply, whatever face gives it: <, > and & stand as
// they are, also in what drivers have encoded, because people and models read
// it. A non-empty indent sets it out. There is no line break at its end.
func Encode(v any, indent string) ([]byte, error) {
	b := buffers.Get().(*bytes.Buffer)
	defer func() {
		if b.Cap() <= maxBuffer {
			b.Reset()
			buffers.Put(b)
		}
	}()
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return unescapeHTML(bytes.TrimRight(b.Bytes(), "\n")), nil
}

// Verbatim is a reply with a document that is stored again as it is read.
type Verbatim interface{ Verbatim() }

// EncodeReply is Encode for what an agent reads of a tool: hidden characters, which
// whoever wrote a protocol or submitted a result may have put into it, are shown by
// their codes. In a Verbatim reply they are JSON escapes.
func EncodeReply(reply any) ([]byte, error) {
	b, err := Encode(reply, "")
	if err != nil {
		return nil, err
	}
	if _, ok := reply.(Verbatim); ok {
		return plain.JSON(b), nil
	}
	return plain.ShownJSON(b), nil
}

// buffers are used again, because a buffer that grows to the size of a reply takes
// several times its size.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// maxBuffer is the size in bytes of a buffer that is worth keeping.
const maxBuffer = 64 << 10

// Readable is a JSON document on one line, as people and not as HTML pages read
// it: <, > and & stand as they are, hidden characters as JSON escapes. What is
// not JSON is shown as one line of text.
func Readable(raw json.RawMessage) string {
	b, err := Encode(raw, "")
	if err != nil {
		return plain.Line(string(raw))
	}
	return string(plain.JSON(b))
}

// unescapeHTML returns a copy of the text, without the escapes that a nested MarshalJSON
// has put in.
func unescapeHTML(text []byte) []byte {
	if !bytes.Contains(text, []byte(`\u00`)) {
		return bytes.Clone(text)
	}
	out := make([]byte, 0, len(text))
	for len(text) > 0 {
		if text[0] != '\\' || len(text) < 2 {
			out, text = append(out, text[0]), text[1:]
			continue
		}
		n := 2
		if text[1] == 'u' && len(text) >= 6 {
			n = 6
		}
		switch escape := string(text[:n]); escape {
		case `\u003c`:
			out = append(out, '<')
		case `\u003e`:
			out = append(out, '>')
		case `\u0026`:
			out = append(out, '&')
		default:
			out = append(out, escape...)
		}
		text = text[n:]
	}
	return out
}
