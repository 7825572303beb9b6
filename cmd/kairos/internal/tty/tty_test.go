package tty_test

import (
	"io"
	"os"
	"strings"
	"testing"

	"github.com/creack/pty"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/tty"
)

func TestLinesBreakBetweenWords(t *testing.T) {
	for name, tc := range map[string]struct {
		text, indent string
		width        int
		want         string
	}{
		"fits":               {"one two", "", 20, "one two"},
		"breaks at a blank":  {"one two three four five six", "", 20, "one two three four\nfive six"},
		"exactly the width":  {"12345678901234567890 1", "", 20, "12345678901234567890\n1"},
		"repeats the indent": {"  | one two three four five", "  | ", 20, "  | one two three\n  | four five"},
		"a long word stays":  {"see https://example.com/a/b/c/d/e now", "", 20, "see\nhttps://example.com/a/b/c/d/e\nnow"},
		"begins with a word that is too long": {
			"  | https://example.com/a/b/c/d/e now", "  | ", 20, "  | https://example.com/a/b/c/d/e\n  | now",
		},
		"every line for itself": {"a\n12345678901234567890 1\nb", "", 20, "a\n12345678901234567890\n1\nb"},
		"keeps blanks in front": {"   one two three four five", "     ", 20, "   one two three\n     four five"},
		"a command stays whole": {"run `kairos accept 12345678` for it", "", 20, "run\n`kairos accept 12345678`\nfor it"},
		"counts characters":     {"ää öö üü ßß ää öö üü ß", "", 20, "ää öö üü ßß ää öö üü\nß"},
		"no terminal":           {strings.Repeat("one ", 100), "", 0, strings.Repeat("one ", 100)},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tty.Wrap(tc.text, tc.width, tc.indent); got != tc.want {
				t.Errorf("Wrap(%q, %d, %q) = %q, want %q", tc.text, tc.width, tc.indent, got, tc.want)
			}
		})
	}
}

func TestATerminalKnowsItsWidthAndForgetsWhatWasTyped(t *testing.T) {
	keyboard, terminal, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = keyboard.Close(), terminal.Close() }()
	if got := tty.Width(terminal); got != 80 {
		t.Errorf("Width of a terminal without a size = %d", got)
	}
	if err := pty.Setsize(keyboard, &pty.Winsize{Rows: 30, Cols: 100}); err != nil {
		t.Fatal(err)
	}
	if got := tty.Width(terminal); got != 100 {
		t.Errorf("Width = %d, want 100", got)
	}
	if got := tty.Width(&strings.Builder{}); got != 0 {
		t.Errorf("Width of no terminal = %d", got)
	}
	if _, err := io.WriteString(keyboard, "early\n"); err != nil {
		t.Fatal(err)
	}
	tty.Discard(terminal)
	if _, err := io.WriteString(keyboard, "late\n"); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 100)
	if n, err := terminal.Read(b); err != nil || string(b[:n]) != "late\n" {
		t.Errorf("read %q, %v, want only what was typed afterwards", b[:n], err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := io.WriteString(w, "kept\n"); err != nil {
		t.Fatal(err)
	}
	tty.Discard(r)
	if n, err := r.Read(b); err != nil || string(b[:n]) != "kept\n" {
		t.Errorf("a pipe has %q, %v", b[:n], err)
	}
}
