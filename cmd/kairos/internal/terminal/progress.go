package terminal

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"time"
	"unicode/utf8"

	"github.com/kairos-mcp/kairos/sdk/plain"
)

// When the line about something that takes long appears, and how often it changes.
const (
	progressAfter = time.Second
	progressEvery = 250 * time.Millisecond
)

// eraseLine is what terminals take as: to the left edge, and clear the line.
const eraseLine = "\r\x1b[K"

// during shows at a terminal what has taken long, until the returned function is
// called. While the person is asked something nothing is shown, and the time begins
// anew. An interrupt is answered at once, because what was begun may take a while to
// end.
func (h *host) during(ctx context.Context, what string) (end func()) {
	if !h.cfg.Signs {
		return func() {}
	}
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(progressEvery)
		defer tick.Stop()
		for since := time.Now(); ; {
			select {
			case <-tick.C:
			case <-ctx.Done():
				h.endProgress(ctx, what)
				<-stop
				return
			case <-stop: // possibly because of the interrupt
				h.endProgress(ctx, what)
				return
			}
			took := time.Since(since)
			if took < progressAfter {
				continue
			}
			if !h.console.status(fmt.Sprintf("%s … %s (Ctrl-C stops it)", what, took.Truncate(time.Second))) {
				since = time.Now()
			}
		}
	}()
	return func() {
		close(stop)
		<-ended
	}
}

// endProgress takes the line off the screen. An interrupt is answered in its place.
func (h *host) endProgress(ctx context.Context, what string) {
	if h.console.erase() && ctx.Err() != nil {
		h.console.say("interrupted while %s: the run stays open", what)
	}
}

// action is the tool that the open step calls, or the command that it runs.
func (r stepReply) action() (tool, command string) {
	var show struct {
		Tool    string `json:"tool_name"`
		Command string `json:"cmd"`
	}
	_ = json.Unmarshal(r.Challenge.Display, &show) // of another shape: it names neither
	return show.Tool, show.Command
}

// isAction reports whether the open step calls a tool or runs a command.
func (r stepReply) isAction() bool {
	tool, command := r.action()
	return tool != "" || command != ""
}

// doing says what the server does for the open step.
func (r stepReply) doing() string {
	switch tool, command := r.action(); {
	case tool != "":
		return "calling " + clipTo(plain.Line(tool), 40)
	case command != "":
		return "running " + clipTo(plain.Line(command), 40)
	case r.StepIndex > 0:
		return fmt.Sprintf("working on step %d", r.StepIndex)
	}
	return "working"
}

// status shows a line that the next output replaces, unless a person is being asked.
func (c *console) status(text string) bool {
	select {
	case <-c.turn:
		defer func() { c.turn <- struct{}{} }()
	default:
		return false
	}
	c.outMu.Lock()
	defer c.outMu.Unlock()
	c.drawn = true
	fmt.Fprint(c.out, eraseLine+text)
	return true
}

// erase takes the line of status off the screen and reports whether there was one.
func (c *console) erase() bool {
	c.outMu.Lock()
	defer c.outMu.Unlock()
	return c.eraseLocked()
}

func (c *console) eraseLocked() bool {
	was := c.drawn
	if c.drawn = false; was {
		fmt.Fprint(c.out, eraseLine)
	}
	return was
}

// mark sets a line of ours off from the others: by a sign and a colour on a
// terminal, by a word elsewhere.
type mark struct {
	sign, word string
	// sgr is how the sign looks, or the whole line where there is none: parameters
	// of SELECT GRAPHIC RENDITION (ECMA-48, section 8.3.117).
	sgr string
}

var (
	markStep    = mark{sgr: "1"}
	markSolved  = mark{sign: "✓", word: "solved", sgr: "32"}
	markRefused = mark{sign: "✗ not accepted:", word: "not accepted:", sgr: "31"}
)

// look is how a person's terminal shows marks; the zero value is plain text.
type look struct {
	signs, colours bool
}

// columns is how many are left behind the mark in a line of a terminal.
func (l look) columns(m mark) int {
	if !l.signs {
		return math.MaxInt
	}
	return 80 - l.lead(m)
}

// lead is how many columns the mark takes.
func (l look) lead(m mark) int {
	sign := m.word
	if l.signs {
		sign = m.sign
	}
	if sign == "" {
		return 0
	}
	return utf8.RuneCountInString(sign + " ")
}

func (l look) of(m mark, text string) string {
	lead := m.word
	if l.signs {
		lead = m.sign
	}
	if lead == "" {
		return l.paint(m, text)
	}
	return l.paint(m, lead) + " " + text
}

func (l look) paint(m mark, text string) string {
	if !l.colours || m.sgr == "" {
		return text
	}
	return "\x1b[" + m.sgr + "m" + text + "\x1b[0m"
}
