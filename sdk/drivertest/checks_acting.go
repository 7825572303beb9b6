package drivertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// recovers skips what only a driver with effects promises that can be asked what
// came of a call.
func recovers(d driver.Descriptor) error {
	if d.Effect != driver.EffectChanges {
		return unconcerned(fmt.Sprintf("its effect is %q, so nothing is lost with a reply", d.Effect))
	}
	if !d.Has(driver.FeatureRecover) {
		return unconcerned("it is never asked what came of a call: it lacks the feature " + driver.FeatureRecover)
	}
	return nil
}

// acting runs a check on the requests whose samples say that the driver acts, of
// a driver that can be asked what came of it.
func acting(ctx context.Context, s Subject, check func(request any) error) error {
	if err := recovers(s.Descriptor); err != nil {
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
	shown, err := each(ctx, samples, func(sample Sample) error { return check(sample.Request) })
	if !shown {
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
	return acting(ctx, s, func(request any) error {
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
	return acting(ctx, s, func(request any) error {
		id := identity{key: newKey(), attempt: 1}
		done, err := s.call(ctx, identified(request, id))
		if err != nil || acted(done) == "" {
			return errPassedOver
		}
		id.recover = true
		return hereAndElsewhere(ctx, s, func(s Subject) error {
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
		return soundUnknown(s, id, laterOf(result))
	})
	if _, skipped := onlySkip(err); err != nil && !skipped {
		return err
	}
	strange := unseen(ctx, s, identity{attempt: 1, recover: true})
	if _, skipped := onlySkip(strange); skipped && err == nil {
		return nil // the samples showed it
	}
	return strange
}

// unseen asks about keys that the driver never saw.
func unseen(ctx context.Context, s Subject, id identity) error {
	return acting(ctx, s, func(request any) error {
		id.key = newKey()
		result, err := s.call(ctx, identified(request, id))
		if err != nil {
			return fmt.Errorf("asked about a key that it never saw it fails: %w", err)
		}
		l := laterOf(result)
		if l.unknown == nil && l.notDone == nil {
			return fmt.Errorf("asked about a key that it never saw it says %s; want not_done or unknown", printed(result))
		}
		return soundUnknown(s, id, l)
	})
}

// soundUnknown reports what is wrong with unknown and not_done.
func soundUnknown(s Subject, id identity, l later) error {
	switch {
	case l.unknown != nil && s.Descriptor.Effect != driver.EffectChanges:
		return fmt.Errorf("its effect is %q, and it answers unknown: there is nothing that it could have done", s.Descriptor.Effect)
	case l.notDone != nil && !id.recover:
		return errors.New("it answers not_done, and was not asked what came of a call; one that cannot act is unavailable")
	case l.unknown != nil && strings.TrimSpace(l.unknown.Reason) == "", l.notDone != nil && strings.TrimSpace(l.notDone.Reason) == "":
		return errors.New("unknown or not_done without a reason: nobody knows what to find out")
	}
	return nil
}

// notDone brings the request to the answer that the call with a new key did
// nothing, and returns that key.
func notDone(ctx context.Context, s Subject, request any) (key string, err error) {
	id := identity{key: newKey(), attempt: 1, recover: true}
	result, err := s.call(ctx, identified(request, id))
	if err != nil || laterOf(result).notDone == nil {
		return "", errPassedOver
	}
	return id.key, nil
}

func anotherAttempt(ctx context.Context, s Subject) error {
	return acting(ctx, s, func(request any) error {
		if _, err := notDone(ctx, s, request); err != nil {
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
	return acting(ctx, s, func(request any) error {
		key, err := notDone(ctx, s, request)
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
