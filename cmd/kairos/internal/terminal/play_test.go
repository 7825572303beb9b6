package terminal_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/terminal"
)

func TestMain(m *testing.M) {
	if serveForTests() {
		return
	}
	goleak.VerifyTestMain(m)
}

// durationForm is a form with one field.
const durationForm = `{"type":"object","required":["minutes"],"properties":{"minutes":{"type":"integer","minimum":5,"maximum":480}}}`

// calendar is a scene with all that a server can ask for.
func calendar() scene {
	return scene{Steps: []act{
		{
			Type: "mcp", Name: "Resolve", Description: "Call look.", AskModel: `Resolve: ["Adam","Betty"] now`, Approval: "auto",
			Display: json.RawMessage(`{"tool_name":"tools.look","arguments":{"names":["Adam","Betty"]}}`), Passes: `["Adam","Betty"]`,
		},
		{
			Type: "user_input", Name: "Duration", Description: "How long?", AskForm: "How long?", Schema: json.RawMessage(durationForm),
			Display: json.RawMessage(`{"prompt":"How long?"}`), Passes: `30`,
		},
		{
			Type: "mcp", Name: "Book", Description: "Call book.", AskModel: "Book it", Approval: "user",
			Display: json.RawMessage(`{"tool_name":"book","arguments":{"ok":true}}`), Passes: `"success":true`,
		},
	}}
}

const calendarScript = `
rules:
  - on: sampling
    matches: 'Resolve: (?P<names>\[.*\])'
    call: {server: tools, tool: look, arguments: {names: '${json:names}', note: 'for ${names}'}, as: people}
  - {on: elicitation, match: how LONG, answer: 30}
  - on: sampling
    match: book it
    call: {tool: book, arguments: {ok: true, first: '${result.people.looked.names.0}', all: '${result.people.looked.names}'}}
  - {on: tool, run: true}
  - {on: confirm, match: how long, answer: {minutes: 30}}
`

// config of a host that plays the scene.
func config(t *testing.T, s scene) terminal.Config {
	t.Helper()
	raw, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// A process with the race detector sleeps a second before it exits.
	t.Setenv("GORACE", "atexit_sleep_ms=0")
	return terminal.Config{
		Server: []string{self}, ServerEnv: []string{directorEnv + "=" + string(raw)}, URI: headURI,
		Servers: terminal.Servers{"tools": {Command: self, Env: map[string]string{toolsEnv: "1"}}},
	}
}

