package terminal_test

import (
	"bytes"
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
	p.screen.Write(b)
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
	const up, down, enter = "\x1b[A", "\x1b[B", "\r"
	for name, tc := range map[string]struct {
		plan []keystrokes
		want []string
		stop string
		says []string
	}{
		"letters choose, and a wrong value is asked for again": {
			plan: []keystrokes{
				{"Send it?", "w"}, {"The model's answer", `["Adam","Betty"]` + enter},
				{"minutes [a whole number]", "soon" + enter}, {"not valid", ""}, {"minutes [a whole number]", "30" + enter},
				{"Send it?", "w"}, {"The model's answer", `{"success":true}` + enter},
			},
			want: []string{"1 Resolve sampling", "2 Duration elicitation", "3 Book sampling"},
			says: []string{"Send it? write the answer\r\n", `"soon" is not a number`, "minutes [a whole number]: 30\r\n"},
		},
		"arrows choose": {
			plan: []keystrokes{
				{"Send it?", down + enter}, {"Call it?", enter},
				{"minutes [a whole number]", ":decline" + enter},
			},
			want: []string{"1 Resolve agent"}, stop: "USER_DECLINED",
			says: []string{"Send it? refuse\r\n", "Call it? yes\r\n"},
		},
		"a letter that means nothing does not answer": {
			plan: []keystrokes{{"Send it?", "x?" + up + "r"}, {"Call it?", "r"}},
			stop: terminal.StopRefused,
		},
	} {
		t.Run(name, func(t *testing.T) {
			keyboard, tty, err := pty.Open()
			if err != nil {
				t.Fatal(err)
			}
			defer keyboard.Close()
			if err := pty.Setsize(keyboard, &pty.Winsize{Rows: 40, Cols: 100}); err != nil {
				t.Fatal(err)
			}
			person := &typist{plan: tc.plan, keys: keyboard}
			watched := make(chan struct{})
			go func() {
				defer close(watched)
				_, _ = io.Copy(person, keyboard) // until the terminal is closed
			}()
			cfg := config(t, calendar())
			cfg.In, cfg.Out, cfg.Forms = tty, tty, true
			res, err := play(t, cfg)
			if err := tty.Close(); err != nil {
				t.Error(err)
			}
			<-watched
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
