package drivertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/driverrpc"
)

var codePattern = regexp.MustCompile(`^[A-Z][A-Z0-9_]{0,63}$`)

func healthAnswers(ctx context.Context, s Subject) error {
	if s.Configurer == nil {
		return nil
	}
	return s.Configurer.CheckHealth(ctx)
}

func sampleOutcome(ctx context.Context, s Subject) error {
	if len(s.Samples) == 0 {
		return skip("there are no samples", "samples")
	}
	return s.eachSample(ctx, func(sample Sample) error {
		result, err := s.call(ctx, sample.Request)
		if err != nil {
			return err
		}
		if got := outcomes(result); sample.Want != Any && !slices.Equal(got, []Outcome{sample.Want}) {
			return fmt.Errorf("outcome %v, want %s: %s", got, sample.Want, printed(result))
		}
		return nil
	})
}

func soundResults(ctx context.Context, s Subject) error {
	return s.eachSample(ctx, func(sample Sample) error {
		result, err := s.call(ctx, sample.Request)
		if err == nil {
			err = sound(result)
		}
		if err != nil && ctx.Err() == nil {
			s.found.blame(sample.Name)
			if gone := s.lives(ctx); gone != nil {
				return errors.Join(err, gone)
			}
		}
		return err
	})
}

// sound reports what is wrong with a result, whatever the request was.
func sound(result any) error {
	if got := outcomes(result); len(got) != 1 {
		return fmt.Errorf("the outcomes are %v, want exactly one", got)
	}
	if _, err := json.Marshal(result); err != nil {
		return fmt.Errorf("the result holds invalid JSON: %w", err)
	}
	if adv, ok := result.(driver.AdvanceResult); ok {
		return soundAdvance(adv)
	}
	if ren, ok := result.(driver.RenderResult); ok && ren.ClientRequest != nil && ren.ClientRequest.Method == "" {
		return errors.New("the client request names no method")
	}
	return nil
}

func soundAdvance(r driver.AdvanceResult) error {
	if r.Rejected != nil && !codePattern.MatchString(r.Rejected.Code) {
		return fmt.Errorf("error code %q does not match %s", r.Rejected.Code, codePattern)
	}
	if r.Rejected != nil && strings.TrimSpace(r.Rejected.Message) == "" {
		return errors.New("rejected without a message: the agent cannot know what to do better")
	}
	var seen []string
	for _, in := range r.NeedInput {
		if in.ID == "" || in.Kind == "" || slices.Contains(seen, in.ID) {
			return fmt.Errorf("input id %q, kind %q: ids are unique, neither is empty", in.ID, in.Kind)
		}
		seen = append(seen, in.ID)
	}
	return nil
}

func saysWhy(ctx context.Context, s Subject) error {
	return s.eachSample(ctx, func(sample Sample) error {
		result, err := s.call(ctx, sample.Request)
		if err != nil {
			return nil //nolint:nilerr // another check's finding
		}
		for _, words := range reasons(result) {
			if strings.TrimSpace(words) == "" {
				return fmt.Errorf("no word why: %s", printed(result))
			}
		}
		return nil
	})
}

// reasons are the words with which a result refuses.
func reasons(result any) []string {
	switch r := result.(type) {
	case driver.ValidateResult:
		return messages(r.Diagnostics)
	case driver.AdvanceResult:
		return append(unavailableReason(r.Unavailable), declinedReason(r.Declined)...)
	case driver.RenderResult:
		return unavailableReason(r.Unavailable)
	case driver.InterpretResult:
		out := append(unavailableReason(r.Unavailable), declinedReason(r.Declined)...)
		if r.Missing != nil {
			out = append(out, r.Missing.Reason)
		}
		if r.Dismissed != nil {
			out = append(out, r.Dismissed.Reason)
		}
		if r.Invalid != nil {
			out = append(out, strings.Join(messages(r.Invalid.Diagnostics), " "))
		}
		return out
	}
	return nil
}

func messages(found []driver.Diagnostic) []string {
	out := make([]string, len(found))
	for i, d := range found {
		out[i] = d.Message
	}
	return out
}

func unavailableReason(u *driver.Unavailable) []string {
	if u == nil {
		return nil
	}
	return []string{u.Reason}
}

func declinedReason(d *driver.Declined) []string {
	if d == nil {
		return nil
	}
	return []string{d.Reason}
}

// cancelled calls with a context that is over, and with one that ends under
// the call.
func cancelled(ctx context.Context, s Subject) error {
	err := s.eachLight(ctx, func(sample Sample) error {
		for _, after := range []time.Duration{0, 2 * time.Millisecond} {
			if after > 0 && s.Descriptor.Effect == driver.EffectChanges {
				continue
			}
			if err := cancelledAfter(ctx, s, sample, after); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return s.lives(ctx)
}

func cancelledAfter(ctx context.Context, s Subject, sample Sample, after time.Duration) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	gone := time.Now().Add(after)
	if after == 0 {
		cancel()
	} else {
		defer time.AfterFunc(after, cancel).Stop()
	}
	if _, err := s.call(ctx, sample.Request); isPanic(err) {
		return err
	}
	if late := time.Since(gone); late > s.soon {
		return fmt.Errorf("it continued for %v after its caller was gone", late.Round(time.Millisecond))
	}
	return nil
}

// everything are the samples and, for methods without one, the derived requests.
func (s Subject) everything() []Sample { return append(slices.Clone(s.Samples), s.derived...) }

// isPanic recognises a panic, be it in this process or behind a wire.
func isPanic(err error) bool {
	return errors.Is(err, errPanic) || driverrpc.IsDriverBug(err)
}

// printed is a canonical text of requests and results.
func printed(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprintf("%+v", v)
	}
	return string(b)
}