func script(t *testing.T, text string) *terminal.Script {
	t.Helper()
	s, err := terminal.ParseScript([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func play(t *testing.T, cfg terminal.Config) (terminal.Result, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return terminal.Play(ctx, cfg)
}

// vias says how each step was solved.
func vias(r terminal.Result) []string {
	var out []string
	for _, s := range r.Solved {
		out = append(out, fmt.Sprintf("%d %s %s", s.StepIndex, s.Label, s.Via))
	}
	return out
}

func stopCode(err error) string {
	var stop *terminal.StopError
	if errors.As(err, &stop) {
		return stop.Code
	}
	return fmt.Sprint(err)
}

func TestScriptPlaysTheWholeProtocol(t *testing.T) {
	asked := []string{"1 Resolve sampling", "2 Duration elicitation", "3 Book sampling"}
	for name, tc := range map[string]struct {
		era     terminal.Era
		without []string
		version string
		want    []string
	}{
		"2025":                {terminal.Era2025, nil, "2025-11-25", asked},
		"2026":                {terminal.Era2026, nil, "2026-07-28", asked},
		"auto":                {terminal.EraAuto, nil, "2026-07-28", asked},
		"2025 without either": {terminal.Era2025, []string{"elicitation", "sampling"}, "2025-11-25", []string{"1 Resolve agent", "2 Duration agent", "3 Book agent"}},
		"2026 without either": {terminal.Era2026, []string{"elicitation", "sampling"}, "2026-07-28", []string{"1 Resolve agent", "2 Duration agent", "3 Book agent"}},
		"without sampling":    {terminal.Era2025, []string{"sampling"}, "2025-11-25", []string{"1 Resolve agent", "2 Duration elicitation", "3 Book agent"}},
		"without elicitation": {terminal.Era2026, []string{"elicitation"}, "2026-07-28", []string{"1 Resolve sampling", "2 Duration agent", "3 Book sampling"}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config(t, calendar())
			cfg.Era, cfg.Without, cfg.Script = tc.era, tc.without, script(t, calendarScript)
			res, err := play(t, cfg)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, vias(res)); diff != "" {
				t.Error(diff)
			}
			if !res.Attested || !res.Verified || res.RunID != "run-1" || res.Version != tc.version || res.Stopped != "" {
				t.Errorf("Play = %+v", res)
			}
			for i, output := range map[int]string{ // of the calls, with the values that the script picks
				0: `{"looked":{"names":["Adam","Betty"],"note":"for [\"Adam\",\"Betty\"]"}}`,
				2: `{"booked":{"all":["Adam","Betty"],"first":"Adam","ok":true},"success":true}`,
			} {
				var got string
				if err := json.Unmarshal(res.Solved[i].Output, &got); tc.without == nil && (err != nil || got != output) {
					t.Errorf("output of step %d = %s, want %s", i+1, res.Solved[i].Output, output)
				}
			}
		})
	}
}

// The whole question, with its line breaks as escapes, made the fault hard to find.
func TestAnAnswerThatDoesNotFitNamesTheFirstLineOfItsQuestion(t *testing.T) {
	for _, era := range []terminal.Era{terminal.Era2025, terminal.Era2026} {
		s := calendar()
		s.Steps[1].AskForm = "How long?\nIn minutes, please."
		cfg := config(t, s)
		cfg.Era, cfg.Script = era, script(t, strings.Replace(calendarScript, "answer: 30}", "answer: 3}", 1))
		res, err := play(t, cfg)
		told := fmt.Sprint(err, res)
		if want := `the answer to "How long?" does not fit the form: `; !strings.Contains(told, want) || !strings.Contains(told, "must be at least 5") || strings.Contains(told, "In minutes") {
			t.Errorf("%s: Play = %s, want %s and why", era, told, want)
		}
	}
}

func TestProtocolIsFound(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*terminal.Config)
		want   string
	}{
		"by words":          {func(c *terminal.Config) { c.URI, c.Query = "", "scene" }, ""},
		"no sure match":     {func(c *terminal.Config) { c.URI, c.Query = "", "a place" }, terminal.StopNotFound},
		"no match":          {func(c *terminal.Config) { c.URI, c.Query = "", "nothing" }, terminal.StopNotFound},
		"by its text":       {func(c *terminal.Config) { c.URI, c.Document = "", "# A protocol" }, ""},
		"text is not valid": {func(c *terminal.Config) { c.URI, c.Document = "", "prose" }, "INVALID_ARGUMENT"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config(t, calendar())
			cfg.Script = script(t, calendarScript)
			tc.change(&cfg)
			res, err := play(t, cfg)
			if tc.want == "" && (err != nil || res.Chain != headURI) {
				t.Errorf("Play = %+v, %v", res, err)
			}
			if tc.want != "" && stopCode(err) != tc.want {
				t.Errorf("Play error = %v, want code %s", err, tc.want)
			}
		})
	}
}

func TestRunStops(t *testing.T) {
	const tools = "\n  - {on: tool, run: true}"
	for name, tc := range map[string]struct {
		era    terminal.Era
		script string
		want   string
		solved int
	}{
		"person declines the form, 2025": {terminal.Era2025, "rules:\n  - {on: sampling, answer: '[\"Adam\",\"Betty\"]'}\n  - {on: elicitation, decline: true}", "USER_DECLINED", 1},
		"person declines the form, 2026": {terminal.Era2026, "rules:\n  - {on: sampling, answer: [Adam, Betty]}\n  - {on: elicitation, decline: true}", "USER_DECLINED", 1},
		"person closes the form":         {terminal.Era2026, "rules:\n  - {on: sampling, answer: [Adam, Betty]}\n  - {on: elicitation, cancel: true}", terminal.StopDismissed, 1},
		"prose, and the agent does it":   {terminal.Era2025, "rules:\n  - {on: sampling, answer: Sure thing}\n  - {on: elicitation, decline: true}" + tools, "USER_DECLINED", 1},
		"prose, and the work is refused": {terminal.Era2026, "rules:\n  - {on: sampling, answer: Sure thing}\n  - {on: tool, refuse: true}", terminal.StopRefused, 0},
		"model asked in vain":            {terminal.Era2025, "rules:\n  - {on: sampling, answer: {wrong: true}}\n  - {on: tool, arguments: {names: []}}", "MAX_RETRIES_EXCEEDED", 0},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config(t, calendar())
			cfg.Era, cfg.Script = tc.era, script(t, tc.script)
			res, err := play(t, cfg)
			if stopCode(err) != tc.want || len(res.Solved) != tc.solved {
				t.Errorf("Play = %d solved, %v, want %d and code %s", len(res.Solved), err, tc.solved, tc.want)
			}
			if res.Attested || res.Stopped == "" {
				t.Errorf("Play = %+v, want it not attested and Stopped", res)
			}
		})
	}
}

