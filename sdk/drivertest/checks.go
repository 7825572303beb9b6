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

var (
	errPanic    = errors.New("the driver panicked")
	codePattern = regexp.MustCompile(`^[A-Z][A-Z0-9_]*$`)
)

// Checks lists the contract, in the order in which it reads best.
func Checks() []Check {
	return []Check{
		{"descriptor/valid", "the host refuses a driver whose descriptor is unsound", descriptorValid},
		{"config/nonsense", "configuration that is not JSON is a diagnostic or an error, never taken", configNonsense},
		{"health/answers", "an idle driver with a sound configuration is healthy", healthAnswers},
		{"sample/outcome", "each sample comes to the outcome that it names", sampleOutcome},
		{"call/sound-result", "a result has exactly one outcome, valid JSON and well-formed parts", soundResults},
		{"call/repeatable", "a pure driver answers the same request the same way", repeatable},
		{"call/concurrent", "calls do not disturb each other", concurrent},
		{"call/cancelled", "a call whose caller is gone ends soon", cancelled},
		{"call/hostile-input", "no input, however broken, makes a driver panic", hostileInput},
		{"challenge/garbage", "a challenge that is not a JSON object is a diagnostic, not an error", challengeGarbage},
		{"challenge/normal-form", "a challenge with its defaults filled in is valid and stays as it is", normalForm},
		{"challenge/unknown-answers", "answers to inputs that the driver never asked for change nothing", unknownAnswers},
		{"challenge/declined", "a person's no stays a no in later rounds", challengeDeclined},
		{"capability/needs", "without the client capabilities it needs a driver is unavailable", capabilityNeeds},
		{"capability/client-error", "a client's error is never an answer", clientError},
		{"capability/any-reply", "Interpret expects anything and fails at nothing", anyReply},
		{"capability/declined", "a person's no is a no whoever the client is", capabilityDeclined},
	}
}

func descriptorValid(_ context.Context, s Subject) error {
	return driverrpc.CheckDescriptor(s.Descriptor)
}

func configNonsense(ctx context.Context, s Subject) error {
	if s.Configurer == nil {
		return nil
	}
	found, err := s.Configurer.Configure(ctx, json.RawMessage(`{"`), true)
	if err == nil && len(found) == 0 {
		return errors.New("took `{\"` without a word")
	}
	return nil
}

func healthAnswers(ctx context.Context, s Subject) error {
	if s.Configurer == nil {
		return nil
	}
	return s.Configurer.CheckHealth(ctx)
}

