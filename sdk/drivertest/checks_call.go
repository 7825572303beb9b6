package drivertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
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
		result, err := s.plainCall(ctx, sample.Request)
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
		result, err := s.plainCall(ctx, sample.Request)
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

// plainCall makes a call that nothing makes hard.
func (s Subject) plainCall(ctx context.Context, request any) (any, error) {
	limited, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	result, err := s.call(limited, request)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return nil, fmt.Errorf("it gave no answer within %v", callLimit)
	}
	return result, err
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

// pure skips what only a pure driver promises.
func (s Subject) pure() error {
	if s.Descriptor.Effect != driver.EffectPure {
		return unconcerned(fmt.Sprintf("its effect is %q, so it may answer differently", s.Descriptor.Effect))
	}
	return nil
}

// tame skips what would change the world again and again.
func (s Subject) tame() error {
	if s.Descriptor.Effect == driver.EffectEffects {
		return unconcerned("a call changes the world and is not repeated")
	}
	return nil
}

func repeatable(ctx context.Context, s Subject) error {
	if err := s.pure(); err != nil {
		return err
	}
	const times = 10
	return s.eachLight(ctx, func(sample Sample) error {
		first, err := s.call(ctx, sample.Request)
		if err != nil {
			return err
		}
		for range times - 1 {
			again, err := s.call(ctx, sample.Request)
			if err := differ(first, nil, again, err); err != nil {
				return err
			}
		}
		return nil
	})
}

func otherProcess(ctx context.Context, s Subject) error {
	if err := s.program(); err != nil {
		return err
	}
	if err := s.pure(); err != nil {
		return err
	}
	other, err := s.fresh(ctx)
	if err != nil {
		return err
	}
	return errors.Join(sameResults(ctx, s, other), other.process.Close())
}

// sameResults compares what two ways to the same driver give for the samples.
func sameResults(ctx context.Context, a, b Subject) error {
	if err := a.pure(); err != nil {
		return nil //nolint:nilerr // nothing to compare
	}
	return a.eachSample(ctx, func(sample Sample) error {
		one, err := a.call(ctx, sample.Request)
		other, otherErr := b.call(ctx, sample.Request)
		return differ(one, err, other, otherErr)
	})
}

// concurrent calls every sample from several goroutines at once. Run with the
// race detector it finds more.
func concurrent(ctx context.Context, s Subject) error {
	if err := s.tame(); err != nil {
		return err
	}
	const callers = 8
	return s.eachLight(ctx, func(sample Sample) error {
		alone, err := s.call(ctx, sample.Request)
		if err != nil {
			return err
		}
		var wg sync.WaitGroup
		errs := make([]error, callers)
		for i := range callers {
			wg.Go(func() {
				got, err := s.call(ctx, sample.Request)
				errs[i] = err
				if s.Descriptor.Effect == driver.EffectPure {
					errs[i] = differ(alone, nil, got, err)
				}
			})
		}
		wg.Wait()
		return errors.Join(errs...)
	})
}

// cancelled calls with a context that is over, and with one that ends under
// the call.
func cancelled(ctx context.Context, s Subject) error {
	err := s.eachLight(ctx, func(sample Sample) error {
		for _, after := range []time.Duration{0, 2 * time.Millisecond} {
			if after > 0 && s.Descriptor.Effect == driver.EffectEffects {
				continue
			}
			if err := s.cancelledAfter(ctx, sample, after); err != nil {
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

func (s Subject) cancelledAfter(ctx context.Context, sample Sample, after time.Duration) error {
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

func hostileInput(ctx context.Context, s Subject) error {
	if err := s.tame(); err != nil {
		return err
	}
	budget := s.variantsPerSample()
	return s.eachLight(ctx, func(sample Sample) error {
		for _, request := range thin(hostileVariants(sample.Request), budget) {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err := s.survives(ctx, request); err != nil {
				return fmt.Errorf("%w\nrequest: %s", err, cut(printed(request)))
			}
		}
		return nil
	})
}

// survives makes a call that no host would make: an error is a fair answer, a
// panic, a dead process or an unsound result is not.
func (s Subject) survives(ctx context.Context, request any) error {
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
func (s Subject) variantsPerSample() int {
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
func (s Subject) onePerMethod() []Sample {
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
	if err := s.tame(); err != nil {
		return err
	}
	if len(s.light()) == 0 {
		return s.nothingUsable()
	}
	for _, sample := range s.onePerMethod() {
		for name, request := range hugeVariants(sample.Request) {
			if err := s.bears(ctx, request); err != nil {
				return fmt.Errorf("sample %q with %s: %w", sample.Name, name, err)
			}
		}
	}
	return nil
}

// bears makes a call that is hard work; only its end counts.
func (s Subject) bears(ctx context.Context, request any) error {
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
	if err := s.tame(); err != nil {
		return err
	}
	if len(s.usable()) == 0 {
		return s.nothingUsable()
	}
	requests := map[string]any{}
	for _, sample := range s.usable() {
		requests["sample "+sample.Name] = sample.Request
	}
	for _, sample := range s.onePerMethod() {
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

// everything are the samples and, for methods without one, the derived requests.
func (s Subject) everything() []Sample { return append(slices.Clone(s.Samples), s.derived...) }

// isPanic recognises a panic, be it in this process or behind a wire.
func isPanic(err error) bool {
	return errors.Is(err, errPanic) || driverrpc.IsDriverBug(err)
}

// differ says how the second result differs from the first.
func differ(want any, wantErr error, got any, gotErr error) error {
	if (wantErr == nil) != (gotErr == nil) {
		return fmt.Errorf("once the error was %q, then %q", fmt.Sprint(wantErr), fmt.Sprint(gotErr))
	}
	if a, b := printed(want), printed(got); wantErr == nil && a != b {
		return fmt.Errorf("once the result was\n%s\nthen\n%s", a, b)
	}
	return nil
}

func sameJSON(a, b json.RawMessage) bool { return printed(a) == printed(b) }

// printed is a canonical text of requests and results.
func printed(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprintf("%+v", v)
	}
	return string(b)
}

func cut(s string) string {
	const most = 300
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