// A refusal reaches the server in both eras, and the agent's work is next.
func TestRefusedSamplingFallsToTheAgent(t *testing.T) {
	for _, era := range []terminal.Era{terminal.Era2025, terminal.Era2026} {
		t.Run(string(era), func(t *testing.T) {
			s := calendar()
			s.Steps = s.Steps[1:]
			cfg := config(t, s)
			cfg.Era = era
			var out bytes.Buffer
			cfg.Out = &out
			cfg.Script = script(t, "rules:\n  - {on: sampling, refuse: true}\n  - {on: elicitation, answer: 30}\n  - {on: tool, run: true}")
			res, err := play(t, cfg)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{"1 Duration elicitation", "2 Book agent"}, vias(res)); diff != "" {
				t.Error(diff)
			}
			if strings.Count(out.String(), "sampling: refused") != 1 {
				t.Errorf("the person was asked more than once:\n%s", &out)
			}
			if era == terminal.Era2025 && !strings.Contains(out.String(), "User rejected the request") {
				t.Errorf("the server was not told of the refusal:\n%s", &out)
			}
		})
	}
}

func TestUnansweredQuestionEndsTheRun(t *testing.T) {
	for name, tc := range map[string]struct {
		without []string
		rules   string
		kind    terminal.Kind
		quote   string
	}{
		"sampling":    {nil, "{on: shell, run: true}", terminal.KindSampling, `Resolve: ["Adam","Betty"] now`},
		"elicitation": {nil, "{on: sampling, answer: [Adam, Betty]}", terminal.KindElicitation, "How long?"},
		"used up":     {nil, "{on: sampling, answer: prose, times: 1}", terminal.KindTool, "look"},
		"tool":        {[]string{"sampling", "elicitation"}, "{on: shell, run: true}", terminal.KindTool, `["Adam","Betty"]`},
		"confirm":     {[]string{"sampling", "elicitation"}, "{on: tool, run: true}", terminal.KindConfirm, "How long?"},
	} {
		for _, era := range []terminal.Era{terminal.Era2025, terminal.Era2026} {
			t.Run(name+" "+string(era), func(t *testing.T) {
				cfg := config(t, calendar())
				cfg.Era, cfg.Without, cfg.Script = era, tc.without, script(t, "rules:\n  - "+tc.rules)
				_, err := play(t, cfg)
				var unanswered *terminal.UnansweredError
				if !errors.As(err, &unanswered) || unanswered.Kind != tc.kind || !strings.Contains(unanswered.Question, tc.quote) {
					t.Errorf("Play error = %v, want an unanswered %s question with %q", err, tc.kind, tc.quote)
				}
			})
		}
	}
}

func TestAgentDoesTheWorkOfEveryType(t *testing.T) {
	dir := t.TempDir()
	cfg := config(t, scene{Steps: []act{
		{Type: "shell", Name: "Command", Display: json.RawMessage(`{"cmd":"pwd; echo oops >&2; printf '%s' \"$KAIROS_LLM_API_KEY\"","timeout_seconds":10}`), Passes: `"exit_code":0`},
		{Type: "comment", Name: "Text", Description: "Say what was done.", Display: json.RawMessage(`{"min_length":5}`), Passes: "all is well"},
		{Type: "user_input", Name: "Confirm", Description: "Continue?", Display: json.RawMessage(`{"prompt":"Continue?"}`), Passes: `"confirmation":"approved"`},
		{Type: "mcp", Name: "Tool", Description: "Call book.", Display: json.RawMessage(`{"tool_name":"book"}`), Passes: `"arguments":{"ok":true}`},
		{Type: "weather", Name: "Other", Description: "Measure.", Display: json.RawMessage(`{"where":"here"}`), Passes: `{"celsius":21}`},
	}})
	t.Setenv(terminal.KeyEnv, "sesame")
	cfg.Dir, cfg.Without = dir, []string{"sampling", "elicitation"}
	cfg.Script = script(t, `
rules:
  - {on: shell, match: pwd, run: true}
  - {on: comment, answer: It is done and all is well.}
  - {on: confirm, match: continue, answer: approved}
  - {on: tool, match: book, arguments: {ok: true}}
  - {on: evidence, match: '"where":"here"', answer: {celsius: 21}}
`)
	res, err := play(t, cfg)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"1 Command agent", "2 Text agent", "3 Confirm agent", "4 Tool agent", "5 Other agent"}
	if diff := cmp.Diff(want, vias(res)); diff != "" {
		t.Fatal(diff)
	}
	command, booking := string(res.Solved[0].Output), string(res.Solved[3].Output)
	for _, part := range []string{dir, "oops", "duration_seconds"} {
		if !strings.Contains(command, part) {
			t.Errorf("command output %s lacks %q", command, part)
		}
	}
	if strings.Contains(command, "sesame") {
		t.Error("a command sees the model's key")
	}
	if !strings.Contains(booking, `\"success\":true`) || !strings.Contains(booking, `\"tool_name\":\"book\"`) {
		t.Errorf("tool report = %s", booking)
	}
}

