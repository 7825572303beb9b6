package output

import (
	"strings"
	"testing"

	"github.com/creack/pty"
)

func TestValuesBreakBetweenWordsAtATerminal(t *testing.T) {
	screen, terminal, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = screen.Close(), terminal.Close() }()
	p := &Printer{W: terminal}
	p.Field("answer", strings.Repeat("wonderful ", 10)+"\x1b[2J")
	p.Printf("end\n")
	b := make([]byte, 1024)
	var shown string
	for !strings.Contains(shown, "end") && p.Err == nil {
		n, err := screen.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		shown += string(b[:n])
	}
	lines := strings.Split(shown, "\r\n")
	if !strings.HasPrefix(lines[0], "       answer     wonderful") || !strings.HasPrefix(lines[1], strings.Repeat(" ", 18)+"wonderful") || len(lines[0]) > 80 {
		t.Errorf("shown:\n%s", shown)
	}
	if strings.Contains(shown, "\x1b") {
		t.Errorf("a value steers the terminal: %q", shown)
	}
}
