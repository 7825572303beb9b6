package plain_test

import (
	"testing"

	"github.com/kairos-mcp/kairos/sdk/plain"
)

func TestWhatSteersOrHidesIsNamed(t *testing.T) {
	for in, want := range map[string][2]string{ // as a text, as a line
		"Müller 東京 ✓":    {"Müller 東京 ✓", "Müller 東京 ✓"},
		"a\nb\tc\r\nd":   {"a\nb\tc⟨U+000D⟩\nd", "a b c d"},
		"\x1b[2Jgone":    {"⟨U+001B⟩[2Jgone", "⟨U+001B⟩[2Jgone"},
		"a\u202eb\ufeff": {"a⟨U+202E⟩b⟨U+FEFF⟩", "a⟨U+202E⟩b⟨U+FEFF⟩"},
		"a\u2028b\u009b": {"a⟨U+2028⟩b⟨U+009B⟩", "a⟨U+2028⟩b⟨U+009B⟩"},
		"\xff":           {"\uFFFD", "\uFFFD"},
	} {
		if got := plain.Text(in); got != want[0] {
			t.Errorf("Text(%q) = %q, want %q", in, got, want[0])
		}
		if got := plain.Line(in); got != want[1] {
			t.Errorf("Line(%q) = %q, want %q", in, got, want[1])
		}
	}
}