func TestFailureIsReportedAsFailure(t *testing.T) {
	for name, tc := range map[string]struct {
		act    act
		script string
	}{
		"command": {act{Type: "shell", Name: "Command", Display: json.RawMessage(`{"cmd":"exit 3"}`), Passes: `"exit_code":3`}, "{on: shell, run: true}"},
		"killed":  {act{Type: "shell", Name: "Command", Display: json.RawMessage(`{"cmd":"sleep 60 & sleep 60","timeout_seconds":0.2}`), Passes: `"exit_code":124`}, "{on: shell, run: true}"},
		"signal":  {act{Type: "shell", Name: "Command", Display: json.RawMessage(`{"cmd":"kill -TERM $$"}`), Passes: `"exit_code":143`}, "{on: shell, run: true}"},
		"loud":    {act{Type: "shell", Name: "Command", Display: json.RawMessage(`{"cmd":"head -c 200000 /dev/zero | tr '\\0' x"}`), Passes: `[134464 bytes dropped]`}, "{on: shell, run: true}"},
		"tool":    {act{Type: "mcp", Name: "Tool", Display: json.RawMessage(`{"tool_name":"book"}`), Passes: `"success":false,"tool_name":"book"`}, "{on: tool, arguments: {ok: false}}"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config(t, scene{Steps: []act{tc.act}})
			cfg.Without, cfg.Script = []string{"sampling", "elicitation"}, script(t, "rules:\n  - "+tc.script)
			if res, err := play(t, cfg); err != nil || !res.Attested {
				t.Errorf("Play = %+v, %v", res, err)
			}
		})
	}
}

func TestWaitingForTheUserIsAskedAgain(t *testing.T) {
	s := calendar()
	s.WaitFirst = true
	cfg := config(t, s)
	cfg.Script = script(t, calendarScript)
	res, err := play(t, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if got := vias(res)[1]; got != "2 Duration elicitation" {
		t.Errorf("step 2 = %s, want the form, not the agent", got)
	}
}

// A person who takes longer than the server's call is not asked twice.
func TestLateAnswerCounts(t *testing.T) {
	s := calendar()
	s.Steps, s.Late = s.Steps[1:2], true
	in, typed := io.Pipe()
	cfg := config(t, s)
	out := &watcher{word: "minutes [a whole number]:", seen: func() {
		go func() { _, _ = io.WriteString(typed, "30\n") }()
	}}
	cfg.Era, cfg.In, cfg.Out = terminal.Era2025, in, out
	res, err := play(t, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"1 Duration elicitation"}, vias(res)); diff != "" {
		t.Error(diff)
	}
	if n := strings.Count(out.String(), "The server asks you"); n != 1 {
		t.Errorf("asked %d times", n)
	}
}

func TestServersDoNotSeeTheKey(t *testing.T) {
	t.Setenv(terminal.KeyEnv, "sesame")
	cfg := config(t, scene{Steps: []act{{
		Type: "mcp", Name: "Look around", Display: json.RawMessage(`{"tool_name":"mcp__tools__environment","arguments":{}}`), Passes: "PATH=",
	}}})
	cfg.Without, cfg.Script = []string{"sampling", "elicitation"}, script(t, "rules:\n  - {on: tool, run: true}")
	var out bytes.Buffer
	cfg.Out = &out
	res, err := play(t, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(res.Solved[0].Output)+out.String(), "sesame") {
		t.Error("a server sees the model's key")
	}
}

