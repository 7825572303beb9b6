package run_test

import (
	"bytes"
	"encoding/json"
	"math"
	"math/big"
	"strings"
	"testing"

	"github.com/gowebpki/jcs"
	"pgregory.net/rapid"

	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/fields"
)

func TestCanonicalKeepsNumbers(t *testing.T) {
	for in, want := range map[string]string{
		`[9007199254740993, 9007199254740992]`:                                     `[9007199254740993,9007199254740992]`,
		`[9007199254740993.0, 90071992547409930e-1]`:                               `[9007199254740993,9007199254740993]`,
		`{"b":1.50,"a":-0,"c":0.1,"d":1E2,"e":1e21}`:                               `{"a":0,"b":1.5,"c":0.1,"d":100,"e":1e+21}`,
		`[18446744073709551615, -9223372036854775809]`:                             `[18446744073709551615,-9223372036854775809]`,
		`[3.14159265358979323846, 0.30000000000000004]`:                            `[3.14159265358979323846,0.30000000000000004]`,
		`[1234567890123456789e100, 0.0000000000000000000000001234567890123456789]`: `[1234567890123456789e100,1234567890123456789e-43]`,
		`["9007199254740993", "\"9007199254740993"]`:                               `["9007199254740993","\"9007199254740993"]`,
		`{"9007199254740993":9007199254740993}`:                                    `{"9007199254740993":9007199254740993}`,
		`{"\ufb33":{}, "\ud83d\ude00":"<\u2028>", "a":12345678901234567890}`:       "{\"a\":12345678901234567890,\"😀\":\"<\u2028>\",\"\ufb33\":{}}",
	} {
		got, err := run.Canonical([]byte(in))
		if err != nil || string(got) != want {
			t.Errorf("Canonical(%s) = %s, %v, want %s", in, got, err, want)
		}
	}
	for _, in := range []string{`[9e308]`, `[12345678901234567890.1.2]`, `[012345678901234567890]`, `[1234567890123456789`, `["1234567890123456789`, ``, `{12345678901234567890:1}`, `[1e-2000000]`} {
		if got, err := run.Canonical([]byte(in)); err == nil {
			t.Errorf("Canonical(%s) = %s, want an error", in, got)
		}
	}
}

// Every number that is let in keeps its value, in one form; two forms mean two
// values; and what doubles hold is as RFC 8785 has it.
func TestCanonicalNumbersAreTheirValues(t *testing.T) {
	literal := rapid.OneOf(
		rapid.StringMatching(`-?(0|[1-9][0-9]{0,40})(\.[0-9]{1,15})?([eE][+-]?[0-9]{1,2})?`),
		rapid.Custom(func(t *rapid.T) string { // those that come from a double
			b, _ := json.Marshal(rapid.Float64().Filter(func(f float64) bool { return !math.IsInf(f, 0) && !math.IsNaN(f) }).Draw(t, "double"))
			return string(b)
		}),
		rapid.Custom(func(t *rapid.T) string { // neighbours
			return big.NewInt(0).Add(big.NewInt(1<<53), big.NewInt(int64(rapid.IntRange(-3, 3).Draw(t, "off")))).String()
		}),
	)
	canonical := func(t *rapid.T, literal string) string {
		if _, err := fields.DecodeOne([]byte(literal)); err != nil {
			t.Fatalf("DecodeOne(%s) = %v", literal, err)
		}
		got, err := run.Canonical([]byte("[" + literal + "]"))
		if err != nil {
			t.Fatalf("Canonical([%s]) = %v", literal, err)
		}
		again, err := run.Canonical(got)
		if err != nil || !bytes.Equal(got, again) {
			t.Fatalf("Canonical([%s]) = %s, and of that %s, %v", literal, got, again, err)
		}
		return strings.Trim(string(got), "[]")
	}
	value := func(t *rapid.T, literal string) *big.Rat {
		r, ok := new(big.Rat).SetString(literal)
		if !ok {
			t.Fatalf("%q is not a number", literal)
		}
		return r
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := literal.Draw(t, "a"), literal.Draw(t, "b")
		formA, formB := canonical(t, a), canonical(t, b)
		if value(t, a).Cmp(value(t, formA)) != 0 {
			t.Fatalf("Canonical(%s) = %s, which is another value", a, formA)
		}
		if same := value(t, a).Cmp(value(t, b)) == 0; same != (formA == formB) {
			t.Fatalf("%s and %s have the forms %s and %s", a, b, formA, formB)
		}
		rfc, err := jcs.Transform([]byte("[" + a + "]"))
		if err != nil {
			t.Fatal(err)
		}
		if held := strings.Trim(string(rfc), "[]"); value(t, a).Cmp(value(t, held)) == 0 && held != formA {
			t.Fatalf("Canonical(%s) = %s, RFC 8785 has %s", a, formA, held)
		}
	})
}

func FuzzCanonical(f *testing.F) {
	for _, seed := range []string{`{"a":[9007199254740993,"x\\"]}`, `[1e400]`, `[-]`, `["\\`, `[00000000000000000001]`, `{12345678901234567890:1}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, document []byte) {
		got, err := run.Canonical(document)
		if err != nil {
			return
		}
		if _, err := jcs.Transform(document); err != nil {
			t.Errorf("Canonical(%q) = %q, RFC 8785 refuses it: %v", document, got, err)
		}
		if again, err := run.Canonical(got); err != nil || !bytes.Equal(got, again) {
			t.Errorf("Canonical(%q) = %q, and of that %q, %v", document, got, again, err)
		}
	})
}
