package terminal_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/terminal"
)

func TestParseScriptRefuses(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"nothing":                {"", "no rules"},
		"no rules":               {"rules: []", "no rules"},
		"unknown key":            {"rules: [{on: shell, run: true, then: x}]", "then"},
		"unknown top key":        {"rules: [{on: shell, run: true}]\nservers: x", "servers"},
		"unknown kind":           {"rules: [{on: magic, run: true}]", "magic"},
		"no action":              {"rules: [{on: shell}]", "exactly one"},
		"two actions":            {"rules: [{on: sampling, run: true, answer: x}]", "exactly one"},
		"action of another kind": {"rules: [{on: shell, answer: x}]", "answer cannot answer"},
		"second rule":            {"rules: [{on: shell, run: true}, {on: tool, decline: true}]", "rule 2"},
		"bad pattern":            {"rules: [{on: shell, matches: '(', run: true}]", "matches"},
		"both patterns":          {"rules: [{on: shell, matches: x, match: y, run: true}]", "exclude"},
		"negative times":         {"rules: [{on: shell, run: true, times: -1}]", "times"},
		"call no tool":           {"rules: [{on: sampling, call: {server: x}}]", "tool"},
		"no such group":          {"rules: [{on: sampling, matches: '(?P<a>x)', call: {tool: t, arguments: {x: ['${b}']}}}]", `"b"`},
		"no pattern":             {"rules: [{on: tool, match: x, arguments: {x: '${json:b}'}}]", `"b"`},
		"no such result":         {"rules: [{on: sampling, call: {tool: t, arguments: {x: '${result.people.a}'}}}]", "people"},
		"not YAML":               {"rules: [", "script"},
		"not a mapping":          {"- x", "script"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := terminal.ParseScript([]byte(tc.text))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("ParseScript = %v, want an error with %q", err, tc.want)
			}
		})
	}
}

func FuzzParseScript(f *testing.F) {
	for _, seed := range []string{
		calendarScript, "rules: [{on: shell, run: true}]", "rules:\n- {on: comment, answer: &a x}\n- {on: comment, answer: *a}",
		"rules: [{on: sampling, call: {tool: t, arguments: {x: '${result.a.0}$$'}, as: a}}]", "rules: [{on: tool, arguments: {1: 2}}]", "rules: [{on: confirm, answer: .nan}]",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := terminal.ParseScript(text)
		if (err == nil) != (s != nil) {
			t.Errorf("ParseScript = %v, %v, want a script or an error", s, err)
		}
	})
}

func TestFormAnswer(t *testing.T) {
	const two = `{"type":"object","required":["a"],"properties":{"a":{"type":"string","enum":["x","y"]},"b":{"type":"integer"}},"additionalProperties":false}`
	for name, tc := range map[string]struct{ schema, answer, want, wrong string }{
		"object":             {two, `{"a":"x","b":3}`, `{"a":"x","b":3}`, ""},
		"only field":         {durationForm, `30`, `{"minutes":30}`, ""},
		"only field, wrong":  {durationForm, `"30"`, "", "minutes"},
		"two fields, scalar": {two, `"x"`, "", "2 fields"},
		"not in the list":    {two, `{"a":"z"}`, "", "a"},
		"missing":            {two, `{"b":3}`, "", "a"},
		"extra":              {two, `{"a":"x","c":1}`, "", "c"},
		"nested":             {`{"type":"object","properties":{"a":{"type":"object"}}}`, `{}`, "", `"a"`},
		"not an object":      {`{"type":"string"}`, `"x"`, "", "object"},
		"reads no files":     {`{"type":"object","properties":{"a":{"type":"string","$ref":"file:///etc/passwd"}}}`, `{}`, "", "refer"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := terminal.FormAnswer(json.RawMessage(tc.schema), json.RawMessage(tc.answer))
			if tc.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wrong) {
					t.Errorf("FormAnswer = %v, %v, want an error with %q", got, err, tc.wrong)
				}
				return
			}
			raw, _ := json.Marshal(got)
			if err != nil || string(raw) != tc.want {
				t.Errorf("FormAnswer = %s, %v, want %s", raw, err, tc.want)
			}
		})
	}
}

