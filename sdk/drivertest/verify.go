package drivertest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"runtime/debug"
	"time"

	"github.com/kairos-mcp/kairos/sdk/plain"
)

// DefaultTimeout is how long a single check may take.
const DefaultTimeout = 2 * time.Minute

// Options of Verify. The zero value works.
type Options struct {
	// Only are patterns of path.Match on check ids; empty: all checks.
	Only []string
	// Timeout bounds each check. The default is DefaultTimeout.
	Timeout time.Duration
	// Soon is what "within a second" means where a machine is busy with more
	// than the driver; 0: a second.
	Soon time.Duration
}

// Verify makes every check of a driver and reports what came of each. A
// subject with a Program is started by Verify, configured with its Config, and
// started again when it died; one without is called as it is, and has to be
// configured already. Verify stops what it started.
//
// The error is the caller's mistake: a sample for another role, a broken
// pattern. When ctx ends, it is ctx's, and the report has what was found so far.
func Verify(ctx context.Context, s Subject, opt Options) (Report, error) {
	for _, pattern := range opt.Only {
		if _, err := path.Match(pattern, ""); err != nil {
			return Report{}, fmt.Errorf("pattern %q of checks: %w", pattern, err)
		}
	}
	if opt.Timeout == 0 {
		opt.Timeout = DefaultTimeout
	}
	s.soon = cmp.Or(opt.Soon, time.Second)
	v := &verifier{subject: s, opt: opt}
	defer v.stop()
	began := time.Now()
	v.start(ctx)
	if v.subject.startFailed == nil && ctx.Err() == nil {
		for _, sample := range v.subject.Samples {
			if err := checkSample(v.subject.Descriptor.Role, sample); err != nil {
				return Report{}, fmt.Errorf("sample %q: %w", sample.Name, err)
			}
		}
	}
	v.subject = v.subject.derive()
	report := Report{Driver: v.subject.Descriptor, Began: began}
	for _, c := range Checks() {
		if !selected(c.ID, opt.Only) {
			continue
		}
		result := v.hold(ctx, c)
		if ctx.Err() != nil { // what it came to says nothing about the driver
			break
		}
		report.Results = append(report.Results, result)
	}
	report.Took, report.Interrupted = time.Since(began), ctx.Err() != nil
	return report, ctx.Err()
}

func selected(id string, only []string) bool {
	for _, pattern := range only {
		if ok, _ := path.Match(pattern, id); ok {
			return true
		}
	}
	return len(only) == 0
}

// verifier is one run of the checks on one subject.
type verifier struct {
	subject Subject
	opt     Options
}

// start starts the program if there is one and it does not run.
func (v *verifier) start(ctx context.Context) {
	if v.subject.Program == nil || v.subject.startFailed != nil || v.subject.found.hung() != "" || v.running(ctx) {
		return
	}
	v.stop()
	s := v.subject
	fresh, err := s.fresh(ctx)
	if errors.Is(err, errNoConfig) {
		fresh.unconfigured, err = err, nil
	}
	if err != nil {
		v.subject.startFailed = err
		if desc, err := describeByHand(ctx, s.Program); err == nil {
			v.subject.Descriptor = desc
		}
		return
	}
	v.subject = fresh
}

// running reports whether there is a process that still serves.
func (v *verifier) running(ctx context.Context) bool {
	if v.subject.process == nil {
		return false
	}
	if exited := v.subject.process.Exited(); exited != nil {
		select {
		case <-exited:
			return false
		default:
		}
	}
	return v.subject.lives(ctx) == nil
}

func (v *verifier) stop() {
	if v.subject.process != nil {
		_ = v.subject.process.Close() // how a process under test ends is not a finding of its own
		v.subject.process = nil
	}
}

// hold runs one check and judges what it returns.
func (v *verifier) hold(ctx context.Context, c Check) Result {
	began := time.Now()
	result := Result{ID: c.ID, Level: c.Level, Rule: c.Why, Status: Passed}
	v.start(ctx)
	answered := v.subject.found.hung() == ""
	err := v.ready(c)
	if err == nil {
		err = v.run(ctx, c)
	}
	result.Took = time.Since(began)
	if method := v.subject.found.hung(); method != "" && answered && ctx.Err() == nil {
		result.Status, result.Detail = Failed, fmt.Sprintf("%s gave no answer within %v, so no further call is made", method, callLimit)
		v.stop()
		return result
	}
	left := leftOutNote(v.subject.found.left())
	switch s, skipped := onlySkip(err); {
	case err == nil:
		result.Detail = printable(left)
	case skipped && s.Give == "":
		result.Status, result.Detail = NotConcerned, s.Why
	case skipped:
		result.Status, result.Detail, result.Give = Skipped, printable(s.Why), s.Give
	case c.Level == Should:
		result.Status, result.Detail = Warned, printable(err.Error())
	default:
		result.Status, result.Detail = Failed, printable(err.Error())
		v.stop() // so that what went wrong here shows nowhere else
	}
	return result
}

// ready says why a check cannot run on the subject as it is.
func (v *verifier) ready(c Check) error {
	s := v.subject
	if s.startFailed != nil && c.ID != "process/starts" && c.ID != "process/by-hand" {
		return skip("the driver did not start", "a driver that passes process/starts")
	}
	if s.found.isNoisy() && group(c.ID) != "descriptor" && group(c.ID) != "process" {
		return skip("it fails "+quietID+", so no reply can be told from noise", "a driver that passes "+quietID)
	}
	if method, g := s.found.hung(), group(c.ID); method != "" && g != "descriptor" && g != "process" {
		return skip(fmt.Sprintf("%s gave no answer within %v", method, callLimit), "a driver that answers")
	}
	if s.unconfigured != nil {
		switch group(c.ID) {
		case "descriptor", "process", "config":
		default:
			return skip(s.unconfigured.Error(), `"config" in the sample file`)
		}
	}
	return nil
}

// run gives up on a check that does not end, so that a driver that hangs in
// this process does not hang the report.
func (v *verifier) run(ctx context.Context, c Check) error {
	ctx, cancel := context.WithTimeout(ctx, v.opt.Timeout)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				done <- fmt.Errorf("the check panicked: %v\n%s", p, debug.Stack())
			}
		}()
		done <- c.Run(ctx, v.subject)
	}()
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		select {
		case err = <-done:
		case <-time.After(v.subject.soon):
		}
	}
	if ctx.Err() != nil { // an error then is of the clock and not of the driver
		return fmt.Errorf("the check ran out of its time limit of %v (give more with --timeout)", v.opt.Timeout)
	}
	return err
}

// cut is the beginning of a text in a finding.
func cut(s string) string { return plain.Clip(s, 300) }

// printable is text of a stranger, safe for a terminal and bounded.
func printable(s string) string { return plain.Text(plain.Clip(s, 4<<10)) }
