package run_test

import (
	"bytes"
	"encoding/json"
	"math"
	"math/big"
	"regexp"
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

// drawSource draws a JSON document as somebody may write it: white space, escapes where
// none are needed, members in any order.
func drawSource(t *rapid.T, depth int) string {
	space := func() string { return rapid.SampledFrom([]string{"", "", "", " ", "\n\t", "\r"}).Draw(t, "space") }
	text := func() string {
		part := rapid.OneOf(rapid.StringMatching(`[a-c/ ]{0,3}`), rapid.SampledFrom([]string{
			`\"`, `\\`, `\/`, `\b`, `\n`, `\u0000`, `\u001F`, `\u0061`, `\u20ac`, `€`, `\ud83d\ude00`, `😀`, "\ufb33", `\ufffd`, "\u007f", "\u2028", "\U0010ffff", "\ue000", "\ud7ff",
		}))
		return `"` + strings.Join(rapid.SliceOfN(part, 0, 4).Draw(t, "text"), "") + `"`
	}
	kinds := 4
	if depth == 0 {
		kinds = 2
	}
	switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
	case 0:
		return text()
	case 1:
		return rapid.SampledFrom([]string{"true", "false", "null", "0", "-0", "1.50", "1E2", "-12", "0.1", "999999999999999", "1e21", "5e-324"}).Draw(t, "scalar")
	}
	var all []string
	open := rapid.SampledFrom([]string{"{}", "[]"}).Draw(t, "brackets")
	for range rapid.IntRange(0, 5).Draw(t, "children") {
		child := space() + drawSource(t, depth-1) + space()
		if open == "{}" {
			child = space() + text() + space() + ":" + child
		}
		all = append(all, child)
	}
	return open[:1] + space() + strings.Join(all, ",") + space() + open[1:]
}

func TestCanonicalIsTheFormOfRFC8785(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		checkAgainstRFC(t, []byte(drawSource(t, 3)))
	})
}

// checkAgainstRFC compares with the reference implementation, which rounds numbers.
func checkAgainstRFC(t interface {
	Helper()
	Fatalf(string, ...any)
}, document []byte) {
	t.Helper()
	got, err := run.Canonical(document)
	want, wantErr := jcs.Transform(document)
	switch {
	case err != nil && wantErr == nil && strings.Contains(err.Error(), "out of range"): // of a double: it would be 0
	case (err == nil) != (wantErr == nil):
		t.Fatalf("Canonical(%q) = %q, %v, RFC 8785 has %q, %v", document, got, err, want, wantErr)
	case err == nil && !bytes.Equal(got, want) && !hasLongNumber.Match(document):
		t.Fatalf("Canonical(%q) = %q, RFC 8785 has %q", document, got, want)
	}
}

// hasLongNumber matches what may be a number that a double does not hold.
var hasLongNumber = regexp.MustCompile(`[0-9][0-9.]{14}|[0-9][eE]`)

func TestWhatIsNotJSONHasNoCanonicalForm(t *testing.T) {
	for _, in := range []string{
		``, ` `, `{`, `[`, `{"a"`, `{"a":`, `{"a":1`, `{"a":1,}`, `[1,]`, `[,1]`, `[1 2]`, `{"a" 1}`, `{a:1}`, `{1:1}`, `tru`, `True`, `01`, `+1`, `1.`, `.5`, `1e`, `0x1`, `1_0`, `NaN`,
		`"`, `"\`, `"\x"`, `"\u12"`, `"\u123g"`, `"\u+123"`, `"\ud800"`, `"\ud800\u0061"`, `"\udc00"`, `"\udc00\ud800"`, "\"\x01\"", "\"\xff\"", "\"\xed\xa0\x80\"", `{"a":1,"a":2}`, `{"a":1,"\u0061":2}`, `1 2`, `[]]`, "\xef\xbb\xbf1", "\x001",
		strings.Repeat("[", 10_001) + strings.Repeat("]", 10_001),
	} {
		if got, err := run.Canonical([]byte(in)); err == nil {
			t.Errorf("Canonical(%.60q) = %.60q, want an error", in, got)
		}
		checkAgainstRFC(t, []byte(in))
	}
}

func BenchmarkCanonical(b *testing.B) {
	document, err := json.Marshal(map[string]any{"type": "shell", "step": 3, "previous": strings.Repeat("0a", 32), "driver": map[string]any{
		"name": "shell", "version": "0.1.0", "sha256": strings.Repeat("1b", 32)}, "at": "2026-01-02T03:04:05.678Z", "text": strings.Repeat("Run \"make\".\n", 20)})
	if err != nil {
		b.Fatal(err)
	}
	document = append([]byte(`{"z":1,"y":`), append(document, '}')...)
	for b.Loop() {
		if _, err := run.Canonical(document); err != nil {
			b.Fatal(err)
		}
	}
}

func FuzzCanonical(f *testing.F) {
	for _, seed := range []string{`{"a":[9007199254740993,"x\\"]}`, `[1e400]`, `[-]`, `["\\`, `[00000000000000000001]`, `{12345678901234567890:1}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, document []byte) {
		checkAgainstRFC(t, document)
		got, err := run.Canonical(document)
		if err != nil {
			return
		}
		if again, err := run.Canonical(got); err != nil || !bytes.Equal(got, again) {
			t.Errorf("Canonical(%q) = %q, and of that %q, %v", document, got, again, err)
		}
	})
}
