package drivertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

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

// waits runs a check on the samples that come to pending.
func waits(ctx context.Context, s Subject, check func(request, result any) error) error {
	err := eachRequest(ctx, s, `a sample with "want": "pending"`, func(request any) error {
		if _, ok := identityOf(request); !ok {
			return errPassedOver
		}
		if s.Descriptor.Effect != driver.EffectPure {
			request = withKey(request)
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
	return waits(ctx, s, func(_, result any) error {
		p := laterOf(result).pending
		switch {
		case s.Descriptor.Effect == driver.EffectPure:
			return errors.New("it is pure and answers pending; one that asks somebody, or looks whether something is done, has the effect reads")
		case s.Descriptor.Effect == driver.EffectChanges && !s.Descriptor.Has(driver.FeatureRecover):
			return fmt.Errorf("its effect is changes and it answers pending, and cannot be asked what came of the call: it lacks the feature %s", driver.FeatureRecover)
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
	if s.Descriptor.Effect == driver.EffectChanges && recovers(s.Descriptor) != nil {
		return recovers(s.Descriptor) // it must not answer pending at all
	}
	return waits(ctx, s, func(request, result any) error {
		id, _ := identityOf(request)
		id.recover = id.recover || recovers(s.Descriptor) == nil
		return hereAndElsewhere(ctx, s, func(s Subject) error {
			next, err := s.call(ctx, followUp(request, id, result))
			if err != nil {
				return fmt.Errorf("pending, and asked again it fails: %w", err)
			}
			err = continues(result, next)
			result = next
			return err
		})
	})
}

// followUp is the request as it is made again after a result, with the state of that.
func followUp(request any, id identity, result any) any {
	request = identified(request, id)
	if req, ok := request.(driver.AdvanceRequest); ok {
		req.State = laterOf(result).state
		return req
	}
	return request
}

// cancelWait is how long a driver may take to end what a call started.
const cancelWait = 5 * time.Second

// cancels starts what takes time, and cancels it; then it cancels what was never
// started.
func cancels(ctx context.Context, s Subject) error {
	err := waits(ctx, s, func(request, result any) error {
		id, _ := identityOf(request)
		id.recover, id.cancel = true, true
		for end := time.Now().Add(cancelWait); laterOf(result).pending != nil; {
			if time.Now().After(end) {
				return fmt.Errorf("%s after it was cancelled it is still pending", cancelWait)
			}
			var err error
			if result, err = s.call(ctx, followUp(request, id, result)); err != nil {
				return fmt.Errorf("cancelled, it fails: %w", err)
			}
			time.Sleep(20 * time.Millisecond)
		}
		return nil
	})
	if _, skipped := onlySkip(err); err != nil && !skipped {
		return err
	}
	return unseen(ctx, s, identity{attempt: 1, recover: true, cancel: true})
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
func hereAndElsewhere(ctx context.Context, s Subject, check func(Subject) error) error {
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
