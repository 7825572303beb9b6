package output

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// When the line of a command appears, and how often it changes.
const (
	progressAfter = time.Second
	progressEvery = 200 * time.Millisecond
)

// eraseLine is what terminals take as: to the left edge, and clear the line.
const eraseLine = "\r\x1b[K"

// Progress is a line at a terminal that says how far a command is. It appears if
// the command takes longer than a second and is erased at its end. Where no
// terminal is, nothing appears.
type Progress struct {
	w     io.Writer
	start time.Time
	stop  chan struct{} // nil: no terminal
	ended chan struct{}

	mu    sync.Mutex // guards the fields below
	what  string
	done  int
	total int // 0: nobody counts
}

// NewProgress starts one, such as "importing"; total is 0 where nobody knows it.
// Its caller ends it before it prints anything.
func NewProgress(w io.Writer, total int, what string) *Progress {
	p := &Progress{w: w, total: total, what: what, start: time.Now()}
	if IsTerminal(w) {
		p.show()
	}
	return p
}

// While does something that may take long, under a line that says what.
func While[T any](w io.Writer, what string, do func() (T, error)) (T, error) {
	p := NewProgress(w, 0, what)
	defer p.End()
	return do()
}

// show draws the line until End is called.
func (p *Progress) show() {
	p.stop, p.ended = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(p.ended)
		wait := time.NewTimer(progressAfter)
		defer wait.Stop()
		for drawn := false; ; drawn = true {
			select {
			case <-wait.C:
				fmt.Fprint(p.w, eraseLine+p.line(time.Now()))
				wait.Reset(progressEvery)
			case <-p.stop:
				if drawn {
					fmt.Fprint(p.w, eraseLine)
				}
				return
			}
		}
	}()
}

// Add counts n more.
func (p *Progress) Add(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done += n
}

// line says how far it is, such as "importing: 1200 of 5000, 310/s".
func (p *Progress) line(now time.Time) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	took := now.Sub(p.start)
	text := fmt.Sprintf("%s: %s", p.what, took.Truncate(time.Second))
	switch {
	case p.total > 0:
		text = fmt.Sprintf("%s: %d of %d", p.what, p.done, p.total)
	case p.done > 0:
		text = fmt.Sprintf("%s: %d", p.what, p.done)
	}
	if p.done > 0 {
		text += fmt.Sprintf(", %.0f/s", float64(p.done)/took.Seconds())
	}
	return text
}

// End erases the line. It may be called twice.
func (p *Progress) End() {
	if p.stop == nil {
		return
	}
	close(p.stop)
	<-p.ended
	p.stop = nil
}
