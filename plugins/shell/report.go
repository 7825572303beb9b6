package main

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/fields"
	"github.com/kairos-mcp/kairos/sdk/prompt/untrusted"
)

// maxOutput is how many bytes of stdout and of stderr are kept.
const maxOutput = 32 << 10

// report is what somebody says about a run of the command.
type report struct {
	ExitCode int     `json:"exit_code" doc:"0 unless the step is not required"`
	Stdout   string  `json:"stdout" doc:"cut in the middle beyond 32 KiB"`
	Stderr   string  `json:"stderr" doc:"cut in the middle beyond 32 KiB"`
	duration float64 // seconds; negative: not said
}

// proof is recorded for a finished step.
type proof struct {
	Type    string  `json:"type"`
	Command string  `json:"cmd"`
	Timeout float64 `json:"timeout_seconds"`
	report
	Duration *float64 `json:"duration_seconds,omitempty"`
	Passed   bool     `json:"passed"`
	Failure  string   `json:"failure,omitempty"` // why it did not pass
}

// readReport reads the evidence. A rejection says what is missing in it.
func readReport(value json.RawMessage, p params) (report, *driver.Rejected) {
	o := fields.Open(value, "/shell")
	code, found := o.Number("exit_code")
	if !found && !o.Has("exit_code") {
		o.Wrong("exit_code", "is missing")
	}
	if found && (code != math.Trunc(code) || math.Abs(code) > math.MaxInt32) {
		o.Wrong("exit_code", "must be a whole number")
	}
	r := report{duration: -1}
	r.Stdout, _ = o.String("stdout")
	r.Stderr, _ = o.String("stderr")
	if seconds, found := o.Number("duration_seconds"); found {
		if seconds < 0 {
			o.Wrong("duration_seconds", "must not be negative")
		}
		r.duration = seconds
	}
	if problems := o.Problems(); problems != nil {
		return report{}, &driver.Rejected{Code: codeMissing, Retryable: true, Message: fmt.Sprintf(
			"Solution incomplete: %s. Run %q and submit shell with its real exit_code, stdout and stderr; do not make them up.",
			fields.Text(problems), p.Command)}
	}
	r.ExitCode = int(code)
	r.Stdout, r.Stderr = bounded(r.Stdout), bounded(r.Stderr)
	return r, nil
}

// bounded cuts the middle out of a long text: errors stand at the end, what
// was started stands at the beginning.
func bounded(text string) string {
	if len(text) <= maxOutput {
		return text
	}
	head, tail := maxOutput/2, len(text)-maxOutput/2
	for head > 0 && !utf8.RuneStart(text[head]) {
		head--
	}
	for tail < len(text) && !utf8.RuneStart(text[tail]) {
		tail++
	}
	return fmt.Sprintf("%s\n[... %d bytes cut ...]\n%s", text[:head], tail-head, text[tail:])
}

func judge(r report, p params, by driver.Provenance) (driver.AdvanceResult, error) {
	failure := failureOf(r, p)
	if failure != "" && p.required && by == driver.ServerObserved {
		return driver.Reject(codeFailed, fmt.Sprintf("The command %q %s. KAIROS ran it itself. Find and fix the cause, then call kairos_next again without evidence.%s",
			p.Command, failure, ending(r))), nil
	}
	if failure != "" && p.required {
		return driver.Reject(codeFailed, fmt.Sprintf(
			"The command %q %s. Find and fix the cause, run the command again and submit its real result; do not fabricate one.",
			p.Command, failure)), nil
	}
	pr := proof{Type: typeName, Command: p.Command, Timeout: p.Timeout, report: r, Passed: failure == "", Failure: failure}
	if r.duration >= 0 {
		pr.Duration = &r.duration
	}
	recorded, err := json.Marshal(pr)
	if err != nil {
		return driver.AdvanceResult{}, err
	}
	output, err := json.Marshal(r)
	return driver.Accept(recorded, output), err
}

// maxEnding is how much of an output is told to whoever has to fix the cause.
const maxEnding = 2 << 10 // bytes

// ending is the end of what the command wrote, as data.
func ending(r report) string {
	for _, out := range []struct{ name, text string }{{"stderr", r.Stderr}, {"stdout", r.Stdout}} {
		if text := strings.TrimSpace(out.text); text != "" {
			from := max(0, len(text)-maxEnding)
			for from < len(text) && !utf8.RuneStart(text[from]) {
				from++
			}
			return fmt.Sprintf(" Its %s ends with:\n\n%s", out.name, untrusted.Block(text[from:]))
		}
	}
	return ""
}

func failureOf(r report, p params) string {
	switch {
	case r.ExitCode != 0:
		return fmt.Sprintf("ended with exit code %d", r.ExitCode)
	case r.duration > p.Timeout:
		return fmt.Sprintf("took %v seconds, more than the %v allowed", r.duration, p.Timeout)
	}
	return ""
}
