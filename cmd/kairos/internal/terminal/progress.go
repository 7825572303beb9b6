package terminal

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

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
