package plain_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/kairos-mcp/kairos/sdk/plain"
)

func TestHiddenCharactersAreShownByTheirCode(t *testing.T) {
	for in, want := range map[string][2]string{ // as a text, as a line
		"Müller 東京 ✓":             {"Müller 東京 ✓", "Müller 東京 ✓"},
		"a\nb\tc\r\nd":            {"a\nb\tc\nd", "a b c d"},
		"over\rwritten":           {"over⟨U+000D⟩written", "over written"},
		"\x1b[2Jgone":             {"⟨U+001B⟩[2Jgone", "⟨U+001B⟩[2Jgone"},
		"a\u202eb\ufeff":          {"a⟨U+202E⟩b⟨U+FEFF⟩", "a⟨U+202E⟩b⟨U+FEFF⟩"},
		"a\u2028b\u009b":          {"a⟨U+2028⟩b⟨U+009B⟩", "a⟨U+2028⟩b⟨U+009B⟩"},
		"\xff":                    {"\uFFFD", "\uFFFD"},
		"⚠\ufe0f Stop":            {"⚠ Stop", "⚠ Stop"}, // only how the sign is drawn
		"⚠\ufe0f\ufe0f":           {"⚠⟨U+FE0F⟩", "⚠⟨U+FE0F⟩"},
		"a\ufe0fb\U000e0101":      {"a⟨U+FE0F⟩b⟨U+E0101⟩", "a⟨U+FE0F⟩b⟨U+E0101⟩"},
		"\u3164\u2800\u115f":      {"⟨U+3164⟩⟨U+2800⟩⟨U+115F⟩", "⟨U+3164⟩⟨U+2800⟩⟨U+115F⟩"},
		"\u034f\U000e0041\ufe00":  {"⟨U+034F⟩⟨U+E0041⟩⟨U+FE00⟩", "⟨U+034F⟩⟨U+E0041⟩⟨U+FE00⟩"},
		"👩\u200d💻 ❤\ufe0f\u200d🔥": {"👩\u200d💻 ❤\u200d🔥", "👩\u200d💻 ❤\u200d🔥"}, // one emoji each
		"می\u200cخواهم":           {"می\u200cخواهم", "می\u200cخواهم"},         // spelled so
		"de\u200dploy\u200c":      {"de⟨U+200D⟩ploy⟨U+200C⟩", "de⟨U+200D⟩ploy⟨U+200C⟩"},
		"👩\u200d\u200d💻":          {"👩⟨U+200D⟩⟨U+200D⟩💻", "👩⟨U+200D⟩⟨U+200D⟩💻"},
		"🏴\U000e0067\U000e007f":   {"🏴⟨U+E0067⟩⟨U+E007F⟩", "🏴⟨U+E0067⟩⟨U+E007F⟩"},
		"prix\u00a0:\u3000円":      {"prix\u00a0:\u3000円", "prix\u00a0:\u3000円"}, // spaces
	} {
		if got := plain.Text(in); got != want[0] {
			t.Errorf("Text(%q) = %q, want %q", in, got, want[0])
		}
		if got := plain.Line(in); got != want[1] {
			t.Errorf("Line(%q) = %q, want %q", in, got, want[1])
		}
	}
}

// A default ignorable code point is Cf, but for a few that are drawn, and what
// the two other tables add.
func TestEveryDefaultIgnorableAndDirectionMarkIsHidden(t *testing.T) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
		must := unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector, unicode.Cf, unicode.Bidi_Control, unicode.Cc)
		if must && !plain.Hidden(r) {
			t.Errorf("%U is not hidden", r)
		}
		if unicode.In(r, unicode.Zs, unicode.L, unicode.N) && plain.Hidden(r) && !unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r) {
			t.Errorf("%U is hidden", r)
		}
	}
}

func TestShowingTwiceIsShowingOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "s")
		text, line := plain.Text(s), plain.Line(s)
		if plain.Text(text) != text || plain.Line(line) != line {
			t.Errorf("%q is shown as %q and %q, and not the same again", s, text, line)
		}
		if at := plain.Marked(line); at >= 0 || plain.Marked(text) >= 0 {
			t.Errorf("Line(%q) = %q has hidden characters", s, line)
		}
		if at := plain.Marked(s); at >= 0 != strings.Contains(strings.ReplaceAll(text, s, ""), "⟨U+") && !strings.Contains(s, "⟨U+") {
			t.Errorf("Marked(%q) = %d, and it is shown as %q", s, at, text)
		}
	})
}

