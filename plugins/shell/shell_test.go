package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/drivertest"
	"github.com/kairos-mcp/kairos/sdk/drivertest/golden"
	"github.com/kairos-mcp/kairos/sdk/schema"
)

const build = `{"type":"shell","shell":{"cmd":"make build","timeout_seconds":5},"required":true}`

func advance(t *testing.T, d driver.Challenge, challenge string, evidence ...string) driver.AdvanceResult {
	t.Helper()
	req := driver.AdvanceRequest{Challenge: json.RawMessage(challenge)}
	for _, e := range evidence {
		req.Answers = append(req.Answers, driver.Answer{InputID: "evidence", Value: json.RawMessage(e), Provenance: driver.AgentReported})
	}
	res, err := d.Advance(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func TestWithoutEvidenceTheCommandIsAskedFor(t *testing.T) {
	drivertest.EachWay(t, definition(), func(t *testing.T, d driver.Driver) {
		golden.Compare(t, "need", advance(t, d.Challenge, build).NeedInput)
	})
}

func TestExitCodeZeroInTimePasses(t *testing.T) {
	for name, tc := range map[string]struct {
		challenge, evidence string
		code, says          string // empty code: accepted
		output              string
	}{
		"passed":          {build, `{"exit_code":0,"stdout":"ok","stderr":"w","duration_seconds":1.5}`, "", "", `{"exit_code":0,"stdout":"ok","stderr":"w"}`},
		"code only":       {build, `{"exit_code":0}`, "", "", `{"exit_code":0,"stdout":"","stderr":""}`},
		"nulls":           {build, `{"exit_code":0.0,"stdout":null}`, "", "", `{"exit_code":0,"stdout":"","stderr":""}`},
		"just in time":    {build, `{"exit_code":0,"duration_seconds":5}`, "", "", `{"exit_code":0,"stdout":"","stderr":""}`},
		"failed":          {build, `{"exit_code":2,"stderr":"no rule"}`, "COMMAND_FAILED", `"make build" ended with exit code 2`, ""},
		"negative":        {build, `{"exit_code":-1}`, "COMMAND_FAILED", "exit code -1", ""},
		"too slow":        {build, `{"exit_code":0,"duration_seconds":5.1}`, "COMMAND_FAILED", "took 5.1 seconds, more than the 5", ""},
		"no code":         {build, `{"stdout":"all good, trust me"}`, "MISSING_FIELD", "/shell/exit_code: is missing", ""},
		"null code":       {build, `{"exit_code":null}`, "MISSING_FIELD", "is missing", ""},
		"other case":      {build, `{"Exit_Code":0}`, "MISSING_FIELD", "is missing", ""},
		"text code":       {build, `{"exit_code":"0"}`, "MISSING_FIELD", "must be a number", ""},
		"true":            {build, `{"exit_code":true}`, "MISSING_FIELD", "must be a number", ""},
		"fraction":        {build, `{"exit_code":0.5}`, "MISSING_FIELD", "whole number", ""},
		"enormous":        {build, `{"exit_code":1e300}`, "MISSING_FIELD", "whole number", ""},
		"overflow":        {build, `{"exit_code":4294967296}`, "MISSING_FIELD", "whole number", ""},
		"two codes":       {build, `{"exit_code":1,"exit_code":0}`, "MISSING_FIELD", "occurs twice", ""},
		"negative time":   {build, `{"exit_code":0,"duration_seconds":-1}`, "MISSING_FIELD", "must not be negative", ""},
		"stdout a list":   {build, `{"exit_code":0,"stdout":["a"]}`, "MISSING_FIELD", "/shell/stdout: must be a string", ""},
		"not an object":   {build, `"exit 0"`, "MISSING_FIELD", "must be an object", ""},
		"empty":           {build, `{}`, "MISSING_FIELD", "do not make them up", ""},
		"optional failed": {`{"type":"shell","shell":{"cmd":"x"},"required":false}`, `{"exit_code":1}`, "", "", `{"exit_code":1,"stdout":"","stderr":""}`},
		"optional empty":  {`{"type":"shell","shell":{"cmd":"x"},"required":false}`, `{}`, "MISSING_FIELD", "is missing", ""},
		"legacy slow":     {`{"cmd":"x","required":true}`, `{"exit_code":0,"duration_seconds":59}`, "", "", `{"exit_code":0,"stdout":"","stderr":""}`},
		"default slow":    {`{"type":"shell","shell":{"cmd":"x"}}`, `{"exit_code":0,"duration_seconds":31}`, "COMMAND_FAILED", "more than the 30", ""},
	} {
		t.Run(name, func(t *testing.T) {
			drivertest.EachWay(t, definition(), func(t *testing.T, d driver.Driver) {
				res := advance(t, d.Challenge, tc.challenge, tc.evidence)
				if tc.code != "" {
					if res.Rejected == nil || res.Rejected.Code != tc.code || !strings.Contains(res.Rejected.Message, tc.says) || !res.Rejected.Retryable {
						t.Fatalf("Advance(%s) = %+v, want %s %q", tc.evidence, res, tc.code, tc.says)
					}
					return
				}
				if res.Accepted == nil || string(res.Accepted.Output) != tc.output {
					t.Fatalf("Advance(%s) = %+v, want accepted %s", tc.evidence, res, tc.output)
				}
			})
		})
	}
}

func TestProofSaysWhatHappened(t *testing.T) {
	for name, tc := range map[string]struct{ challenge, evidence, want string }{
		"passed": {build, `{"exit_code":0,"stdout":"ok","duration_seconds":2}`,
			`{"type":"shell","cmd":"make build","timeout_seconds":5,"exit_code":0,"stdout":"ok","stderr":"","duration_seconds":2,"passed":true}`},
		"optional failed": {`{"type":"shell","shell":{"cmd":"x"},"required":false}`, `{"exit_code":3}`,
			`{"type":"shell","cmd":"x","timeout_seconds":30,"exit_code":3,"stdout":"","stderr":"","passed":false,"failure":"ended with exit code 3"}`},
	} {
		t.Run(name, func(t *testing.T) {
			res := advance(t, definition().Challenge, tc.challenge, tc.evidence)
			if res.Accepted == nil {
				t.Fatalf("Advance(%s) = %+v, want accepted", tc.evidence, res)
			}
			if diff := cmp.Diff(tc.want, string(res.Accepted.Proof)); diff != "" {
				t.Errorf("proof (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLongOutputIsCutInTheMiddle(t *testing.T) {
	long := "begin " + strings.Repeat("é", 40<<10) + " the error"
	evidence, err := json.Marshal(map[string]any{"exit_code": 0, "stdout": long, "stderr": "short"})
	if err != nil {
		t.Fatal(err)
	}
	drivertest.EachWay(t, definition(), func(t *testing.T, d driver.Driver) {
		res := advance(t, d.Challenge, build, string(evidence))
		var out struct{ Stdout, Stderr string }
		if res.Accepted == nil || json.Unmarshal(res.Accepted.Output, &out) != nil {
			t.Fatalf("Advance = %+v, want accepted", res)
		}
		if len(out.Stdout) > maxOutput+100 || !utf8.ValidString(out.Stdout) || strings.ContainsRune(out.Stdout, utf8.RuneError) {
			t.Errorf("stdout has %d bytes, valid %v", len(out.Stdout), utf8.ValidString(out.Stdout))
		}
		if !strings.HasPrefix(out.Stdout, "begin ") || !strings.HasSuffix(out.Stdout, " the error") || !strings.Contains(out.Stdout, "bytes cut ...]") {
			t.Error("stdout lost its begin, its end or the mark between them")
		}
		if out.Stderr != "short" {
			t.Errorf("stderr = %q, want short", out.Stderr)
		}
	})
}

func TestValidateFindsWhatIsWrong(t *testing.T) {
	for name, tc := range map[string]struct {
		challenge string
		want      []driver.Diagnostic
		result    string
	}{
		"complete": {build, nil, `{"required":true,"shell":{"cmd":"make build","timeout_seconds":5},"type":"shell"}`},
		"defaults": {`{"shell":{"cmd":"x"},"name":"n"}`, nil, `{"name":"n","shell":{"cmd":"x","timeout_seconds":30},"type":"shell"}`},
		"legacy": {`{"cmd":"x","required":false}`, nil,
			`{"required":false,"shell":{"cmd":"x","timeout_seconds":60},"type":"shell"}`},
		"legacy timeout": {`{"cmd":"x","timeout_seconds":7}`, nil, `{"shell":{"cmd":"x","timeout_seconds":7},"type":"shell"}`},
		"template": {`{"type":"shell","shell":{"cmd":"{{ input.cmd }}"}}`,
			[]driver.Diagnostic{driver.Warning("/shell/cmd", "{{ input.cmd }} is the first word of a command, so whoever gives the value chooses the program")}, `{"shell":{"cmd":"{{ input.cmd }}","timeout_seconds":30},"type":"shell"}`},
		"unknown key": {`{"type":"shell","shell":{"cmd":"x","timout":1}}`, []driver.Diagnostic{driver.Warning("/shell/timout", `unknown key "timout"; did you mean "timeout_seconds"?`)},
			`{"shell":{"cmd":"x","timeout_seconds":30,"timout":1},"type":"shell"}`},
		"zero timeout": {`{"shell":{"cmd":"x","timeout_seconds":0}}`,
			[]driver.Diagnostic{driver.Warning("/shell/timeout_seconds", "0 is read as the default of 30 seconds")},
			`{"shell":{"cmd":"x","timeout_seconds":30},"type":"shell"}`},
		"a person":      {`{"shell":{"cmd":"x"},"evidence":"person"}`, wrong("/evidence", `no person can vouch for the exit code of a command: write "server", so that KAIROS runs it, or ask the person in a step of type user_input`), ""},
		"no command":    {`{"type":"shell","shell":{}}`, wrong("/shell/cmd", "a shell challenge needs the command to run"), ""},
		"no object":     {`{"type":"shell"}`, wrong("/shell/cmd", "a shell challenge needs the command to run"), ""},
		"blank command": {`{"shell":{"cmd":" "}}`, wrong("/shell/cmd", "a shell challenge needs the command to run"), ""},
		"command list":  {`{"shell":{"cmd":["ls"]}}`, wrong("/shell/cmd", "must be a string, not a list"), ""},
		"text timeout":  {`{"shell":{"cmd":"x","timeout_seconds":"30s"}}`, wrong("/shell/timeout_seconds", "must be a number, not a string"), ""},
		"negative":      {`{"shell":{"cmd":"x","timeout_seconds":-1}}`, wrong("/shell/timeout_seconds", "must be more than 0"), ""},
		"text":          {`{"type":"shell","shell":"ls"}`, append(wrong("/shell", "must be an object, not a string"), wrong("/shell/cmd", "a shell challenge needs the command to run")...), ""},
	} {
		t.Run(name, func(t *testing.T) {
			drivertest.EachWay(t, definition(), func(t *testing.T, d driver.Driver) {
				res, err := d.Challenge.Validate(t.Context(), driver.ValidateRequest{Challenge: json.RawMessage(tc.challenge)})
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tc.want, res.Diagnostics); diff != "" {
					t.Errorf("diagnostics (-want +got):\n%s", diff)
				}
				if string(res.Challenge) != tc.result {
					t.Errorf("challenge = %s, want %s", res.Challenge, tc.result)
				}
				if len(res.Templates) == 0 || res.Templates[0] != (driver.Template{Pointer: "/shell/cmd", Escaping: driver.EscapeShell}) {
					t.Errorf("templates = %v, want /shell/cmd as shell words", res.Templates)
				}
			})
		})
	}
}

func wrong(pointer, message string) []driver.Diagnostic {
	return []driver.Diagnostic{driver.Problem(pointer, message)}
}

func TestBrokenChallengeIsNeverPassed(t *testing.T) {
	for _, challenge := range []string{`{}`, `[]`, `{"shell":{"cmd":1}}`, `{"shell":{"cmd":"x"},"required":"no"}`, `{`} {
		if res := advance(t, definition().Challenge, challenge, `{"exit_code":0}`); res.Unavailable == nil {
			t.Errorf("Advance(%s) = %+v, want unavailable", challenge, res)
		}
	}
}

func FuzzEvidence(f *testing.F) {
	for _, seed := range []string{`{"exit_code":0}`, `{"exit_code":1,"stdout":"x"}`, `{"exit_code":1e308,"duration_seconds":-0}`, `null`, `{"exit_code":0,"exit_code":1}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, evidence []byte) {
		res := advance(t, definition().Challenge, build, string(evidence))
		if res.Accepted == nil {
			return
		}
		var members map[string]any
		if err := json.Unmarshal(evidence, &members); err != nil || fmt.Sprint(members["exit_code"]) != "0" && fmt.Sprint(members["exit_code"]) != "-0" {
			t.Errorf("accepted %s", evidence)
		}
		if found := schema.Validate(json.RawMessage(`{"type":"object","required":["exit_code","stdout","stderr"]}`), res.Accepted.Output); found != nil {
			t.Errorf("output %s: %v", res.Accepted.Output, found)
		}
	})
}

func TestWhatKAIROSRanItselfIsShownToWhoeverFixesIt(t *testing.T) {
	drivertest.EachWay(t, definition(), func(t *testing.T, d driver.Driver) {
		long := strings.Repeat("x", 5000)
		for evidence, says := range map[string]string{
			`{"exit_code":1,"stdout":"out","stderr":"main.go:3: undefined: y\n"}`: "Its stderr ends with:\n\n```data\nmain.go:3: undefined: y\n```",
			"{\"exit_code\":1,\"stdout\":\"" + long + "last```\"}":                "xlast```\n````",
			`{"exit_code":1}`: "without evidence.",
		} {
			req := driver.AdvanceRequest{Challenge: json.RawMessage(build), Answers: []driver.Answer{{
				InputID: inputID, Value: json.RawMessage(evidence), Provenance: driver.ServerObserved, Via: "command",
			}}}
			res, err := d.Challenge.Advance(t.Context(), req)
			if err != nil || res.Rejected == nil || !strings.HasSuffix(res.Rejected.Message, says) || len(res.Rejected.Message) > 3000 {
				t.Errorf("Advance(%.80s) = %+v, %v, want %q at the end", evidence, res, err, says)
			}
		}
	})
}

// What does not change the command is not part of its action.
func TestTheActionIsTheCommand(t *testing.T) {
	for _, challenge := range []string{
		`{"shell":{"cmd":"make ship"}}`, `{"shell":{"cmd":" make ship\n","timeout_seconds":31}}`, `{"shell":{"cmd":"make ship"},"required":false}`, `{"cmd":"make ship"}`,
	} {
		if got := string(advance(t, definition().Challenge, challenge).NeedInput[0].Action); got != `{"command":[["make","ship"]]}` {
			t.Errorf("the action of %s is %s", challenge, got)
		}
	}
}
