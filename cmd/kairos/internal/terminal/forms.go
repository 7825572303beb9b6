package terminal

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
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
	// choose returns one of the options. The last one is the harmless answer.
	choose(ctx context.Context, prompt string, options ...string) (string, error)
	// paragraph returns a text of any number of lines.
	paragraph(ctx context.Context, prompt string) (string, error)
	// value returns what is typed for a field of a form, or what represents one of
	// its choices.
	value(ctx context.Context, prompt string, fd field) (string, error)
	// types reports whether the field is answered by typing rather than by a choice.
	types(fd field) bool
}

// forms asks on a terminal: options are chosen with the arrow keys, and texts can
// be edited. What was answered stays on the screen as a line.
type forms struct{ *console }

func (f forms) ask(ctx context.Context, prompt string) (typed string, err error) {
	input := huh.NewInput().Title(plain.Line(prompt)).Value(&typed)
	err = f.run(ctx, input, nil)
	return typed, f.answered(err, prompt, typed)
}

func (f forms) choose(ctx context.Context, prompt string, options ...string) (string, error) {
	all := make([]option, len(options))
	for i, o := range options {
		all[i] = plainOption(o)
	}
	return f.pick(ctx, prompt, all, len(all)-1)
}

func (f forms) paragraph(ctx context.Context, prompt string) (text string, err error) {
	err = f.run(ctx, huh.NewText().Title(plain.Line(prompt)).ExternalEditor(false).Lines(linesOfText).Value(&text), nil)
	return text, f.answered(err, prompt, text)
}

// linesOfText is how many lines of a text are seen while it is written.
const linesOfText = 8

func (f forms) types(fd field) bool {
	return fd.typ == "array" || len(fd.choices) == 0 && fd.typ != "boolean"
}

func (f forms) value(ctx context.Context, prompt string, fd field) (typed string, err error) {
	if f.types(fd) {
		return f.ask(ctx, prompt)
	}
	prompt = strings.Replace(prompt, fd.howTo(), "", 1)
	if fd.explained() != nil {
		prompt = "  " + cmp.Or(fd.title, fd.name) // the options say the rest
		if !strings.HasSuffix(prompt, "?") {
			prompt += ":"
		}
	}
	options, at := optionsOf(fd)
	return f.pick(ctx, prompt, options, at)
}

// pick asks for one of the options; at is the harmless one, which Enter alone
// confirms. What is typed moves to the option that it means, and confirms nothing.
func (f forms) pick(ctx context.Context, prompt string, options []option, at int) (string, error) {
	picked := options[at].value
	shown := make([]huh.Option[string], len(options))
	for i, o := range options {
		shown[i] = huh.NewOption(plain.Line(o.shown), o.value)
	}
	choice := huh.NewSelect[string]().Title(plain.Line(prompt)).Value(&picked).Options(shown...)
	typed := ""
	err := f.run(ctx, choice, func(key tea.KeyPressMsg) bool {
		if key.Text == "" && key.Code != tea.KeyBackspace {
			typed = ""
			return false
		}
		typed += strings.ToLower(key.Text)
		if key.Code == tea.KeyBackspace {
			typed = ""
		}
		picked = options[meantAmong(typed, options, at)].value
		choice.Options(shown...) // moves to what is picked
		return true
	})
	at = slices.IndexFunc(options, func(o option) bool { return o.value == picked })
	return picked, f.answered(err, prompt, options[at].word)
}