func TestWhatCannotBeSeenIsEmpty(t *testing.T) {
	for _, s := range []string{"", " \n", "\u200b", "\x00", "\u202e\u202c", "\xed\xa0\x80", "\uFFFD", "\u3164\u2800", "\U000e0041", "\u00a0\u3000"} {
		if !plain.Empty(s) {
			t.Errorf("Empty(%q) = false", s)
		}
	}
	for _, s := range []string{"a", "0", "-", "鍵", "👍", " \u200bx"} {
		if plain.Empty(s) {
			t.Errorf("Empty(%q) = true", s)
		}
	}
	if got := plain.Visible("\u200b a\u202eb\nc\x00 "); got != "ab\nc" {
		t.Errorf("Visible = %q", got)
	}
}

func TestLengthIsWhatAReaderSees(t *testing.T) {
	for s, want := range map[string]int{
		"": 0, " \u200b\n": 0, "done": 4, " do\u200bne ": 4, "a   \u00a0\n b": 3, "éé": 2, "e\u0301e\u0301": 2, "鍵を更新": 4,
		strings.Repeat("\u0301", 50): 0, "x" + strings.Repeat("\u0338", 50): 2, "कि": 2,
	} {
		if got := plain.Length(s); got != want {
			t.Errorf("Length(%q) = %d, want %d", s, got, want)
		}
	}
}

func TestAWordIsReadHoweverItIsWritten(t *testing.T) {
	for _, s := range []string{
		"rejected", " REJECTED ", "rejected.", `"rejected"`, "**Rejected!**", "re\u200bjected", "\u202erejected\u202c",
		"ｒｅｊｅｃｔｅｄ", "r\u0435jected", "rejecteԁ", "𝗿𝗲𝗷𝗲𝗰𝘁𝗲𝗱", "\u200b\"rejected\ufe0f\"",
	} {
		if !plain.Rejected(s) || plain.Approved(s) {
			t.Errorf("Rejected(%q) = %v, Approved = %v", s, plain.Rejected(s), plain.Approved(s))
		}
	}
	for _, s := range []string{"", "not rejected", "rejected by the board", "reject", "re jected", "approved"} {
		if plain.Rejected(s) {
			t.Errorf("Rejected(%q) = true", s)
		}
	}
	if !plain.Approved("“Approved.”") || plain.Approved("approved, mostly") {
		t.Error("Approved reads another word")
	}
}

func TestTextsThatLookAlikeHaveOneSkeleton(t *testing.T) {
	for _, pair := range [][2]string{
		{"Deploy", "De\u200bploy"}, {"Deploy", "D\u0435pl\u043ey"}, {"COPY", "\u0421\u041e\u0420\u0423"}, {"copy", "\u0441\u043e\u0440\u0443"},
		{"MINT", "\u041cINT"}, {"Mint", "\u043cint"}, {"Init", "\u0406n\u0456t"}, {"Москва", "МОСКВА"},
	} {
		if a, b := plain.Skeleton(pair[0]), plain.Skeleton(pair[1]); a != b {
			t.Errorf("Skeleton(%q) = %q, Skeleton(%q) = %q", pair[0], a, pair[1], b)
		}
	}
	for _, pair := range [][2]string{{"modem", "modern"}, {"Deploy", "Destroy"}, {"Резка", "Pe3ka"}, {"a b", "ab"}} {
		if a, b := plain.Skeleton(pair[0]), plain.Skeleton(pair[1]); a == b {
			t.Errorf("Skeleton(%q) = Skeleton(%q) = %q", pair[0], pair[1], a)
		}
	}
}

func TestJSONSaysTheSameWithNothingHidden(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.MapOf(rapid.String(), rapid.OneOf(rapid.String(), rapid.StringOf(rapid.SampledFrom([]rune("a\"\\\u202e\u200b\U000e0041\ufe0f\x7f\n"))))).Draw(t, "value")
		document, err := json.MarshalIndent(value, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		shown := plain.JSON(document)
		var again map[string]string
		if err := json.Unmarshal(shown, &again); err != nil || !maps.Equal(value, again) {
			t.Errorf("JSON(%s) = %s, %v", document, shown, err)
		}
		if strings.ContainsFunc(string(shown), func(r rune) bool { return r != '\n' && plain.Hidden(r) }) {
			t.Errorf("JSON(%s) = %q has hidden characters", document, shown)
		}
	})
}

