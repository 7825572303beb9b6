package drivertest

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// newKey is an idempotency key as the host makes them: opaque, and never used before.
func newKey() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// identity is what identifies a call of Advance or Render.
type identity struct {
	key     string
	attempt int
	recover bool
}

// identified returns the request as a call of that identity; requests of other
// methods have none and stay as they are.
func identified(request any, id identity) any {
	switch req := request.(type) {
	case driver.AdvanceRequest:
		req.IdempotencyKey, req.Attempt, req.Recover = id.key, id.attempt, id.recover
		return req
	case driver.RenderRequest:
		req.IdempotencyKey, req.Attempt, req.Recover = id.key, id.attempt, id.recover
		return req
	}
	return request
}

// identityOf is false for methods that neither act nor wait.
func identityOf(request any) (identity, bool) {
	switch req := request.(type) {
	case driver.AdvanceRequest:
		return identity{req.IdempotencyKey, req.Attempt, req.Recover}, true
	case driver.RenderRequest:
		return identity{req.IdempotencyKey, req.Attempt, req.Recover}, true
	}
	return identity{}, false
}

// orFresh is the identity with a key, a new one unless it has one.
func (id identity) orFresh() identity {
	if id.key == "" {
		id.key = newKey()
	}
	id.attempt = max(id.attempt, 1)
	return id
}

// keyed gives calls idempotency keys as the host does. A driver that may be
// asked again gets one for each sample. One with effects is never called twice
// with the same key, so it gets one for each call. Keys that a sample names stay.
func (s Subject) keyed() Subject {
	switch s.Descriptor.Effect {
	case driver.EffectReads:
		s.Samples, s.derived = withKeys(s.Samples), withKeys(s.derived)
	case driver.EffectEffects:
		if s.Challenge != nil {
			s.Challenge = keyedChallenge{s.Challenge}
		}
		if s.Capability != nil {
			s.Capability = keyedCapability{s.Capability}
		}
	}
	return s
}

func withKeys(samples []Sample) []Sample {
	out := slices.Clone(samples)
	for i, sample := range out {
		if id, ok := identityOf(sample.Request); ok {
			out[i].Request = identified(sample.Request, id.orFresh())
		}
	}
	return out
}

// keyedChallenge gives each call without a key one of its own.
type keyedChallenge struct{ driver.Challenge }

func (c keyedChallenge) Advance(ctx context.Context, req driver.AdvanceRequest) (driver.AdvanceResult, error) {
	id, _ := identityOf(req)
	id = id.orFresh()
	req.IdempotencyKey, req.Attempt = id.key, id.attempt
	return c.Challenge.Advance(ctx, req)
}

// keyedCapability gives each call without a key one of its own.
type keyedCapability struct{ driver.Capability }

func (c keyedCapability) Render(ctx context.Context, req driver.RenderRequest) (driver.RenderResult, error) {
	id, _ := identityOf(req)
	id = id.orFresh()
	req.IdempotencyKey, req.Attempt = id.key, id.attempt
	return c.Capability.Render(ctx, req)
}

// later is what came instead of an outcome.
type later struct {
	pending *driver.Pending
	unknown *driver.Unknown
	notDone *driver.NotDone
	state   driver.State
}

func laterOf(result any) later {
	switch r := result.(type) {
	case driver.AdvanceResult:
		return later{r.Pending, r.Unknown, r.NotDone, r.State}
	case driver.RenderResult:
		return later{r.Pending, r.Unknown, r.NotDone, driver.State{}}
	}
	return later{}
}

// recovers skips what only a driver with effects promises that can be asked what
// came of a call.
func (s Subject) recovers() error {
	if s.Descriptor.Effect != driver.EffectEffects {
		return unconcerned(fmt.Sprintf("its effect is %q, so nothing is lost with a reply", s.Descriptor.Effect))
	}
	if !s.Descriptor.Has(driver.FeatureRecover) {
		return unconcerned("it is never asked what came of a call: it lacks the feature " + driver.FeatureRecover)
	}
	return nil
}

// waits runs a check on the samples that come to pending.
func (s Subject) waits(ctx context.Context, check func(request, result any) error) error {
	err := eachRequest(ctx, s, `a sample with "want": "pending"`, func(request any) error {
		id, ok := identityOf(request)
		if !ok {
			return errPassedOver
		}
		if s.Descriptor.Effect != driver.EffectPure {
			request = identified(request, id.orFresh())
		}
		result, err := s.call(ctx, request)
		if err != nil || laterOf(result).pending == nil {
			return errPassedOver
		}
		return check(request, result)
	})
	waits := slices.ContainsFunc(s.Samples, func(sample Sample) bool { return sample.Want == Pending })
	if _, skipped := onlySkip(err); skipped && !waits {
		return unconcerned("none of its samples comes to pending")
	}
	return err
}

