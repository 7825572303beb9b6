package terminal

import (
	"context"
	"errors"
	"strings"
	"syscall"

	tea "charm.land/bubbletea/v2"
	"charm.land/huh/v2"

	"github.com/kairos-mcp/kairos/sdk/plain"
)

// asker asks a person. The caller has the console's dialog.
type asker interface {
	// ask returns one line without its end.
	ask(ctx context.Context, prompt string) (string, error)
	// choose returns one of the options.
	choose(ctx context.Context, prompt string, options ...string) (string, error)
	// paragraph returns a text of any number of lines.
	paragraph(ctx context.Context, prompt string) (string, error)
	// value returns what is typed for a field of a form, or what represents one of
	// its choices.
	value(ctx context.Context, prompt string, fd field) (string, error)
}

// forms asks on a terminal: options are chosen with the arrow keys, and texts can
// be edited. What was answered stays on the screen as a line.
type forms struct{ *console }

func (f forms) ask(ctx context.Context, prompt string) (typed string, err error) {
	input := huh.NewInput().Title(plain.Line(prompt)).Value(&typed)
	err = f.run(ctx, input)
	return typed, f.answered(err, prompt, typed)
}

func (f forms) choose(ctx context.Context, prompt string, options ...string) (got string, err error) {
	choice := huh.NewSelect[string]().Title(plain.Line(prompt)).Options(huh.NewOptions(options...)...).Value(&got)
	err = f.run(ctx, choice, options...)
	return got, f.answered(err, prompt, got)
}

func (f forms) paragraph(ctx context.Context, prompt string) (text string, err error) {
	err = f.run(ctx, huh.NewText().Title(plain.Line(prompt)).ExternalEditor(false).Lines(linesOfText).Value(&text))
	return text, f.answered(err, prompt, text)
}

// linesOfText is how many lines of a text are seen while it is written.
const linesOfText = 8

func (f forms) value(ctx context.Context, prompt string, fd field) (typed string, err error) {
	choices := fd.choices
	if fd.typ == "boolean" {
		choices = []choice{{true, "yes"}, {false, "no"}}
	}
	if len(choices) == 0 || fd.typ == "array" {
		return f.ask(ctx, prompt)
	}
	prompt = strings.Replace(prompt, fd.howTo(), "", 1) // the options are seen
	var options []huh.Option[string]
	var titles []string
	for _, c := range choices {
		options, titles = append(options, huh.NewOption(plain.Line(c.title), c.title)), append(titles, strings.ToLower(c.title))
	}
	if fd.fallback != nil || !fd.required {
		options = append(options, huh.NewOption("(leave it out)", ""))
	}
	options = append(options, huh.NewOption("(decline)", typedDecline), huh.NewOption("(close without an answer)", typedCancel))
	err = f.run(ctx, huh.NewSelect[string]().Title(plain.Line(prompt)).Options(options...).Value(&typed), titles...)
	return typed, f.answered(err, prompt, typed)
}

// run shows a field until it is answered. Nothing else is printed meanwhile. A
// letter that means one of the options chooses it.
func (f forms) run(ctx context.Context, field huh.Field, options ...string) error {
	f.outMu.Lock()
	defer f.outMu.Unlock()
	keys := tea.WithFilter(func(_ tea.Model, msg tea.Msg) tea.Msg {
		key, ok := msg.(tea.KeyPressMsg)
		if !ok || len(options) == 0 || key.Text == "" {
			return msg
		}
		return chosen(strings.ToLower(key.Text), options)
	})
	// The program options come first: they replace what In and Out set.
	err := huh.NewForm(huh.NewGroup(field)).WithProgramOptions(keys).WithInput(f.stdin).WithOutput(f.out).
		WithTheme(huh.ThemeFunc(huh.ThemeBase16)).RunWithContext(ctx)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, huh.ErrUserAborted):
		// The form reads Ctrl-C as a key. It means here what it means elsewhere.
		if err := syscall.Kill(syscall.Getpid(), syscall.SIGINT); err != nil {
			return err
		}
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return err
}

// chosen are the keys that choose the option that a letter means; nil: it means
// none, or several.
func chosen(letter string, options []string) tea.Msg {
	at := -1
	for i, o := range options {
		if !meant(letter, o) {
			continue
		}
		if at >= 0 {
			return nil
		}
		at = i
	}
	if at < 0 {
		return nil
	}
	press := func(code rune) tea.Cmd { return func() tea.Msg { return tea.KeyPressMsg{Code: code} } }
	keys := []tea.Cmd{press(tea.KeyHome)}
	for range at {
		keys = append(keys, press(tea.KeyDown))
	}
	return tea.Sequence(append(keys, press(tea.KeyEnter))...)()
}

// answered prints what was answered, which the form takes off the screen.
func (f forms) answered(err error, prompt, answer string) error {
	if err == nil {
		f.say("%s %s", strings.TrimRight(prompt, " "), answer)
	}
	return err
}