func TestShownJSONShowsEachTextAsText(t *testing.T) {
	text := rapid.OneOf(rapid.String(), rapid.StringOf(rapid.SampledFrom([]rune("a\"\\/<&\u202e\u200b\U000e0041\ufe0f\u2028\x7f\r\n\t\b⚠"))))
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.MapOf(rapid.StringMatching(`[a-z]+`), rapid.SliceOfN(text, 0, 3)).Draw(t, "value")
		var document bytes.Buffer
		enc := json.NewEncoder(&document)
		enc.SetEscapeHTML(rapid.Bool().Draw(t, "html"))
		if err := enc.Encode(value); err != nil {
			t.Fatal(err)
		}
		var got map[string][]string
		if err := json.Unmarshal(plain.ShownJSON(document.Bytes()), &got); err != nil {
			t.Fatal(err)
		}
		for name, texts := range value {
			for i, s := range texts {
				if want := plain.Text(strings.ToValidUTF8(s, "\ufffd")); got[name][i] != want {
					t.Errorf("%q is shown as %q, want %q", s, got[name][i], want)
				}
			}
		}
	})
	for in, want := range map[string]string{
		`{"a\u202eb":1,"c":"\r\n"}`: `{"a⟨U+202E⟩b":1,"c":"\n"}`, `"\ud83d\ude00 \u0026"`: `"\ud83d\ude00 \u0026"`, `["\\u202e"]`: `["\\u202e"]`, `"\udb40\udc41"`: `"⟨U+E0041⟩"`,
	} {
		if got := string(plain.ShownJSON([]byte(in))); got != want {
			t.Errorf("ShownJSON(%s) = %s, want %s", in, got, want)
		}
	}
}

func FuzzPlain(f *testing.F) {
	for _, seed := range []string{"plain", "\x1b[2J\x00", "\xff\xfe", "\u202egnp", "⚠\ufe0f"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if line := plain.Line(s); plain.Marked(line) >= 0 || strings.ContainsAny(line, "\n\t") {
			t.Errorf("Line(%q) = %q", s, line)
		}
		if plain.Empty(s) != plain.Empty(plain.Visible(s)) {
			t.Errorf("Empty(%q) is not that of what is visible of it", s)
		}
	})
}

func TestTextsOfAnyLengthAreBounded(t *testing.T) {
	long := strings.Repeat("é\u202e\n", 1000)
	for name, within := range map[string]func(string, int) string{"TextWithin": plain.TextWithin, "LineWithin": plain.LineWithin} {
		for n := range 64 {
			got := within(long, n)
			if len(got) > n+len("…") || !utf8.ValidString(got) || !strings.HasSuffix(got, "…") || strings.ContainsFunc(strings.ReplaceAll(got, "\n", ""), plain.Hidden) {
				t.Errorf("%s(…, %d) = %q, want at most %d bytes, nothing hidden, and that it was cut", name, n, got, n)
			}
		}
	}
	if got := plain.TextWithin("a\nb\u202e", 100); got != "a\nb⟨U+202E⟩" {
		t.Errorf("TextWithin of a short text = %q", got)
	}
	if got := plain.LineWithin(" a\nb\u202e ", 100); got != "a b⟨U+202E⟩" {
		t.Errorf("LineWithin of a short text = %q", got)
	}
}

func TestSentencesEndOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		parts []string
		want  string
	}{
		"a full stop":          {[]string{"It failed", " ", "Try again"}, "It failed. Try again."},
		"another mark":         {[]string{"Why?", "It says:", "cut…"}, "Why? It says: cut…"},
		"a code block":         {[]string{"It printed:\n```\nno\n```", "Try again"}, "It printed:\n```\nno\n```\nTry again."},
		"a code block, at end": {[]string{"It printed:\n```\nno\n```"}, "It printed:\n```\nno\n```"},
	} {
		if got := plain.Sentences(tc.parts...); got != tc.want {
			t.Errorf("%s: Sentences = %q, want %q", name, got, tc.want)
		}
	}
}

func TestATextContinuesALineInLowerCase(t *testing.T) {
	for in, want := range map[string]string{
		"None of 2 steps is proved.": "none of 2 steps is proved.", "1 of 4 steps": "1 of 4 steps", "Öl": "öl",
		"KAIROS saw nothing": "KAIROS saw nothing", "both": "both", "A": "a", "": "",
	} {
		if got := plain.Continued(in); got != want {
			t.Errorf("Continued(%q) = %q, want %q", in, got, want)
		}
	}
}