// maxRetryAfter is the longest wait between two calls that a host keeps to.
const maxRetryAfter = 3600 // seconds

func pendingSound(ctx context.Context, s Subject) error {
	return s.waits(ctx, func(_, result any) error {
		p := laterOf(result).pending
		switch {
		case s.Descriptor.Effect == driver.EffectPure:
			return errors.New("it is pure and answers pending; one that asks somebody, or looks whether something is done, has the effect reads")
		case s.Descriptor.Effect == driver.EffectEffects && !s.Descriptor.Has(driver.FeatureRecover):
			return fmt.Errorf("it has effects and answers pending, and cannot be asked what came of the call: it lacks the feature %s", driver.FeatureRecover)
		case strings.TrimSpace(p.Reason) == "":
			return errors.New("pending without a reason: nobody knows what is waited for")
		case !(p.RetryAfter >= 0 && p.RetryAfter <= maxRetryAfter):
			return fmt.Errorf("retry_after is %v, want 0 (the host decides) to %d seconds", p.RetryAfter, maxRetryAfter)
		case p.Progress != nil && !(*p.Progress >= 0 && *p.Progress <= 1):
			return fmt.Errorf("progress is %v, want 0 to 1", *p.Progress)
		}
		return nil
	})
}

// pendingContinues asks again as the host does: with the same key and the state
// that came back, and a driver that may have acted with recover.
func pendingContinues(ctx context.Context, s Subject) error {
	if s.Descriptor.Effect == driver.EffectEffects && s.recovers() != nil {
		return s.recovers() // it must not answer pending at all
	}
	return s.waits(ctx, func(request, result any) error {
		id, _ := identityOf(request)
		id.recover = id.recover || s.recovers() == nil
		return s.hereAndElsewhere(ctx, func(s Subject) error {
			again := identified(request, id)
			if req, ok := again.(driver.AdvanceRequest); ok {
				req.State = laterOf(result).state
				again = req
			}
			next, err := s.call(ctx, again)
			if err != nil {
				return fmt.Errorf("pending, and asked again it fails: %w", err)
			}
			err = continues(result, next)
			result = next
			return err
		})
	})
}

// continues says how a result breaks off what was pending.
func continues(before, after any) error {
	p, now := laterOf(before).pending, laterOf(after)
	switch lost := slices.Contains(outcomes(after), Unavailable); {
	case p == nil: // there is an outcome
		return nil
	case lost || now.unknown != nil || now.notDone != nil:
		return fmt.Errorf("pending, and asked again %s", printed(after))
	case now.pending != nil && progress(*now.pending) < progress(*p):
		return fmt.Errorf("pending with progress %v, and asked again with progress %v: it began anew", progress(*p), progress(*now.pending))
	}
	return nil
}

func progress(p driver.Pending) float64 {
	if p.Progress == nil {
		return 0
	}
	return *p.Progress
}

// hereAndElsewhere runs a check on the driver and, if it is a program, on
// another process of it: the one that acted may be gone.
func (s Subject) hereAndElsewhere(ctx context.Context, check func(Subject) error) error {
	if err := check(s); err != nil || s.Program == nil || s.Descriptor.Transport == driver.TransportExec {
		return err
	}
	other, err := s.fresh(ctx)
	if err != nil {
		return err
	}
	if err = check(other); err != nil {
		err = fmt.Errorf("in another process: %w", err)
	}
	return errors.Join(err, other.process.Close())
}

// acting runs a check on the requests whose samples say that the driver acts, of
// a driver that can be asked what came of it.
func (s Subject) acting(ctx context.Context, check func(request any) error) error {
	if err := s.recovers(); err != nil {
		return err
	}
	var samples []Sample
	for _, sample := range s.usable() {
		id, ok := identityOf(sample.Request)
		if ok && !id.recover && slices.Contains([]Outcome{Accepted, Answer, Pending}, sample.Want) {
			samples = append(samples, sample)
		}
	}
	if len(samples) == 0 {
		return skip("no sample shows it", `a sample with "want": "accepted" or "answer", and without "recover"`)
	}
	passed := 0
	err := s.each(ctx, samples, func(sample Sample) error {
		err := check(sample.Request)
		if errors.Is(err, errPassedOver) {
			passed++
			return nil
		}
		return err
	})
	if passed == len(samples) && err == nil {
		return unconcerned("no sample shows it")
	}
	return err
}

// acted is the outcome of a call that acted, without what may differ when it is
// told again; empty: the call did not come to one.
func acted(result any) string {
	switch r := result.(type) {
	case driver.AdvanceResult:
		if r.Accepted != nil {
			return printed(r.Accepted)
		}
	case driver.RenderResult:
		if r.Answer != nil {
			return printed([]any{r.Answer.Value, r.Answer.Provenance})
		}
	}
	return ""
}

