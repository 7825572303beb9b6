package output

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// drawing starts a progress that takes its writer for a terminal.
func drawing(w *strings.Builder, total int, what string) *Progress {
	p := NewProgress(w, total, what)
	p.show()
	return p
}

func TestProgressAppearsAfterASecondAndIsErased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		p := drawing(&out, 5000, "importing")
		time.Sleep(999 * time.Millisecond)
		p.Add(400)
		time.Sleep(time.Millisecond)
		synctest.Wait()
		p.Add(800)
		time.Sleep(progressEvery)
		synctest.Wait()
		p.End()
		p.End()
		want := eraseLine + "importing: 400 of 5000, 400/s" + eraseLine + "importing: 1200 of 5000, 1000/s" + eraseLine
		if out.String() != want {
			t.Errorf("it writes %q, want %q", &out, want)
		}
	})
}

func TestProgressOfWhatNobodyCountsIsItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		p := drawing(&out, 0, "checking the database")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		p.End()
		if want := eraseLine + "checking the database: 2s" + eraseLine; !strings.HasSuffix(out.String(), want) {
			t.Errorf("it writes %q, want %q at the end", &out, want)
		}
	})
}

func TestProgressIsSilentForAShortCommandAndWithoutATerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var short, piped strings.Builder
		p := drawing(&short, 10, "importing")
		p.Add(10)
		p.End()
		q := NewProgress(&piped, 10, "importing")
		time.Sleep(time.Minute)
		q.End()
		if short.Len()+piped.Len() > 0 {
			t.Errorf("a short command writes %q and a piped one %q, want nothing", &short, &piped)
		}
	})
}
