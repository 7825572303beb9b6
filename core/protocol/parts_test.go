package protocol_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/kairos-mcp/kairos/core/protocol"
)

func TestThePartsOfATextAreTheText(t *testing.T) {
	pieces := rapid.OneOf(
		rapid.SampledFrom([]string{"\n", "\n\n", "\r\n", "```\n", "word ", "ü", "世界", "👩‍👩‍👧", "\xff", "\x80\x80"}),
		rapid.StringN(0, 50, 100),
		rapid.Map(rapid.IntRange(1, 3000), func(n int) string { return strings.Repeat("é", n) }),
		rapid.Map(rapid.IntRange(1, 3000), func(n int) string { return strings.Repeat("line\n", n) }),
		rapid.Map(rapid.IntRange(1, 9000), func(n int) string { return strings.Repeat("\x80", n) }),
	)
	rapid.Check(t, func(r *rapid.T) {
		text := strings.Join(rapid.SliceOfN(pieces, 0, 30).Draw(r, "pieces"), "")
		parts := protocol.Parts(text)
		if len(parts) == 0 || strings.Join(parts, "") != text {
			r.Fatalf("%d parts, which are not the text of %d bytes", len(parts), len(text))
		}
		for i, part := range parts {
			if len(part) > protocol.PartSize || part == "" && text != "" {
				r.Errorf("part %d of %d has %d bytes", i+1, len(parts), len(part))
			}
			if utf8.ValidString(text) && !utf8.ValidString(part) {
				r.Errorf("part %d of %d is cut in a character", i+1, len(parts))
			}
			if longestLine(text) <= protocol.PartSize && i+1 < len(parts) && !strings.HasSuffix(part, "\n") {
				r.Errorf("part %d of %d is cut in a line: it ends with %.20q", i+1, len(parts), part[len(part)-min(len(part), 20):])
			}
		}
	})
}

func longestLine(text string) (n int) {
	for line := range strings.Lines(text) {
		n = max(n, len(line))
	}
	return n
}

func TestWhereATextIsCut(t *testing.T) {
	line := strings.Repeat("x", 99) + "\n"
	for name, tc := range map[string]struct {
		text  string
		first string // part
		parts int
	}{
		"empty":                         {"", "", 1},
		"as long as a part":             {strings.Repeat("x", 4096), strings.Repeat("x", 4096), 1},
		"one byte more":                 {strings.Repeat("x", 4097), strings.Repeat("x", 4096), 2},
		"between paragraphs":            {strings.Repeat(line, 30) + "\n" + strings.Repeat(line, 30), strings.Repeat(line, 30) + "\n", 2},
		"not after a short paragraph":   {strings.Repeat(line, 5) + "\n" + strings.Repeat(line, 60), strings.Repeat(line, 5) + "\n" + strings.Repeat(line, 35), 2},
		"before a character of 2 bytes": {"x" + strings.Repeat("é", 3000), "x" + strings.Repeat("é", 2047), 2},
	} {
		if parts := protocol.Parts(tc.text); len(parts) != tc.parts || parts[0] != tc.first {
			t.Errorf("%s: %d parts, the first of %d bytes; want %d, the first of %d bytes", name, len(parts), len(parts[0]), tc.parts, len(tc.first))
		}
	}
}
