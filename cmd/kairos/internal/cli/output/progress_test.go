package output

import (
	"strings"
	"testing"
	"time"
)

func TestProgressIsALineNowAndThenWhereThereIsNoTerminal(t *testing.T) {
	var out strings.Builder
	p := NewProgress(&out, 5000, "importing")
	p.Add(64)
	if out.Len() > 0 {
		t.Errorf("at once it says %q, want nothing", out.String())
	}
	p.start, p.told = p.start.Add(-16*time.Second), p.told.Add(-16*time.Second)
	p.Add(1536)
	p.Add(64)
	p.End()
	if got, want := out.String(), "importing: 1600 of 5000, 100/s\n"; got != want {
		t.Errorf("after 16 s it says %q, want %q", got, want)
	}
}