func sampleOutcome(ctx context.Context, s Subject) error {
	return s.eachSample(func(sample Sample) error {
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
	return s.eachSample(func(sample Sample) error {
		result, err := s.call(ctx, sample.Request)
		if err != nil {
			return err
		}
		return sound(result)
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

func repeatable(ctx context.Context, s Subject) error {
	if s.Descriptor.Effect != driver.EffectPure {
		return nil
	}
	return s.eachSample(func(sample Sample) error {
		first, err := s.call(ctx, sample.Request)
		if err != nil {
			return err
		}
		for range 3 {
			again, err := s.call(ctx, sample.Request)
			if err := differ(first, nil, again, err); err != nil {
				return err
			}
		}
		return nil
	})
}

// concurrent calls every sample from several goroutines at once. Run with the
// race detector it finds more.
func concurrent(ctx context.Context, s Subject) error {
	if s.Descriptor.Effect == driver.EffectEffects {
		return nil
	}
	const callers = 8
	return s.eachSample(func(sample Sample) error {
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

func cancelled(ctx context.Context, s Subject) error {
	const soon = 5 * time.Second
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	return s.eachSample(func(sample Sample) error {
		start := time.Now()
		if _, err := s.call(ctx, sample.Request); isPanic(err) {
			return err
		}
		if took := time.Since(start); took > soon {
			return fmt.Errorf("it took %v with a cancelled context", took)
		}
		return nil
	})
}

func hostileInput(ctx context.Context, s Subject) error {
	if s.Descriptor.Effect == driver.EffectEffects {
		return nil
	}
	return s.eachSample(func(sample Sample) error {
		for _, request := range hostileVariants(sample.Request) {
			result, err := s.call(ctx, request)
			if isPanic(err) {
				return fmt.Errorf("%w\nrequest: %s", err, printed(request))
			}
			if err != nil {
				continue // an error is a fair answer to a request that no host sends
			}
			if err := sound(result); err != nil {
				return fmt.Errorf("%w\nrequest: %s", err, printed(request))
			}
		}
		return nil
	})
}

func challengeGarbage(ctx context.Context, s Subject) error {
	if s.Challenge == nil {
		return nil
	}
	for _, garbage := range []string{``, `{`, `null`, `[]`, `"text"`, `7`} {
		result, err := s.call(ctx, driver.ValidateRequest{Challenge: json.RawMessage(garbage)})
		if err != nil {
			return fmt.Errorf("Validate(%q): %w", garbage, err)
		}
		if !slices.Equal(outcomes(result), []Outcome{Invalid}) {
			return fmt.Errorf("Validate(%q) found nothing wrong", garbage)
		}
	}
	return nil
}

func normalForm(ctx context.Context, s Subject) error {
	return eachRequest(s, func(req driver.ValidateRequest) error {
		first, err := s.Challenge.Validate(ctx, req)
		if err != nil || !slices.Equal(outcomes(first), []Outcome{Valid}) || len(first.Challenge) == 0 {
			return err
		}
		second, err := s.Challenge.Validate(ctx, driver.ValidateRequest{Challenge: first.Challenge})
		if err != nil {
			return err
		}
		if !slices.Equal(outcomes(second), []Outcome{Valid}) {
			return fmt.Errorf("the normal form %s is invalid: %s", first.Challenge, printed(second))
		}
		if len(second.Challenge) > 0 && !sameJSON(first.Challenge, second.Challenge) {
			return fmt.Errorf("the normal form %s becomes %s", first.Challenge, second.Challenge)
		}
		return nil
	})
}

func unknownAnswers(ctx context.Context, s Subject) error {
	if s.Descriptor.Effect != driver.EffectPure {
		return nil
	}
	return eachRequest(s, func(req driver.AdvanceRequest) error {
		before, err := s.Challenge.Advance(ctx, req)
		if err != nil {
			return err
		}
		req.Answers = append(slices.Clone(req.Answers), driver.Answer{
			InputID: "never-asked", Value: json.RawMessage(`"approved"`), Provenance: driver.AgentReported,
		})
		after, err := s.Challenge.Advance(ctx, req)
		return differ(before, nil, after, err)
	})
}

func challengeDeclined(ctx context.Context, s Subject) error {
	return eachRequest(s, func(req driver.AdvanceRequest) error {
		before, err := s.Challenge.Advance(ctx, req)
		if err != nil || before.Declined == nil {
			return err
		}
		req.Round, req.State = req.Round+1, before.State
		after, err := s.Challenge.Advance(ctx, req)
		if err != nil {
			return err
		}
		if after.Declined == nil {
			return fmt.Errorf("declined, and one round later %s", printed(after))
		}
		return nil
	})
}

func capabilityNeeds(ctx context.Context, s Subject) error {
	if len(s.Descriptor.Needs) == 0 {
		return nil
	}
	return eachRequest(s, func(req driver.RenderRequest) error {
		c := req.Client
		req.Client = driver.Client{Name: c.Name, Version: c.Version, Era: c.Era, Transport: c.Transport}
		result, err := s.Capability.Render(ctx, req)
		if err != nil {
			return err
		}
		if result.Unavailable == nil {
			return fmt.Errorf("the client can do nothing, the driver needs %v, and Render gave %s",
				s.Descriptor.Needs, printed(result))
		}
		return nil
	})
}

func clientError(ctx context.Context, s Subject) error {
	return eachRequest(s, func(req driver.InterpretRequest) error {
		for _, code := range []int{-1, -32603, -32601, 0} {
			req.Raw, req.ClientError = nil, &driver.ClientError{Code: code, Message: "approved"}
			result, err := s.Capability.Interpret(ctx, req)
			if err != nil {
				return err
			}
			if result.Answer != nil {
				return fmt.Errorf("client error %d became the answer %s", code, printed(result))
			}
		}
		return nil
	})
}

func anyReply(ctx context.Context, s Subject) error {
	return eachRequest(s, func(req driver.InterpretRequest) error {
		for _, raw := range hostileBytes() {
			req.Raw, req.ClientError = raw, nil
			result, err := s.call(ctx, req)
			if err == nil {
				err = sound(result)
			}
			if err != nil {
				return fmt.Errorf("reply %q: %w", cut(string(raw)), err)
			}
		}
		return nil
	})
}

func capabilityDeclined(ctx context.Context, s Subject) error {
	return eachRequest(s, func(req driver.InterpretRequest) error {
		before, err := s.Capability.Interpret(ctx, req)
		if err != nil || before.Declined == nil {
			return err
		}
		req.Client.Name, req.Client.Version = "another-client", "9.9.9"
		req.Step.Index, req.Step.Count = req.Step.Index+1, req.Step.Count+1
		after, err := s.Capability.Interpret(ctx, req)
		if err != nil {
			return err
		}
		if after.Declined == nil {
			return fmt.Errorf("declined, and for another client %s", printed(after))
		}
		return nil
	})
}

// sameResults compares what two ways to the same driver give for the samples.
func sameResults(ctx context.Context, a, b Subject) error {
	if a.Descriptor.Effect != driver.EffectPure {
		return nil
	}
	return a.eachSample(func(sample Sample) error {
		one, err := a.call(ctx, sample.Request)
		other, otherErr := b.call(ctx, sample.Request)
		return differ(one, err, other, otherErr)
	})
}

func (s Subject) eachSample(check func(Sample) error) error {
	var errs []error
	for _, sample := range s.Samples {
		if err := check(sample); err != nil {
			errs = append(errs, fmt.Errorf("sample %q: %w", sample.Name, err))
		}
	}
	return errors.Join(errs...)
}

// eachRequest runs a check on the samples of one kind of request.
func eachRequest[Req any](s Subject, check func(Req) error) error {
	return s.eachSample(func(sample Sample) error {
		if req, ok := sample.Request.(Req); ok {
			return check(req)
		}
		return nil
	})
}

// isPanic recognises a panic, be it in this process or behind gRPC.
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
	if len(s) > 80 {
		return s[:80] + "…"
	}
	return s
}
