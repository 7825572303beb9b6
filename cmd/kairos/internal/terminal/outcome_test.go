package terminal_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/terminal"
)

// looking is a scene with one step that the server does itself, perhaps after an
// approval.
func looking(approve bool, seen ...string) scene {
	a := act{
		Type: "mcp", Name: "Find", Description: "Find it.", Display: json.RawMessage(`{"tool_name":"find","arguments":{}}`),
		Looks: seen, Passes: "found",
	}
	if approve {
		a.AskForm, a.Schema = `Approve step 1 of 1, "Find", of the protocol "P"?`, json.RawMessage(approvalForm)
	}
	return scene{Steps: []act{a}}
}

// A step that KAIROS does itself and that failed is tried again only when the
// person says so.
func TestAPersonDecidesWhetherAFailedStepIsTriedAgain(t *testing.T) {
	const enter = "\r"
	const question = "Step 1 of 1, Find, failed. Try it again?"
	for name, tc := range map[string]struct {
		scene scene
		plan  []keystrokes
		stop  string
	}{
		"once more": {looking(false, "nothing", "found"), []keystrokes{{question, "r" + enter}}, ""},
		"a call of the host": {
			scene{Steps: []act{{Type: "mcp", Name: "Find", Description: "Find it.", Display: json.RawMessage(`{"tool_name":"book","arguments":{"ok":false}}`), Passes: "never"}}},
			[]keystrokes{{"Call it?", "y" + enter}, {question, enter}}, "COMMAND_FAILED",
		},
		"enter stops":     {looking(false, "nothing", "found"), []keystrokes{{question, enter}}, "COMMAND_FAILED"},
		"after approvals": {looking(true, "nothing", "found"), []keystrokes{{"submit", "y" + enter}, {question, "r" + enter}, {"Your decision", "y" + enter}}, ""},
		"a new approval is not asked for at once": {
			looking(true, "nothing", "found"), []keystrokes{{"submit", "y" + enter}, {question, enter}}, "COMMAND_FAILED",
		},
	} {
		t.Run(name, func(t *testing.T) {
			res, person, err := playAtTerminal(t, tc.scene, "", tc.plan)
			if tc.stop == "" && (err != nil || !res.Verified) || tc.stop != "" && stopCode(err) != tc.stop {
				t.Errorf("Play = %+v, %v, want %q\n%q", res, err, tc.stop, person)
			}
			if got := strings.Count(person.String(), "✗"); got != 1 {
				t.Errorf("the failure is told %d times\n%q", got, person)
			}
		})
	}
}

func TestWhereNobodyIsThereAFailedStepIsTriedOnceMore(t *testing.T) {
	for name, tc := range map[string]struct {
		seen []string
		stop string
	}{
		"it works the second time": {[]string{"nothing", "found"}, ""},
		"it fails twice":           {[]string{"nothing", "nothing", "found"}, "COMMAND_FAILED"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config(t, looking(false, tc.seen...))
			var out bytes.Buffer
			cfg.Script, cfg.Out = script(t, "rules: [{on: elicitation, answer: approved}]"), &out
			res, err := play(t, cfg)
			if tc.stop == "" && (err != nil || !res.Verified) || tc.stop != "" && stopCode(err) != tc.stop {
				t.Errorf("Play = %+v, %v, want %q\n%s", res, err, tc.stop, &out)
			}
		})
	}
}

// A call may carry out a step and ask about the next one: the person reads first
// which step the question is about.
func TestTheHeadingOfAStepComesBeforeItsQuestions(t *testing.T) {
	s := looking(true, "found")
	s.Steps[0].AskForm = `Approve step 2 of 2, "Say \"hello\"", of the protocol "P"?`
	cfg := config(t, s)
	var out bytes.Buffer
	cfg.In, cfg.Out = strings.NewReader("y\n"), &out
	if _, err := play(t, cfg); err != nil {
		t.Fatal(err)
	}
	heading, question := strings.Index(out.String(), `Step 2 of 2: Say "hello"`), strings.Index(out.String(), "Approve step 2 of 2")
	if heading < 0 || heading > question {
		t.Errorf("the heading is at %d, the question at %d:\n%s", heading, question, &out)
	}
}

func TestAPersonIsNotAddressedAsAnAgent(t *testing.T) {
	for message, want := range map[string]string{
		"Exit code 1. Its stderr ends with:\n\n```data\nno such file\n```":                                                                                                                              "Exit code 1. Its stderr ends with:\nno such file",
		"driver tools was called for step 2 and did nothing: busy. Nothing is lost; call kairos_next again":                                                                                             "driver tools was called for step 2 and did nothing: busy. Nothing is lost",
		"Nobody can tell whether it did: cut off. Ask the person to look at the run. Nothing is repeated.":                                                                                              "Nobody can tell whether it did: cut off. Nothing is repeated.",
		"Step 2 needs a person's approval. Do not do the step's work. Tell the operator to add a page":                                                                                                  "Step 2 needs a person's approval.",
		"The result of find is not the expected one: result/a differs. KAIROS called it itself: do not call it. Ask the person to look at the run, and call kairos_next again once the cause is fixed.": "The result of find is not the expected one: result/a differs.",
		`The command "make" failed. Find and fix the cause, run the command again and submit its real result; do not fabricate one.`:                                                                    `The command "make" failed.`,
		"plain":                  "plain",
		"call kairos_next again": "call kairos_next again",
	} {
		if got := terminal.ForPerson(message); got != want {
			t.Errorf("ForPerson(%q) = %q, want %q", message, got, want)
		}
	}
}

