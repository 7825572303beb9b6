package terminal

import (
	"fmt"
	"regexp"
	"strconv"
	"sync"
	"time"
)

// steps shows the heading of each step once, in front of the first question about
// it. Methods may be called concurrently.
type steps struct {
	console *console
	timed   bool // how long the run has taken is shown
	began   time.Time

	mu    sync.Mutex // guards the fields below
	shown int        // index of the step that was shown last
	due   bool       // its text was not known then
}

func (s *steps) show(index, count int, title, body string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if index != s.shown {
		s.console.mark(markStep, "\nStep %d of %d: %s%s", index, count, title, s.elapsed())
	}
	if index != s.shown || s.due {
		s.console.quote(body)
	}
	s.shown, s.due = index, body == ""
}

// elapsed is how long the run has taken, for a person who watches it.
func (s *steps) elapsed() string {
	if since := time.Since(s.began); s.timed && since >= time.Second {
		return fmt.Sprintf(" (%s)", since.Round(time.Second))
	}
	return ""
}

// aboutStep is how questions of the server begin that name their step.
var aboutStep = regexp.MustCompile(`^(?:Approve step|Step) (\d+) of (\d+), ("(?:[^"\\]|\\.)*"), `)

// introduce shows the step that a question is about, if it is a later one than the
// last that was shown: a call may carry out a step and ask about the next one.
func (s *steps) introduce(question string) {
	m := aboutStep.FindStringSubmatch(question)
	if m == nil {
		return
	}
	index, indexErr := strconv.Atoi(m[1])
	count, countErr := strconv.Atoi(m[2])
	title, titleErr := strconv.Unquote(m[3])
	s.mu.Lock()
	later := index > s.shown
	s.mu.Unlock()
	if indexErr == nil && countErr == nil && titleErr == nil && later {
		s.show(index, count, clip(title), "")
	}
}
