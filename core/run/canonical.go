package run

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/gowebpki/jcs"
)

// Canonical returns the one form of a JSON document that is hashed: that of RFC
// 8785, except that each number keeps its value (decision 41). RFC 8785 rounds
// numbers to doubles, which would give an integer beyond 2^53 the form, and the
// digest, of its neighbours.
func Canonical(document []byte) ([]byte, error) {
	form, err := jcs.Transform(document)
	if err != nil {
		return nil, fmt.Errorf("canonical JSON: %w", err)
	}
	rounded, err := roundsNumber(document)
	if err != nil {
		return nil, fmt.Errorf("canonical JSON: %w", err)
	}
	if !rounded {
		return form, nil
	}
	var value any
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		return nil, fmt.Errorf("canonical JSON: %w", err)
	}
	var out bytes.Buffer
	if err := writeExact(&out, value); err != nil {
		return nil, fmt.Errorf("canonical JSON: %w", err)
	}
	return out.Bytes(), nil
}

// roundsNumber reports whether a double would change a number of the document.
func roundsNumber(document []byte) (bool, error) {
	for i := 0; i < len(document); {
		switch c := document[i]; {
		case c == '"':
			i = stringEnd(document, i)
		case c == '-' || c >= '0' && c <= '9':
			end := i + 1
			for end < len(document) && bytes.IndexByte([]byte("0123456789+-.eE"), document[end]) >= 0 {
				end++
			}
			if exact, err := exactNumber(string(document[i:end])); exact != "" || err != nil {
				return true, err
			}
			i = end
		default:
			i++
		}
	}
	return false, nil
}

// writeExact writes a decoded value as RFC 8785 does, but its numbers exactly.
func writeExact(out *bytes.Buffer, value any) error {
	switch v := value.(type) {
	case map[string]any:
		names := slices.SortedFunc(maps.Keys(v), func(a, b string) int { // RFC 8785, section 3.2.3
			return slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b)))
		})
		return writeAll(out, "{}", names, func(name string) error {
			if err := writeExact(out, name); err != nil {
				return err
			}
			out.WriteByte(':')
			return writeExact(out, v[name])
		})
	case []any:
		return writeAll(out, "[]", v, func(element any) error { return writeExact(out, element) })
	case json.Number:
		if exact, err := exactNumber(v.String()); exact != "" || err != nil {
			out.WriteString(exact)
			return err
		}
	}
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	form, err := jcs.Transform(text)
	out.Write(form)
	return err
}

func writeAll[T any](out *bytes.Buffer, brackets string, items []T, write func(T) error) error {
	out.WriteByte(brackets[0])
	for i, item := range items {
		if i > 0 {
			out.WriteByte(',')
		}
		if err := write(item); err != nil {
			return err
		}
	}
	out.WriteByte(brackets[1])
	return nil
}

// stringEnd is the index after the string that begins at i.
func stringEnd(document []byte, i int) int {
	for i++; i < len(document); i++ {
		switch document[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return i
}

// exactNumber is the one way to write a number that a double would change;
// empty: a double holds it, or it is not a number.
func exactNumber(literal string) (string, error) {
	if len(literal) <= 15 && !strings.ContainsAny(literal, "eE") {
		return "", nil // doubles hold 15 digits
	}
	if !json.Valid([]byte(literal)) {
		return "", nil
	}
	n, ok := decimalOf(literal)
	if !ok { // RFC 8785 would make 0 of the small ones
		return "", fmt.Errorf("the number %.40s is out of range", literal)
	}
	f, err := strconv.ParseFloat(literal, 64)
	if err != nil {
		return "", nil //nolint:nilerr // beyond the range of a double: RFC 8785 refuses it, and so do we
	}
	if held, _ := decimalOf(strconv.FormatFloat(f, 'e', -1, 64)); held == n {
		return "", nil
	}
	return n.String(), nil
}

// decimal is the number digits * 10^exponent. Digits has no zero at either
// end; zero has none.
type decimal struct {
	negative bool
	digits   string
	exponent int
}

func decimalOf(literal string) (decimal, bool) {
	var d decimal
	literal, d.negative = strings.CutPrefix(literal, "-")
	mantissa, exponent, found := strings.Cut(strings.ToLower(literal), "e")
	if found {
		var err error
		if d.exponent, err = strconv.Atoi(exponent); err != nil || d.exponent > 1<<20 || d.exponent < -1<<20 {
			return d, false
		}
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	d.digits = strings.TrimRight(digits, "0")
	d.exponent += len(digits) - len(d.digits) - len(fraction)
	if d.digits == "" {
		return decimal{}, true
	}
	return d, true
}

// String writes the number without an exponent where it stays short.
func (d decimal) String() string {
	sign := ""
	if d.negative {
		sign = "-"
	}
	switch n := len(d.digits) + d.exponent; {
	case d.exponent >= 0 && n <= 64:
		return sign + d.digits + strings.Repeat("0", d.exponent)
	case d.exponent < 0 && n > 0:
		return sign + d.digits[:n] + "." + d.digits[n:]
	}
	return fmt.Sprintf("%s%se%d", sign, d.digits, d.exponent)
}
