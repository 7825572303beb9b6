package drivertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

func repeatable(ctx context.Context, s Subject) error {
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
	other, err := s.fresh(ctx)
	if err != nil {
		return err
	}
	return errors.Join(sameResults(ctx, s, other), other.process.Close())
}

// sameResults compares what two ways to the same driver give for the samples.
func sameResults(ctx context.Context, a, b Subject) error {
	if a.Descriptor.Effect != driver.EffectPure { // nothing to compare
		return nil
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
