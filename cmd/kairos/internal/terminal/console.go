package terminal

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

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