func FuzzFormAnswer(f *testing.F) {
	f.Add([]byte(durationForm), []byte(`30`))
	f.Add([]byte(`{"type":"object","properties":{"a":{"enum":["x"],"enumNames":[]},"b":{"oneOf":[{"const":1}]}}}`), []byte(`{"a":"x"}`))
	f.Fuzz(func(t *testing.T, schema, answer []byte) {
		got, err := terminal.FormAnswer(schema, answer)
		if err == nil && got == nil {
			t.Error("neither an answer nor an error")
		}
	})
}

func TestParseHostFile(t *testing.T) {
	lookup := func(name string) (string, bool) {
		value, ok := map[string]string{"STATE": "/tmp/x", "EMPTY": ""}[name]
		return value, ok
	}
	for name, tc := range map[string]struct {
		text  string
		want  terminal.HostFile
		wrong string
	}{
		"usual": {
			`{"mcpServers":{"calendar":{"type":"stdio","command":"${BIN:-bin}/calendar","args":["--state","${STATE}","${EMPTY:-x}","$HOME"],"env":{"A":"${STATE}/b"}}},"allowAutoSampling":["KAIROS"],"other":1}`,
			terminal.HostFile{
				Servers: terminal.Servers{"calendar": {
					Command: "bin/calendar", Args: []string{"--state", "/tmp/x", "", "$HOME"}, Env: map[string]string{"A": "/tmp/x/b"},
				}},
				AllowAutoSampling: []string{"KAIROS"},
			}, "",
		},
		"empty":      {`{}`, terminal.HostFile{}, ""},
		"unset":      {`{"mcpServers":{"calendar":{"command":"x","args":["${NOPE}"]}}}`, terminal.HostFile{}, "calendar: environment variable NOPE"},
		"no command": {`{"mcpServers":{"calendar":{}}}`, terminal.HostFile{}, "either a command or a url"},
		"both":       {`{"mcpServers":{"calendar":{"command":"x","url":"https://x"}}}`, terminal.HostFile{}, "either a command or a url"},
		"remote": {
			`{"mcpServers":{"calendar":{"type":"http","url":"https://${EMPTY:-x}h/mcp","headers":{"Authorization":"Bearer ${STATE}"}}}}`,
			terminal.HostFile{Servers: terminal.Servers{"calendar": {URL: "https://h/mcp", Headers: map[string]string{"Authorization": "Bearer /tmp/x"}}}}, "",
		},
		"file URL": {`{"mcpServers":{"calendar":{"url":"file:///x"}}}`, terminal.HostFile{}, "does not begin with"},
		"not JSON": {`mcpServers:`, terminal.HostFile{}, "servers file"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := terminal.ParseHostFile([]byte(tc.text), lookup)
			if tc.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wrong) {
					t.Errorf("ParseHostFile error = %v, want %q", err, tc.wrong)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func FuzzParseHostFile(f *testing.F) {
	f.Add([]byte(`{"mcpServers":{"a":{"command":"${A:-b}","env":{"x":"${B}"}}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := terminal.ParseHostFile(text, func(string) (string, bool) { return "v", true })
		if err != nil {
			return
		}
		for name, s := range got.Servers {
			if (s.Command == "") == (s.URL == "") {
				t.Errorf("server %q has neither a command nor a url, or both", name)
			}
		}
	})
}

// The demo's files are read by the same code that plays them.
func TestDemoFilesAreValid(t *testing.T) {
	dir := filepath.Join("..", "..", "..", "..", "examples", "demo")
	scripts, err := filepath.Glob(filepath.Join(dir, "answers*.yaml"))
	if err != nil || len(scripts) < 3 {
		t.Fatalf("scripts = %v, %v", scripts, err)
	}
	for _, path := range scripts {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := terminal.ParseScript(text); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "servers.json"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := terminal.ParseHostFile(text, func(string) (string, bool) { return "x", true }); err != nil {
		t.Error(err)
	}
}
