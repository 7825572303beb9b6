package output

import (
	"fmt"
	"io"
	"time"

	"github.com/schollz/progressbar/v3"
)

// plainProgress is how often a line tells how far it is, where no bar can be drawn.
const plainProgress = 10 * time.Second

// Progress is a bar at a terminal. Elsewhere a line now and then says how far it is.
type Progress struct {
	bar *progressbar.ProgressBar // nil: no terminal

	w           io.Writer
	what        string
	done, total int // total: -1 where nobody knows it
	start, told time.Time
}

// NewProgress starts one; total is -1 where nobody knows it.
func NewProgress(w io.Writer, total int, what string) *Progress {
	if !IsTerminal(w) {
		now := time.Now()
		return &Progress{w: w, what: what, total: total, start: now, told: now}
	}
	return &Progress{bar: progressbar.NewOptions(total, progressbar.OptionSetWriter(w), progressbar.OptionSetDescription(what),
		progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetItsString("protocols"),
		progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish())}
}

// Add counts n more. A bar that cannot be drawn is not a failure.
func (p *Progress) Add(n int) {
	if p.bar != nil {
		_ = p.bar.Add(n)
		return
	}
	p.done += n
	if now := time.Now(); now.Sub(p.told) >= plainProgress {
		p.told = now
		fmt.Fprintln(p.w, p.line(now))
	}
}

// line says how far it is, such as "importing: 1200 of 5000, 310/s".
func (p *Progress) line(now time.Time) string {
	of := ""
	if p.total >= 0 {
		of = fmt.Sprintf(" of %d", p.total)
	}
	return fmt.Sprintf("%s: %d%s, %.0f/s", p.what, p.done, of, float64(p.done)/now.Sub(p.start).Seconds())
}

// End removes the bar.
func (p *Progress) End() {
	if p.bar != nil {
		_ = p.bar.Finish()
	}
}