func actsOnce(ctx context.Context, s Subject) error {
	return s.acting(ctx, func(request any) error {
		request = identified(request, identity{key: newKey(), attempt: 1})
		first, err := s.call(ctx, request)
		if err != nil || acted(first) == "" {
			return errPassedOver
		}
		second, err := s.call(ctx, request)
		if err == nil && acted(second) != acted(first) && laterOf(second).unknown == nil {
			return fmt.Errorf("the same key twice came to\n%s\nthen\n%s", printed(first), printed(second))
		}
		return nil // with an error it refuses to be called twice
	})
}

func recovered(ctx context.Context, s Subject) error {
	return s.acting(ctx, func(request any) error {
		id := identity{key: newKey(), attempt: 1}
		done, err := s.call(ctx, identified(request, id))
		if err != nil || acted(done) == "" {
			return errPassedOver
		}
		id.recover = true
		return s.hereAndElsewhere(ctx, func(s Subject) error {
			told, err := s.call(ctx, identified(request, id))
			if err != nil {
				return fmt.Errorf("it acted, and asked what came of it it fails: %w", err)
			}
			if acted(told) != acted(done) {
				return fmt.Errorf("it acted with\n%s\nand asked what came of it says\n%s", printed(done), printed(told))
			}
			return nil
		})
	})
}

// recoverOutcomes looks at what every sample comes to, and at what a driver says
// of keys that it never saw.
func recoverOutcomes(ctx context.Context, s Subject) error {
	err := eachRequest(ctx, s, "", func(request any) error {
		id, ok := identityOf(request)
		if !ok {
			return errPassedOver
		}
		result, err := s.call(ctx, request)
		if l := laterOf(result); err != nil || (l.unknown == nil && l.notDone == nil) {
			return errPassedOver
		}
		return s.soundUnknown(id, laterOf(result))
	})
	if _, skipped := onlySkip(err); err != nil && !skipped {
		return err
	}
	strange := s.acting(ctx, func(request any) error {
		id := identity{key: newKey(), attempt: 1, recover: true}
		result, err := s.call(ctx, identified(request, id))
		if err != nil {
			return fmt.Errorf("asked about a key that it never saw it fails: %w", err)
		}
		l := laterOf(result)
		if l.unknown == nil && l.notDone == nil {
			return fmt.Errorf("asked about a key that it never saw it says %s; want not_done or unknown", printed(result))
		}
		return s.soundUnknown(id, l)
	})
	if _, skipped := onlySkip(strange); skipped && err == nil {
		return nil // the samples showed it
	}
	return strange
}

// soundUnknown reports what is wrong with unknown and not_done.
func (s Subject) soundUnknown(id identity, l later) error {
	switch {
	case l.unknown != nil && s.Descriptor.Effect != driver.EffectEffects:
		return fmt.Errorf("its effect is %q, and it answers unknown: there is nothing that it could have done", s.Descriptor.Effect)
	case l.notDone != nil && !id.recover:
		return errors.New("it answers not_done, and was not asked what came of a call; one that cannot act is unavailable")
	case strings.TrimSpace(strings.Join(laterReason(l), "")) == "":
		return errors.New("unknown or not_done without a reason: nobody knows what to find out")
	}
	return nil
}

func laterReason(l later) []string {
	switch {
	case l.unknown != nil:
		return []string{l.unknown.Reason}
	case l.notDone != nil:
		return []string{l.notDone.Reason}
	}
	return nil
}

// notDone brings the request to the answer that the call with a new key did
// nothing, and returns that key.
func (s Subject) notDone(ctx context.Context, request any) (key string, err error) {
	id := identity{key: newKey(), attempt: 1, recover: true}
	result, err := s.call(ctx, identified(request, id))
	if err != nil || laterOf(result).notDone == nil {
		return "", errPassedOver
	}
	return id.key, nil
}

func anotherAttempt(ctx context.Context, s Subject) error {
	return s.acting(ctx, func(request any) error {
		if _, err := s.notDone(ctx, request); err != nil {
			return err
		}
		result, err := s.call(ctx, identified(request, identity{key: newKey(), attempt: 2}))
		if err != nil {
			return fmt.Errorf("the attempt after not_done fails: %w", err)
		}
		if acted(result) == "" && laterOf(result).pending == nil {
			return fmt.Errorf("the attempt after not_done, under another key, came to %s", printed(result))
		}
		return nil
	})
}

func lateCall(ctx context.Context, s Subject) error {
	return s.acting(ctx, func(request any) error {
		key, err := s.notDone(ctx, request)
		if err != nil {
			return err
		}
		result, err := s.call(ctx, identified(request, identity{key: key, attempt: 1}))
		if err == nil && (acted(result) != "" || laterOf(result).pending != nil) {
			return fmt.Errorf("it said not_done of a key, and a call with that key, which was still on its way, came to %s", printed(result))
		}
		return nil
	})
}
