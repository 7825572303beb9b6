package terminal_test

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/creack/pty"
	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/terminal"
)

// typist is a person at a terminal: once a text is on the screen, they press keys.
type typist struct {
	plan []keystrokes
	keys io.Writer

	mu     sync.Mutex // guards the fields below
	screen bytes.Buffer
	read   int // bytes of screen in front of what is awaited
}

type keystrokes struct{ see, press string }

func (p *typist) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b, ended := bytes.CutSuffix(b, []byte(endOfScreen))
	p.screen.Write(b)
	if ended {
		return len(b), io.EOF
	}
	for len(p.plan) > 0 {
		_, after, seen := strings.Cut(p.screen.String()[p.read:], p.plan[0].see)
		if !seen {
			break
		}
		p.read = p.screen.Len() - len(after)
		press := p.plan[0].press
		p.plan = p.plan[1:]
		go func() { _, _ = io.WriteString(p.keys, press) }()
	}
	return len(b), nil
}

func (p *typist) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.screen.String()
}

func TestQuestionsAreFormsOnATerminal(t *testing.T) {
	const up, enter = "\x1b[A", "\r"
	for name, tc := range map[string]struct {
		plan []keystrokes
		want []string
		stop string
		says []string
	}{
		"letters choose, and a wrong value is asked for again": {
			plan: []keystrokes{
				{"Send it?", "w" + enter}, {"The model's answer", `["Adam","Betty"]` + enter},
				{"minutes [a whole number]", "soon" + enter}, {"not valid", ""}, {"minutes [a whole number]", "30" + enter},
				{"Send it?", "w" + enter}, {"The model's answer", `{"success":true}` + enter},
			},
			want: []string{"1 Resolve sampling", "2 Duration elicitation", "3 Book sampling"},
			says: []string{"Send it? write the answer\r\n", `"soon" is not a number`, "minutes [a whole number]: 30\r\n"},
		},
		"arrows choose": {
			plan: []keystrokes{
				{"Send it?", enter}, {"Call it?", up + up + enter},
				{"minutes [a whole number]", ":decline" + enter},
			},
			want: []string{"1 Resolve agent"}, stop: "USER_DECLINED",
			says: []string{"Send it? refuse\r\n", "Call it? yes\r\n"},
		},
		"a letter that means nothing does not answer": {
			plan: []keystrokes{{"Send it?", "x?/" + enter}, {"Call it?", "yx" + enter}},
			stop: terminal.StopRefused,
		},
	} {
		t.Run(name, func(t *testing.T) {
			res, person, err := playAtTerminal(t, calendar(), "", tc.plan)
			if diff := cmp.Diff(tc.want, vias(res)); diff != "" {
				t.Errorf("%s\n%q", diff, person)
			}
			if err == nil && tc.stop != "" || err != nil && stopCode(err) != tc.stop {
				t.Errorf("Play error = %v, want %q\n%q", err, tc.stop, person)
			}
			for _, text := range tc.says {
				if !strings.Contains(person.String(), text) {
					t.Errorf("not shown: %q in\n%q", text, person)
				}
			}
		})
	}
}

// playAtTerminal plays a scene with a person at a terminal, who has typed something
// already.
func playAtTerminal(t *testing.T, s scene, early string, plan []keystrokes) (terminal.Result, *typist, error) {
	t.Helper()
	keyboard, screen, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer keyboard.Close()
	if err := pty.Setsize(keyboard, &pty.Winsize{Rows: 40, Cols: 100}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(keyboard, early); err != nil {
		t.Fatal(err)
	}
	person := &typist{plan: plan, keys: keyboard}
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		_, _ = io.Copy(person, keyboard) // until the end is shown
	}()
	cfg := config(t, s)
	cfg.In, cfg.Out, cfg.Forms, cfg.Signs = screen, screen, true, true
	res, playErr := play(t, cfg)
	// The screen is not closed: a form asks for its size in a goroutine that outlives it.
	if _, err := io.WriteString(screen, endOfScreen); err != nil {
		t.Error(err)
	}
	<-watched
	return res, person, playErr
}

// endOfScreen is shown after a play, and nothing behind it.
const endOfScreen = "\x1e"

const (
	approvalForm = `{"type":"object","properties":{"confirmation":{"type":"string","title":"Your decision",` +
		`"description":"approved: do it; rejected: do not do it","enum":["approved","rejected"]}},"required":["confirmation"]}`
	acceptForm = `{"type":"object","properties":{"accept":{"type":"string","title":"Accept this?","description":"no: KAIROS does none of it; ` +
		`once: in this run; always: in every run of this version of the protocol","enum":["no","once","always"]}},"required":["accept"]}`
)

// asking is a scene with one step that asks the person with a form.
func asking(schema, passes string) scene {
	return scene{Steps: []act{{
		Type: "user_input", Name: "Act", Description: "Act.", AskForm: "Approve step 1 of 1?", Schema: json.RawMessage(schema),
		Display: json.RawMessage(`{"prompt":"Act?"}`), Passes: passes,
	}}}
}

