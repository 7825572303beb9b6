package run_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"

	"github.com/gowebpki/jcs"
	"pgregory.net/rapid"

	"github.com/kairos-mcp/kairos/core/run"
)

// awkward are texts that a canonical form has to treat with care, or that are
// no JSON at all.
var awkward = []string{
	``, ` `, "\x00", `{}`, `[]`, ` [ ] `, `null`, `nul`, `true false`, `"`, `"a`, `"\`, `"\u003`, `"\u003c\u003E\u0026"`, `"\u00e9\ud83d\ude00"`, `"\ud800"`,
	`"\/"`, `"a\"b\\c\b\f\n\r\t"`, "\"\t\"", "\"\x7f\"", "\"\xff\"", `"é😀"`, "null\x00", `0`, `-0`, `-0.0`, `0.0`, `00`, `01`, `-`, `-1`, `1.`, `.5`, `1.50`, `1.5`,
	`0.1`, `-0.25`, `0.000001`, `0.0000012`, `0.0000001`, `1e3`, `1E400`, `123456789012345`, `1234567890123456`, `12345678.12345678`, `0.30000000000000004`, `9007199254740993`,
	`{"b":1,"a":2}`, `{"a":1,"a":2}`, `{"a":1,"\u0061":2}`, `{"ab":1,"a":2,"a ":3,"a!":4,"":5}`, `{"é":1,"z":2,"😀":3,"ﬁ":4}`, `{"<":1,"\u003c":2}`,
	`{"a":{"c":[1,{"z":0,"y":null}],"b":{}},"A":""}`, `{"a":1,}`, `{"a"}`, `{a:1}`, `[1,]`, `[1 2]`, `[,]`, `{"a":1]`, "\u2028", "{\"a\":\"\u2028\"}",
	strings.Repeat("[", 100) + strings.Repeat("]", 100), strings.Repeat(`{"b":[`, 40) + strings.Repeat(`],"a":0}`, 40),
}

func TestADigestIsOfTheCanonicalForm(t *testing.T) {
	for _, text := range awkward {
		wantCanonical(t, []byte(text))
	}
	rapid.Check(t, func(t *rapid.T) {
		wantCanonical(t, []byte(documents(3).Draw(t, "document")))
	})
}

func FuzzDigest(f *testing.F) {
	for _, text := range awkward {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) { wantCanonical(t, text) })
}

// wantCanonical holds a digest against that of the library's canonical form.
func wantCanonical(t rapid.TB, document []byte) {
	t.Helper()
	got, err := run.Digest(document)
	canonical, refused := jcs.Transform(document)
	if (err != nil) != (refused != nil) {
		t.Fatalf("Digest(%q): %v, the canonical form: %v", document, err, refused)
	}
	sum := sha256.Sum256(canonical)
	if want := hex.EncodeToString(sum[:]); err == nil && got != want {
		t.Fatalf("Digest(%q) = %s, want %s of %q", document, got, want, canonical)
	}
}

// documents are JSON documents as programs and people write them.
func documents(depth int) *rapid.Generator[string] {
	scalars := rapid.OneOf(
		rapid.SampledFrom(awkward),
		rapid.Map(rapid.Float64(), asJSON[float64]),
		rapid.Map(rapid.Int64(), asJSON[int64]),
		rapid.StringMatching(`-?(0|[1-9][0-9]{0,16})(\.[0-9]{1,8})?`),
		rapid.Map(rapid.String(), asJSON[string]),
	)
	if depth == 0 {
		return scalars
	}
	inner := rapid.SliceOfN(documents(depth-1), 0, 4)
	space := rapid.SampledFrom([]string{"", " ", "\n\t"})
	keys := rapid.OneOf(rapid.StringMatching(`[a-c!<]{0,3}`), rapid.String())
	return rapid.OneOf(scalars, rapid.Custom(func(t *rapid.T) string {
		gap := space.Draw(t, "gap")
		parts := inner.Draw(t, "parts")
		if rapid.Bool().Draw(t, "array") {
			return "[" + gap + strings.Join(parts, gap+","+gap) + gap + "]"
		}
		for i := range parts {
			parts[i] = asJSON(keys.Draw(t, "key")) + gap + ":" + gap + parts[i]
		}
		return gap + "{" + strings.Join(parts, gap+","+gap) + gap + "}"
	}))
}

func asJSON[T any](v T) string {
	b, err := json.Marshal(v)
	if err != nil {
		return "null"
	}
	return string(b)
}

func BenchmarkDigest(b *testing.B) {
	document := []byte(`{"proof":{"exit_code":0,"stdout":"ok \u003c\u003e"},"output":{"exit_code":0,"duration_seconds":0.1},"answers":[{"input_id":"evidence",` +
		`"value":{"type":"shell","nonce":"0123456789abcdef","shell":{"exit_code":0,"stdout":"a\nb"}},"provenance":"agent-reported","via":"agent"}]}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := run.Digest(document); err != nil {
			b.Fatal(err)
		}
	}
}