// run shows a field until it is answered. Nothing else is printed meanwhile. The
// field does not see the keys that takes reports to have dealt with.
func (f forms) run(ctx context.Context, field huh.Field, takes func(tea.KeyPressMsg) bool) error {
	f.outMu.Lock()
	defer f.outMu.Unlock()
	f.eraseLocked()
	filter := tea.WithFilter(func(_ tea.Model, msg tea.Msg) tea.Msg {
		if key, ok := msg.(tea.KeyPressMsg); ok && takes != nil && takes(key) {
			return struct{}{} // draws what has changed
		}
		return msg
	})
	keys := huh.NewDefaultKeyMap()
	keys.Select.Filter.SetKeys()
	// The program options come first: they replace what In and Out set.
	err := huh.NewForm(huh.NewGroup(field)).WithProgramOptions(filter).WithInput(f.stdin).WithOutput(f.out).
		WithKeyMap(keys).WithTheme(huh.ThemeFunc(huh.ThemeBase16)).RunWithContext(ctx)
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

// answered prints what was answered, which the form takes off the screen.
func (f forms) answered(err error, prompt, answer string) error {
	if err == nil {
		f.say("%s %s", strings.TrimRight(prompt, " "), answer)
	}
	return err
}

// option is one answer that a person can choose.
type option struct {
	word  string // names it, and is what a person types
	shown string // the word, or more than that
	value string // what is answered
}

func plainOption(word string) option { return option{word, word, word} }

// optionsOf are the answers to a field that is answered by a choice, and the index
// of the harmless one.
func optionsOf(fd field) (options []option, harmless int) {
	if fd.approves() {
		options = []option{
			{"approve", "approve", approved}, {"decline", "decline", typedDecline}, {"later", "later: the run stays open", typedCancel},
		}
		return options, 1
	}
	choices := fd.choices
	if fd.typ == "boolean" {
		choices = []choice{{true, "yes"}, {false, "no"}}
	}
	for i, c := range choices {
		options = append(options, plainOption(c.title))
		if said := fd.explained(); said != nil {
			options[i].shown = said[i]
		}
	}
	switch no := slices.IndexFunc(options, func(o option) bool { return slices.Contains(noWords, strings.ToLower(o.value)) }); {
	case fd.fallback != nil || !fd.required:
		harmless = len(options)
		options = append(options, option{"(left out)", "(leave it out)", ""})
	case no >= 0:
		harmless = no
	}
	if fd.accepts() {
		return options, harmless // declining and closing the form mean the same as no
	}
	return append(options, option{"(declined)", "(decline to answer)", typedDecline}, option{"(later)", "(answer later)", typedCancel}), harmless
}

// explained are the choices with what each means, where the description says that
// of every one of them in order; nil: it does not.
func (fd field) explained() []string {
	said := strings.Split(fd.description, "; ")
	if len(said) != len(fd.choices) {
		return nil
	}
	for i, c := range fd.choices {
		if !strings.HasPrefix(said[i], c.title+": ") {
			return nil
		}
	}
	return said
}

// approves reports whether the field is the decision of an approval: it takes the
// words that approve and reject, and a rejection declines.
func (fd field) approves() bool {
	return len(fd.choices) == 2 && fd.choices[0].value == approved && fd.choices[1].value == rejected
}

// accepts reports whether the field is the answer to the question whether the person accepts
// what KAIROS would do itself. Anything but a clear answer declines there.
func (fd field) accepts() bool {
	return fd.name == "accept" && len(fd.choicesAmong(noWords)) == 1
}

// meantAmong is the index of the option that was typed, by its number or the
// beginning of a word that means it; harmless: none was, or several.
func meantAmong(typed string, options []option, harmless int) int {
	if i, err := strconv.Atoi(typed); err == nil && i >= 1 && i <= len(options) {
		return i - 1
	}
	at := -1
	for i, o := range options {
		if typed == "" || !beginsWordFor(typed, strings.ToLower(o.word)) {
			continue
		}
		if at >= 0 {
			return harmless
		}
		at = i
	}
	if at < 0 {
		return harmless
	}
	return at
}

// beginsWordFor reports whether what was typed begins the option, or another word
// for the same.
func beginsWordFor(typed, option string) bool {
	begins := func(word string) bool { return strings.HasPrefix(word, typed) }
	return begins(option) || slices.ContainsFunc([][]string{yesWords, noWords}, func(words []string) bool {
		return slices.Contains(words, option) && slices.ContainsFunc(words, begins)
	})
}
