package drivertest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/driverrpc"
)

func descriptorValid(_ context.Context, s Subject) error {
	return driverrpc.CheckDescriptor(s.Descriptor)
}

func descriptorStatic(ctx context.Context, s Subject) error {
	if s.describer == nil {
		return skip("the driver is called directly and describes itself only once", "a binary: kairos driver test BINARY")
	}
	for range 3 {
		again, err := s.describer.Describe(ctx)
		if err := sameDescriptor("Describe", s.Descriptor, again, err); err != nil {
			return err
		}
	}
	if s.Program == nil {
		return nil
	}
	for range 2 {
		printed, err := describeByHand(ctx, s.Program)
		if err := sameDescriptor(describeFlag, s.Descriptor, printed, err); err != nil {
			return err
		}
	}
	p, err := s.Program.Start(ctx)
	if err != nil {
		return err
	}
	other, err := s.withProcess(ctx, p)
	return errors.Join(sameDescriptor("Describe in another process", s.Descriptor, other.Descriptor, err), p.Close())
}

func sameDescriptor(way string, want, got driver.Descriptor, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", way, err)
	}
	if a, b := printed(want), printed(got); a != b {
		return fmt.Errorf("%s gives\n%s\nbut it was\n%s", way, b, a)
	}
	return nil
}

func processStarts(_ context.Context, s Subject) error {
	return s.startFailed
}

func processStartsSoon(_ context.Context, s Subject) error {
	if took := s.process.Took(); took > s.soon {
		return fmt.Errorf("it took %v", took.Round(time.Millisecond))
	}
	return nil
}

func processCleanEnvironment(ctx context.Context, s Subject) error {
	p, err := s.Program.StartBare(ctx)
	if err != nil {
		return fmt.Errorf("it needs variables of its operator to start: %w", err)
	}
	return p.Close()
}

func processByHand(ctx context.Context, s Subject) error {
	ctx, cancel := context.WithTimeout(ctx, 5*s.soon)
	defer cancel()
	out, err := s.Program.Run(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("it does not end: %w", err)
	case out.Took > s.soon:
		return fmt.Errorf("it took %v to end", out.Took.Round(time.Millisecond))
	case out.ExitStatus == 0:
		return errors.New("it ended with status 0, as if there had been something to do")
	case strings.TrimSpace(string(out.Stderr)) == "":
		return fmt.Errorf("it ended with status %d and without a word on stderr", out.ExitStatus)
	}
	return nil
}

// processQuiet calls whatever there is to call and looks at stdout then.
func processQuiet(ctx context.Context, s Subject) error {
	if p, ok := s.Program.(Printer); ok && s.Descriptor.Transport == driver.TransportExec {
		return quietReplies(ctx, s, p)
	}
	if s.Descriptor.Effect != driver.EffectChanges && s.unconfigured == nil {
		for _, sample := range s.everything() {
			_, _ = s.call(ctx, sample.Request)
		}
	}
	_ = s.lives(ctx)
	if noise := s.process.Noise(); len(noise) > 0 {
		return fmt.Errorf("%d lines on stdout, the first is %q; logs belong on stderr", len(noise), cut(noise[0]))
	}
	return nil
}

// quietReplies looks at what calls print besides their replies.
func quietReplies(ctx context.Context, s Subject, p Printer) error {
	type call struct{ method, request string }
	calls := []call{{driverrpc.MethodCheckHealth, "{}"}}
	if s.Descriptor.Effect != driver.EffectChanges {
		for _, sample := range s.everything() {
			calls = append(calls, call{methodOf(sample.Request), printed(sample.Request)})
		}
	}
	for _, c := range calls {
		limited, cancel := context.WithTimeout(ctx, callLimit)
		out, err := p.Print(limited, c.method, []byte(c.request))
		cancel()
		if err == nil && out.ExitStatus == 0 && hasNoise(out.Stdout) {
			s.found.setNoisy()
			return fmt.Errorf("%s printed %q, and not one JSON object alone; logs belong on stderr", c.method, cut(string(out.Stdout)))
		}
	}
	return nil
}

// hasNoise reports whether there is a JSON object on stdout, and something
// besides. Without one it is a broken reply, which is another check's finding.
func hasNoise(stdout []byte) bool {
	stdout = bytes.TrimSpace(stdout)
	if json.Valid(stdout) {
		return false
	}
	first := bytes.IndexByte(stdout, '{')
	for i := first; i >= 0 && i < len(stdout); i++ {
		// An object inside of a broken one does not begin a line.
		if stdout[i] != '{' || (i != first && stdout[i-1] != '\n') {
			continue
		}
		var object map[string]json.RawMessage
		if json.NewDecoder(bytes.NewReader(stdout[i:])).Decode(&object) == nil {
			return true
		}
	}
	return false
}

func processStderr(ctx context.Context, s Subject) error {
	for _, args := range [][]string{{describeFlag}, {}} {
		ctx, cancel := context.WithTimeout(ctx, 5*s.soon)
		out, err := s.Program.Run(ctx, args...)
		cancel()
		if err != nil {
			continue // another check's finding
		}
		for i, line := range strings.Split(string(out.Stderr), "\n") {
			if !utf8.ValidString(line) || strings.ContainsRune(line, 0) {
				return fmt.Errorf("run with %q, line %d of stderr is %q", args, i+1, cut(line))
			}
		}
	}
	return nil
}

func processLifeline(ctx context.Context, s Subject) (err error) {
	other, err := s.fresh(ctx)
	if errors.Is(err, errNoConfig) {
		err = nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, other.process.Close()) }()
	began := time.Now()
	other.process.CutLifeline()
	select {
	case <-other.process.Exited():
	case <-time.After(5 * s.soon):
		return fmt.Errorf("it runs on %v after its host is gone: end the process when stdin is closed", 5*s.soon)
	case <-ctx.Done():
		return ctx.Err()
	}
	if took := time.Since(began); took > s.soon {
		return fmt.Errorf("it took %v to end", took.Round(time.Millisecond))
	}
	return nil
}
