package terminal

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/tty"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// errNoInput: a question needs a person and there is nobody.
var errNoInput = errors.New("the question needs an answer, but the input has ended")

// console is the terminal: one dialog at a time, and text of others cannot
// move the cursor or pretend to be ours.
type console struct {
	turn chan struct{} // holds one token; whoever has it may ask

	look look

	terminal io.Writer // what out writes to, also once it is closed

	outMu sync.Mutex // guards the fields below
	out   io.Writer  // io.Discard once closed
	drawn bool       // a line of status is on the screen

	// The fields below belong to whoever has the token.
	stdin   io.Reader     // what in reads from
	in      *bufio.Reader // nil: nobody answers
	pending chan line     // a read that a cancelled question left behind
}

type line struct {
	text string
	err  error
}

func newConsole(in io.Reader, out io.Writer, l look) *console {
	c := &console{turn: make(chan struct{}, 1), look: l, out: out, terminal: out}
	if out == nil {
		c.out = io.Discard
	}
	if in != nil {
		c.stdin, c.in = in, bufio.NewReader(in)
	}
	c.turn <- struct{}{}
	return c
}

// close drops whatever is said from now on. A connection may deliver a last
// notification after it was closed, when the output belongs to the caller again.
func (c *console) close() {
	c.outMu.Lock()
	defer c.outMu.Unlock()
	c.out = io.Discard
}

// quoted begins each line that somebody else wrote.
const quoted = "  | "

// say prints a line of ours, after an empty one if the format begins with a line
// feed. Any other line feed is a value's: what follows it is quoted, so that no
// value can write a line that looks like ours.
func (c *console) say(format string, args ...any) { c.mark(mark{}, format, args...) }

// mark is say for a line with a mark.
func (c *console) mark(m mark, format string, args ...any) {
	line, apart := strings.CutPrefix(format, "\n")
	text := strings.ReplaceAll(plain.Text(fmt.Sprintf(line, args...)), "\n", "\n"+quoted)
	text = c.look.of(m, c.wrapped(text, c.look.lead(m)))
	if apart {
		text = "\n" + text
	}
	c.outMu.Lock()
	defer c.outMu.Unlock()
	c.eraseLocked()
	fmt.Fprintln(c.out, text)
}

// hanging is what the rest of a long line of ours begins with. It is not empty, so
// that no value can write a line that looks like ours.
const hanging = "    "

// wrapped breaks the lines at the terminal's edge between words. The first one has
// a mark of so many columns in front of it.
func (c *console) wrapped(text string, lead int) string {
	width := tty.Width(c.terminal)
	if width == 0 {
		return text
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		indent := hanging
		if strings.HasPrefix(line, quoted) {
			indent = quoted
			if rest := strings.TrimLeft(strings.TrimPrefix(line, quoted), "> "); len(rest) < len(line)-len(quoted) {
				indent = line[:len(line)-len(rest)]
			}
		}
		if i == 0 && lead > 0 {
			line = strings.Repeat("x", lead) + line
		}
		line = tty.Wrap(line, width, indent)
		if i == 0 {
			line = line[lead:]
		}
		lines[i] = line
	}
	return strings.Join(lines, "\n")
}

// quote prints a text of somebody else, set off from ours.
func (c *console) quote(text string) {
	if text = strings.TrimRight(text, "\r\n"); text != "" {
		c.say("%s%s", quoted, text)
	}
}

// dialog waits for the terminal; call the returned function when done.
func (c *console) dialog(ctx context.Context) (func(), error) {
	select {
	case <-c.turn:
		return func() { c.turn <- struct{}{} }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// ask prints a prompt and returns one line without its end. The caller has the dialog.
func (c *console) ask(ctx context.Context, prompt string) (string, error) {
	if c.in == nil {
		return "", errNoInput
	}
	c.outMu.Lock()
	c.eraseLocked()
	fmt.Fprint(c.out, plain.Line(prompt)+" ")
	c.outMu.Unlock()
	if c.pending == nil {
		// A read cannot be interrupted, so it runs beside us. One that nobody
		// waits for any more stays until its line comes or the input is closed.
		pending := make(chan line, 1)
		in := c.in
		go func() {
			text, err := in.ReadString('\n')
			pending <- line{text, err}
		}()
		c.pending = pending
	}
	select {
	case l := <-c.pending:
		c.pending = nil
		if l.err != nil && l.text == "" {
			return "", errNoInput
		}
		return strings.TrimRight(l.text, "\r\n"), nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// value implements asker: the prompt lists the choices.
func (c *console) value(ctx context.Context, prompt string, _ field) (string, error) {
	return c.ask(ctx, prompt)
}

// types implements asker: everything is typed.
func (c *console) types(field) bool { return true }

// paragraph reads lines until one that is only a dot.
func (c *console) paragraph(ctx context.Context, prompt string) (string, error) {
	c.say("%s (end with a line that is only a dot)", prompt)
	var lines []string
	for {
		l, err := c.ask(ctx, ">")
		if err != nil {
			return "", err
		}
		if l == "." {
			return strings.Join(lines, "\n"), nil
		}
		lines = append(lines, l)
	}
}

// yesWords and noWords are words that people type for yes and no.
var (
	yesWords = []string{"y", "yes", "ok", "approve", "approved"}
	noWords  = []string{"n", "no", "reject", "rejected", "decline", "refuse"}
)

// meant reports whether the typed word means the option: it is the option,
// its first letter, or another word for the same.
func meant(typed, option string) bool {
	if typed == option || typed == option[:1] {
		return true
	}
	for _, words := range [][]string{yesWords, noWords} {
		if slices.Contains(words, typed) && slices.Contains(words, option) {
			return true
		}
	}
	return false
}

// choose asks until the answer means an option.
func (c *console) choose(ctx context.Context, prompt string, options ...string) (string, error) {
	var shown []string
	for _, o := range options {
		shown = append(shown, "["+o[:1]+"]"+o[1:])
	}
	for {
		got, err := c.ask(ctx, prompt+" "+strings.Join(shown, ", ")+":")
		if err != nil {
			return "", err
		}
		got = strings.ToLower(strings.TrimSpace(got))
		for _, o := range options {
			if meant(got, o) {
				return o, nil
			}
		}
		if got != "" {
			c.say("  not one of them; type the letter in brackets")
		}
	}
}

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
