package run

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/gowebpki/jcs"
)

// canonicalNumber is the one form of a number.
func canonicalNumber(literal []byte) ([]byte, error) {
	if isShortInteger(literal) {
		return literal, nil
	}
	if !json.Valid(literal) {
		return nil, fmt.Errorf("%.40q is not a value", literal)
	}
	exact, err := exactNumber(string(literal))
	if exact != "" || err != nil {
		return []byte(exact), err
	}
	f, err := strconv.ParseFloat(string(literal), 64)
	if err != nil {
		return nil, fmt.Errorf("the number %.40s is out of range", literal)
	}
	form, err := jcs.NumberToJSON(f)
	return []byte(form), err
}

// isShortInteger reports whether the literal is an integer that a double holds, in its
// one form.
func isShortInteger(literal []byte) bool {
	digits := bytes.TrimPrefix(literal, []byte("-"))
	if len(digits) == 0 || len(digits) > 15 || digits[0] == '0' && len(literal) > 1 {
		return false
	}
	for _, c := range digits {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
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
