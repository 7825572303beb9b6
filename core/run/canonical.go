package run

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/gowebpki/jcs"
)

// Canonical is the canonical form (RFC 8785) of a JSON document. That form
// knows only numbers that doubles hold; a number that one would change, such as
// an integer beyond 2^53, keeps its value here and is written in one way, too:
// else it would have the form, and the digest, of its neighbours.
func Canonical(document []byte) ([]byte, error) {
	marked, marker, err := markExact(document)
	if err != nil {
		return nil, fmt.Errorf("canonical JSON: %w", err)
	}
	canonical, err := jcs.Transform(marked)
	if err != nil {
		return nil, fmt.Errorf("canonical JSON: %w", err)
	}
	if marker == "" {
		return canonical, nil
	}
	var out bytes.Buffer
	for i, part := range bytes.Split(canonical, []byte(`"`+marker)) {
		if i > 0 { // the number, then the quote that closed its mark
			number, rest, _ := bytes.Cut(part, []byte{'"'})
			out.Write(number)
			part = rest
		}
		out.Write(part)
	}
	return out.Bytes(), nil
}

// markExact makes a string of every number that a double would change: marker
// and number. The marker is random, so that no document has it; empty: there is
// no such number.
func markExact(document []byte) (marked []byte, marker string, err error) {
	var out bytes.Buffer
	from := 0
	for i := 0; i < len(document); {
		switch c := document[i]; {
		case c == '"':
			i = stringEnd(document, i)
		case c == '-' || c >= '0' && c <= '9':
			end := i + 1
			for end < len(document) && bytes.IndexByte([]byte("0123456789+-.eE"), document[end]) >= 0 {
				end++
			}
			exact, err := exactNumber(string(document[i:end]))
			if err != nil {
				return nil, "", err
			}
			if exact != "" {
				if marker == "" {
					marker = rand.Text()
				}
				out.Write(document[from:i])
				fmt.Fprintf(&out, `"%s%s"`, marker, exact)
				from = end
			}
			i = end
		default:
			i++
		}
	}
	if marker == "" {
		return document, "", nil
	}
	if !json.Valid(document) { // a mark may stand where no number may, such as for a key
		return nil, "", errors.New("not JSON")
	}
	out.Write(document[from:])
	return out.Bytes(), marker, nil
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