func TestServerThatCannotStart(t *testing.T) {
	for name, argv := range map[string][]string{
		"missing": {"/nonexistent/kairos"},
		"ends":    {"true"},
		"no MCP":  {"echo", "hello"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := terminal.Config{Server: argv, URI: headURI}
			if _, err := play(t, cfg); err == nil || !strings.Contains(err.Error(), argv[0]) {
				t.Errorf("Play error = %v, want one that names %s", err, argv[0])
			}
		})
	}
}

func TestConfigIsChecked(t *testing.T) {
	good := terminal.Config{Server: []string{"x"}, URI: headURI}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		change func(*terminal.Config)
		want   string
	}{
		"no server":     {func(c *terminal.Config) { c.Server = nil }, "server"},
		"nothing":       {func(c *terminal.Config) { c.URI = "" }, "exactly one"},
		"two":           {func(c *terminal.Config) { c.Query = "x" }, "exactly one"},
		"uri":           {func(c *terminal.Config) { c.URI = "kairos://mem/1" }, "uri"},
		"input":         {func(c *terminal.Config) { c.Input = json.RawMessage(`[1]`) }, "input"},
		"null input":    {func(c *terminal.Config) { c.Input = json.RawMessage(`null`) }, "input"},
		"era":           {func(c *terminal.Config) { c.Era = "2024" }, "era"},
		"without":       {func(c *terminal.Config) { c.Without = []string{"tools"} }, "without"},
		"model no name": {func(c *terminal.Config) { c.Model.URL = "http://localhost" }, "llm-model"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := good
			tc.change(&cfg)
			if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Validate = %v, want an error about %q", err, tc.want)
			}
		})
	}
}

func TestKeyIsNeverPrinted(t *testing.T) {
	m := terminal.Model{URL: "http://x", Key: "sesame"}
	raw, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	for _, shown := range []string{fmt.Sprint(m), fmt.Sprintf("%+v", m), fmt.Sprintf("%#v", m), string(raw)} {
		if strings.Contains(shown, "sesame") {
			t.Errorf("printed: %s", shown)
		}
	}
}

// A cancelled context ends a run that waits for a person.
func TestCancelEndsAQuestion(t *testing.T) {
	for _, era := range []terminal.Era{terminal.Era2025, terminal.Era2026} {
		t.Run(string(era), func(t *testing.T) {
			in, typed := io.Pipe()
			ctx, cancel := context.WithCancel(t.Context())
			cfg := config(t, calendar())
			cfg.Era, cfg.In = era, in
			cfg.Out = &watcher{word: "Send it?", seen: cancel}
			_, err := terminal.Play(ctx, cfg)
			if !errors.Is(err, context.Canceled) {
				t.Errorf("Play error = %v, want context.Canceled", err)
			}
			_ = typed.Close()
		})
	}
}

// watcher calls seen once when the word has been written.
type watcher struct {
	word string
	seen func()

	mu   sync.Mutex // guards text and done
	text bytes.Buffer
	done bool
}

func (w *watcher) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

func (w *watcher) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text.Write(p)
	if !w.done && strings.Contains(w.text.String(), w.word) {
		w.done = true
		w.seen()
	}
	return len(p), nil
}

// The label was shown with the step, so it gives way where a terminal has 80 columns.
func TestTheLineOfAProofFitsATerminal(t *testing.T) {
	s := calling(`{"tool_name":"book","arguments":{"ok":true}}`, "success")
	s.Steps[0].Name = "Book the great room for everybody who takes part in the yearly meeting"
	for name, signs := range map[string]bool{"terminal": true, "piped": false} {
		t.Run(name, func(t *testing.T) {
			cfg := config(t, s)
			var out bytes.Buffer
			cfg.Signs, cfg.Without, cfg.In, cfg.Out = signs, []string{"sampling", "elicitation"}, strings.NewReader("y\n"), &out
			if res, err := play(t, cfg); err != nil || !res.Verified {
				t.Fatalf("Play = %+v, %v", res, err)
			}
			var proof string
			for line := range strings.Lines(out.String()) {
				if strings.Contains(line, ", proof ") {
					proof = strings.TrimSuffix(line, "\n")
				}
			}
			if got := utf8.RuneCountInString(proof); signs && got != 80 || !signs && !strings.Contains(proof, s.Steps[0].Name) {
				t.Errorf("the line has %d characters: %q", got, proof)
			}
		})
	}
}
