package drivertest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/driverrpc"
)

func hostileInput(ctx context.Context, s Subject) error {
	budget := variantsPerSample(s)
	return s.eachLight(ctx, func(sample Sample) error {
		for _, request := range thin(hostileVariants(sample.Request), budget) {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err := survives(ctx, s, request); err != nil {
				return fmt.Errorf("%w\nrequest: %s", err, cut(printed(request)))
			}
		}
		return nil
	})
}

// survives makes a call that no host would make: an error is a fair answer, a
// panic, a dead process or an unsound result is not.
func survives(ctx context.Context, s Subject, request any) error {
	result, err := s.call(ctx, request)
	if isPanic(err) && notUTF8(err) {
		return fmt.Errorf("the reply holds text that is not valid UTF-8, which the wire cannot carry: %w", err)
	}
	if isPanic(err) {
		return err
	}
	if err != nil {
		return s.lives(ctx)
	}
	return sound(result)
}

// notUTF8 recognises a reply with text that is not UTF-8, whoever refused it:
// the library of the driver or the one of the host.
func notUTF8(err error) bool { return strings.Contains(err.Error(), "UTF-8") }

// variantsPerSample bounds the calls of a transport where each costs a process.
func variantsPerSample(s Subject) int {
	if s.Descriptor.Transport == driver.TransportExec {
		return max(4, 60/max(1, len(s.everything())))
	}
	return maxCopies * 4
}

// thin keeps about n of the requests, evenly.
func thin(all []any, n int) []any {
	if len(all) <= n {
		return all
	}
	out := make([]any, 0, n)
	for i := range n {
		out = append(out, all[i*len(all)/n])
	}
	return out
}

const (
	hugeBytes = 8 << 20
	largeSize = 6 << 20 // twice that still is a message
	callLimit = 30 * time.Second
)

// onePerMethod are the samples that the costly checks use: of each method the
// first one that gets furthest.
func onePerMethod(s Subject) []Sample {
	furthest := []Outcome{Accepted, Answer, Valid, ClientRequest, AgentChallenge}
	best := map[string]Sample{}
	var order []string
	for _, sample := range s.light() {
		kind := fmt.Sprintf("%T", sample.Request)
		have, known := best[kind]
		if !known {
			order = append(order, kind)
		}
		if !known || (!slices.Contains(furthest, have.Want) && slices.Contains(furthest, sample.Want)) {
			best[kind] = sample
		}
	}
	out := make([]Sample, len(order))
	for i, kind := range order {
		out[i] = best[kind]
	}
	return out
}

func hugeInput(ctx context.Context, s Subject) error {
	if len(s.light()) == 0 {
		return nothingUsable(s)
	}
	for _, sample := range onePerMethod(s) {
		for name, request := range hugeVariants(sample.Request) {
			if err := bears(ctx, s, request); err != nil {
				return fmt.Errorf("sample %q with %s: %w", sample.Name, name, err)
			}
		}
	}
	return nil
}

// bears makes a call that is hard work; only its end counts.
func bears(ctx context.Context, s Subject, request any) error {
	limited, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	began := time.Now()
	_, err := s.call(limited, request)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case isPanic(err):
		return err
	case time.Since(began) >= callLimit:
		return fmt.Errorf("it took more than %v", callLimit)
	case err != nil:
		return s.lives(ctx)
	}
	return nil
}

func sizeLimits(ctx context.Context, s Subject) error {
	if len(s.usable()) == 0 {
		return nothingUsable(s)
	}
	requests := map[string]any{}
	for _, sample := range s.usable() {
		requests["sample "+sample.Name] = sample.Request
	}
	for _, sample := range onePerMethod(s) {
		for i, request := range largeVariants(sample.Request) {
			requests[fmt.Sprintf("sample %s with 6 MiB, %d", sample.Name, i+1)] = request
		}
	}
	for name, request := range requests {
		result, err := s.call(ctx, request)
		if driverrpc.IsTooLarge(err) {
			return fmt.Errorf("%s: the result is larger than a message may be: %w", name, err)
		}
		if err != nil {
			continue
		}
		if err := withinLimits(result); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func withinLimits(result any) error {
	if n := len(printed(result)); n > driverrpc.MaxMessageBytes {
		return fmt.Errorf("the result has %d bytes, the wire carries %d", n, driverrpc.MaxMessageBytes)
	}
	for _, a := range answersIn(result) {
		if len(a.Value) > hugeBytes {
			return fmt.Errorf("the answer has %d bytes, the host takes %d", len(a.Value), hugeBytes)
		}
	}
	return nil
}

// answersIn are the answers that a capability driver gave.
func answersIn(result any) []driver.Answer {
	var a *driver.Answer
	switch r := result.(type) {
	case driver.RenderResult:
		a = r.Answer
	case driver.InterpretResult:
		a = r.Answer
	}
	if a == nil {
		return nil
	}
	return []driver.Answer{*a}
}