// A step that takes long says so after a second; the line is gone when it has ended.
func TestAStepThatTakesLongSaysWhatItDoes(t *testing.T) {
	const line = "calling find … 1s (Ctrl-C stops it)"
	s := looking(false, "found")
	s.Steps[0].Takes = 1400
	res, person, err := playAtTerminal(t, s, "", nil)
	if err != nil || !res.Verified {
		t.Fatal(err)
	}
	_, after, seen := strings.Cut(person.String(), "\r\x1b[K"+line)
	if !seen || !strings.Contains(after, "\r\x1b[K") {
		t.Errorf("not shown and erased: %q in %q", line, person)
	}
	s.Steps[0].Takes = 0
	if _, person, _ := playAtTerminal(t, s, "", nil); strings.Contains(person.String(), "Ctrl-C stops it") {
		t.Errorf("shown for a step that takes no time: %q", person)
	}
}

func TestAnInterruptOfALongStepIsAnsweredAtOnce(t *testing.T) {
	s := looking(false, "found")
	s.Steps[0].Takes = 60_000
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	cfg := config(t, s)
	screen := &typist{plan: []keystrokes{{"Ctrl-C stops it", ""}}, keys: onWrite(interrupt)}
	cfg.Out, cfg.Signs = screen, true
	if _, err := terminal.Play(ctx, cfg); !errors.Is(err, context.Canceled) {
		t.Errorf("Play error = %v", err)
	}
	if !strings.Contains(screen.String(), "interrupted while calling find: the run stays open") {
		t.Errorf("an interrupt says nothing: %q", screen)
	}
}

// onWrite is a writer that calls a function.
type onWrite func()

func (f onWrite) Write(b []byte) (int, error) {
	f()
	return len(b), nil
}

// Lines end between words at the edge of the terminal, and what is quoted stays so.
func TestLinesBreakBetweenWordsAtATerminal(t *testing.T) {
	s := looking(true, "found")
	s.Steps[0].AskForm = "Approve?\n> " + strings.Repeat("wonderful ", 30) + "\nwww " + strings.Repeat("q", 150)
	_, person, err := playAtTerminal(t, s, "", []keystrokes{{"submit", "y\r"}})
	if err != nil {
		t.Fatal(err)
	}
	quoted := 0
	for line := range strings.SplitSeq(person.String(), "\r\n") {
		if !strings.Contains(line, "wonderful") {
			continue
		}
		quoted++
		if len(line) > 100 || !strings.HasPrefix(line, "  | > wonderful") || !strings.HasSuffix(line, "wonderful") && !strings.HasSuffix(line, "wonderful ") {
			t.Errorf("a line is %q", line)
		}
	}
	if quoted != 4 {
		t.Errorf("the text has %d lines:\n%q", quoted, person)
	}
}

// An approval shows everything, also a line that looks like the end of a block.
func TestQuestionsShowDataWithoutFences(t *testing.T) {
	for text, want := range map[string]string{
		"Run:\n> ```data\n> exit 3\n> ```\nDigest":                              "Run:\n> exit 3\nDigest",
		"> ````data\n> a\n> ```\n> ```data\n> b\n> ````\n> ```data\n> c\n> ```": "> a\n> ```\n> ```data\n> b\n> c",
		"> ```data\n> never ends":                                               "> ```data\n> never ends",
		"```data\n```":                                                          "",
		"```\nnot ours\n```":                                                    "```\nnot ours\n```",
	} {
		if got := terminal.Unfenced(text); got != want {
			t.Errorf("Unfenced(%q) = %q, want %q", text, got, want)
		}
	}
}

// A person is asked unless the question showed exactly this work.
func TestOnlyTheWholeWorkCountsAsApproved(t *testing.T) {
	const (
		head    = `Approve step 2 of 3, "Deploy", of the protocol "Release"?` + "\n"
		display = `{"cmd":"rm -rf dist","timeout_seconds":30}`
		done    = "It will be done with shell: "
	)
	for name, tc := range map[string]struct {
		question string
		want     bool
	}{
		"the same":             {head + done + display + "\nNothing is done before you approve.", true},
		"keys in other order":  {head + done + `{"timeout_seconds": 30, "cmd": "rm -rf dist"}` + "\n", true},
		"another step":         {`Approve step 1 of 3, "Deploy", of the protocol "Release"?` + "\n" + done + display, false},
		"another command":      {head + done + `{"cmd":"rm -rf /","timeout_seconds":30}`, false},
		"more is done":         {head + done + `{"cmd":"rm -rf dist"}`, false},
		"another type":         {head + "It will be done with mcp: " + display, false},
		"further down":         {head + "Read this first.\n" + done + display, false},
		"a protocol's text":    {"Shall we?\n" + head + done + display, false},
		"too long to be shown": {head + done + display[:20] + "…", false},
		"nothing was approved": {"", false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := terminal.WasApproved(tc.question, "shell", display); got != tc.want {
				t.Errorf("WasApproved(%q) = %t, want %t", tc.question, got, tc.want)
			}
		})
	}
}