// Nothing but Enter on the word that approves approves, and what comes first is
// the answer that changes nothing.
func TestAnApprovalNeedsTheWordAndEnter(t *testing.T) {
	const up, down, enter, declined, backspace = "\x1b[A", "\x1b[B", "\r", "USER_DECLINED", "\x7f"
	for name, tc := range map[string]struct {
		schema, press string
		stop          string // "": it passes
		says          string
		early         string // typed before the question comes
	}{
		"enter declines":              {approvalForm, enter, declined, "Your decision: decline\r\n", ""},
		"a word with an a in it":      {approvalForm, "wait" + enter, declined, "Your decision: decline\r\n", ""},
		"the next command of a shell": {approvalForm, "kairos accept" + enter, declined, "Your decision: decline\r\n", ""},
		"the word for decline":        {approvalForm, ":decline" + enter, declined, "Your decision: decline\r\n", ""},
		"typed before it was asked":   {approvalForm, enter, declined, "Your decision: decline\r\n", "y"},
		"y and enter":                 {approvalForm, "y" + enter, "", "Your decision: approve\r\n", ""},
		"yes and enter":               {approvalForm, "Yes" + enter, "", "Your decision: approve\r\n", ""},
		"a number and enter":          {approvalForm, "1" + enter, "", "Your decision: approve\r\n", ""},
		"an arrow and enter":          {approvalForm, up + enter, "", "Your decision: approve\r\n", ""},
		"typed again":                 {approvalForm, "x" + backspace + "y" + enter, "", "Your decision: approve\r\n", ""},
		"n after y":                   {approvalForm, "y" + backspace + "n" + enter, declined, "Your decision: decline\r\n", ""},
		"later":                       {approvalForm, "l" + enter, terminal.StopDismissed, "Your decision: later\r\n", ""},
		"enter accepts nothing":       {acceptForm, enter, "", "Accept this? no\r\n", ""},
		"o and enter":                 {acceptForm, "o" + enter, "", "Accept this? once\r\n", ""},
		"a and enter":                 {acceptForm, "a" + enter, "", "Accept this? always\r\n", ""},
		"2 and enter":                 {acceptForm, "2" + enter, "", "Accept this? once\r\n", ""},
		"3 and enter":                 {acceptForm, "3" + enter, "", "Accept this? always\r\n", ""},
		"n and enter":                 {acceptForm, "o" + backspace + "n" + enter, "", "Accept this? no\r\n", ""},
		"a word that means nothing":   {acceptForm, "whatever" + enter, "", "Accept this? no\r\n", ""},
		"an arrow down":               {approvalForm, down + enter, terminal.StopDismissed, "Your decision: later\r\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			passes := `"approved"`
			if tc.schema == acceptForm {
				passes = `"accept":"` + strings.TrimSuffix(strings.TrimPrefix(tc.says, "Accept this? "), "\r\n") + `"`
			}
			res, person, err := playAtTerminal(t, asking(tc.schema, passes), tc.early, []keystrokes{{"submit", tc.press}})
			if tc.stop == "" && (err != nil || !res.Verified) || tc.stop != "" && stopCode(err) != tc.stop {
				t.Errorf("Play = %+v, %v, want %q\n%q", res, err, tc.stop, person)
			}
			if !strings.Contains(person.String(), tc.says) {
				t.Errorf("not shown: %q in\n%q", tc.says, person)
			}
			for _, word := range []string{":decline declines", "(close", "filter"} {
				if strings.Contains(person.String(), word) {
					t.Errorf("shown: %q in\n%q", word, person)
				}
			}
		})
	}
}

func TestLettersAnswerOverAPipe(t *testing.T) {
	for typed, tc := range map[string]struct{ schema, passes, stop string }{
		"o":        {acceptForm, `"accept":"once"`, ""},
		"A":        {acceptForm, `"accept":"always"`, ""},
		"n":        {acceptForm, `"accept":"no"`, ""},
		"3":        {acceptForm, `"accept":"always"`, ""},
		"once":     {acceptForm, `"accept":"once"`, ""},
		"y":        {approvalForm, `"approved"`, ""},
		"n\n":      {approvalForm, `"rejected"`, ""},
		":decline": {approvalForm, `"approved"`, "USER_DECLINED"},
	} {
		t.Run(typed, func(t *testing.T) {
			cfg := config(t, asking(tc.schema, tc.passes))
			var out bytes.Buffer
			cfg.In, cfg.Out = strings.NewReader(typed+"\n"), &out
			res, err := play(t, cfg)
			if tc.stop == "" && (err != nil || !res.Verified) || tc.stop != "" && stopCode(err) != tc.stop {
				t.Errorf("Play = %+v, %v, want %q\n%s", res, err, tc.stop, &out)
			}
			if !strings.Contains(out.String(), ":decline declines") {
				t.Errorf("what can be typed is not shown:\n%s", &out)
			}
		})
	}
}
