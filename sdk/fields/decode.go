package fields

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Bounds of what DecodeOne reads.
const (
	// MaxDepth is the deepest nesting of arrays and objects.
	MaxDepth = 64
	// maxNumber is the longest number literal in bytes; the exponents are those
	// of the largest and the least double. Exact arithmetic on 1e999999999, which
	// validators use, would eat the machine.
	maxNumber   = 64
	maxExponent = 308
	minExponent = -324
)

// DecodeOne reads text as exactly one JSON value and returns it without the
// whitespace around it. It refuses anything before or after the value, keys
// that occur twice in one object, invalid UTF-8, nesting deeper than MaxDepth
// and numbers beyond the range of a double.
func DecodeOne(text []byte) (json.RawMessage, error) {
	if !utf8.Valid(text) {
		return nil, errors.New("not valid UTF-8")
	}
	trimmed := bytes.Trim(text, " \t\r\n")
	if len(trimmed) == 0 {
		return nil, errors.New("empty: one JSON value is expected")
	}
	dec := json.NewDecoder(bytes.NewReader(trimmed))
	dec.UseNumber()
	if err := readValue(dec, 0); err != nil {
		return nil, positioned(err, trimmed, dec)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("text follows the JSON value at byte %d", dec.InputOffset())
	}
	return json.RawMessage(trimmed), nil
}

// positioned says in plain words why text is not one JSON value.
func positioned(err error, text []byte, dec *json.Decoder) error {
	var syntax *json.SyntaxError
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the JSON value is cut off before its end")
	case errors.As(err, &syntax) && !strings.ContainsRune("{[\"-0123456789tfn", rune(text[0])):
		return fmt.Errorf("not JSON: the text begins with %q", snippet(text))
	case errors.As(err, &syntax):
		return fmt.Errorf("not JSON at byte %d: %s", dec.InputOffset(), strings.TrimPrefix(syntax.Error(), "json: "))
	}
	return err
}

// snippet is the beginning of a text, short enough for a message.
func snippet(text []byte) string {
	const runes = 20
	s := string(text[:min(len(text), 4*runes)])
	if r := []rune(s); len(r) > runes {
		return string(r[:runes]) + "..."
	}
	return s
}

// readValue reads one value token by token, because a decoder into a value
// would silently let the last of two equal keys win.
func readValue(dec *json.Decoder, depth int) error {
	tok, err := dec.Token()
	if err != nil {
		return err
	}
	switch t := tok.(type) {
	case json.Number:
		return checkNumber(string(t))
	case json.Delim:
		if depth >= MaxDepth {
			return fmt.Errorf("nested deeper than %d levels", MaxDepth)
		}
		if t == '{' {
			return readObject(dec, depth+1)
		}
		return readArray(dec, depth+1)
	}
	return nil
}

func readObject(dec *json.Decoder, depth int) error {
	seen := map[string]bool{}
	for dec.More() {
		tok, err := dec.Token()
		if err != nil {
			return err
		}
		key, _ := tok.(string)
		if seen[key] {
			return fmt.Errorf("the key %q occurs twice in one object", key)
		}
		seen[key] = true
		if err := readValue(dec, depth); err != nil {
			return err
		}
	}
	_, err := dec.Token()
	return err
}

func readArray(dec *json.Decoder, depth int) error {
	for dec.More() {
		if err := readValue(dec, depth); err != nil {
			return err
		}
	}
	_, err := dec.Token()
	return err
}

func checkNumber(literal string) error {
	if len(literal) > maxNumber {
		return fmt.Errorf("a number has more than %d characters", maxNumber)
	}
	_, exponent, found := strings.Cut(strings.ToLower(literal), "e")
	if !found {
		return nil
	}
	if n, err := strconv.Atoi(exponent); err != nil || n > maxExponent || n < minExponent {
		return fmt.Errorf("the number %s is out of range", literal)
	}
	if _, err := strconv.ParseFloat(literal, 64); err != nil {
		return fmt.Errorf("the number %s is out of range", literal)
	}
	return nil
}

// Pointer makes an RFC 6901 pointer of the tokens.
func Pointer(tokens ...string) string {
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	var b strings.Builder
	for _, token := range tokens {
		b.WriteByte('/')
		b.WriteString(escape.Replace(token))
	}
	return b.String()
}
